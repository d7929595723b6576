import { LRUCache } from 'lru-cache';
import type { Db, Queryable, Tx } from '../../db/types.ts';
import { attempt } from '../../directory/attempt.ts';
import { didWebParts, isDidWeb, parseDid } from '../../identity/did.ts';
import { Questions } from '../../lib/batch.ts';
import type { Clock } from '../../lib/clock.ts';
import { newId } from '../../lib/ids.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import type { CallTeller } from '../trust/teller.ts';
import type { ConnectionRequest, ConsentOperations, Contact, Federation, Outcome } from '../types.ts';
import * as store from './store.ts';
import type { ConsentTeller } from './teller.ts';

/** Connection requests that may wait for one owner. */
export const maxPending = 1_000;
/** Of did:keys, which anybody makes by the million. */
const maxPendingKeys = 200;
const excerpt = 500;
const shown = 50;

/** Foreign principals, and what an owner consented to (design §4 "Consent"). */
export class Contacts implements Omit<ConsentOperations, 'contacts'> {
  readonly #db: Db;
  readonly #clock: Clock;
  readonly #ids = new LRUCache<string, string>({ maxSize: 50_000, sizeCalculation: () => 1 });
  readonly #peers: Questions<string, string>;
  readonly #contacts: Questions<{ owner: string; dids: readonly string[] }, Contact | null>;
  readonly #blocked: Questions<{ orgId: string; domain: string; owner: string | null }, boolean>;
  readonly #teller: ConsentTeller | null;
  readonly #calls: Pick<CallTeller, 'answer'> | null;
  readonly #join: ((tx: Tx, room: string, did: string) => Promise<Outcome<true>>) | null;

  /** `teller`: tells other gateways of consent. `calls`: tells did:keys that asked to connect. `join`: makes somebody a member of a room. */
  constructor(deps: {
    db: Db;
    clock: Clock;
    teller?: ConsentTeller;
    calls?: Pick<CallTeller, 'answer'>;
    join?: (tx: Tx, room: string, did: string) => Promise<Outcome<true>>;
  }) {
    const { db, clock } = deps;
    this.#teller = deps.teller ?? null;
    this.#calls = deps.calls ?? null;
    this.#join = deps.join ?? null;
    this.#db = db;
    this.#clock = clock;
    this.#peers = new Questions({ name: String, run: (dids) => this.#ensure(db, dids) });
    this.#contacts = new Questions({
      name: ({ owner, dids }) => [owner, ...dids].join(' '),
      run: (asked) => store.contactsFor(db, asked),
    });
    this.#blocked = new Questions({
      name: ({ orgId, domain, owner }) => `${orgId} ${domain} ${owner ?? ''}`,
      run: (asked) => store.blockedDomains(db, asked),
    });
  }

  async peerId(did: string): Promise<string> {
    const known = this.#ids.get(did);
    if (known !== undefined) return known;
    const id = await this.#peers.submit(did);
    this.#ids.set(did, id);
    return id;
  }

  async contact(owner: string, dids: readonly string[]): Promise<Contact | null> {
    return dids.length === 0 ? null : this.#contacts.submit({ owner, dids });
  }

  isDomainBlocked(orgId: string, domain: string, owner?: string): Promise<boolean> {
    return this.#blocked.submit({ orgId, domain, owner: owner ?? null });
  }

  async requestConnection(request: Parameters<Federation['requestConnection']>[0]): Promise<void> {
    const { owner, peerDid, agentId, firstMessage, room = '' } = request;
    const now = this.#clock.now();
    const row = {
      id: newId(this.#clock),
      owner,
      peerDid,
      peerDomain: domainOf(peerDid),
      agentId,
      firstMessage: shorten(firstMessage),
      room,
      now,
    };
    await store.requestConnection(this.#db, row, row.peerDomain === '' ? maxPendingKeys : maxPending);
  }

  listRequests(owner: string, decided = false): Promise<readonly ConnectionRequest[]> {
    return store.listRequests(this.#db, owner, decided, shown);
  }

  async decide(owner: string, requestId: string, decision: 'allow' | 'deny'): Promise<Outcome<ConnectionRequest>> {
    return attempt(this.#db, async (tx) => {
      const now = this.#clock.now();
      const to = decision === 'allow' ? 'allowed' : 'denied';
      const decided = await store.decideRequest(tx, { owner, id: requestId, decision: to, now });
      if (!decided)
        return (await store.requestById(tx, owner, requestId)) ?? refuse('not_found', 'There is no such request.');
      if (decision === 'allow' && decided.room !== '') {
        const joined = await this.#join?.(tx, decided.room, decided.peerDid);
        if (joined instanceof Refusal) return joined;
      } else if (decision === 'allow') {
        await this.#add(tx, owner, decided.peerDid, null, 'inbound_request');
        await this.#tell(tx, decided.peerDid);
      }
      await this.#calls?.answer(tx, { owner, did: decided.peerDid, agentId: decided.agentId }, decision === 'allow');
      return decided;
    });
  }

  addContact(owner: string, peerDid: string, alias?: string): Promise<Contact> {
    return this.#db.tx((tx) => this.#welcome(tx, owner, peerDid, alias ?? null, 'manual'));
  }

  /** The contact of a peer row that a look-up stored. `isNew` false: it was one already, and stays as it is. */
  async addPeer(
    owner: string,
    peerId: string,
    { alias, via }: { alias: string | null; via: string },
  ): Promise<Outcome<{ contact: store.ContactRow; isNew: boolean }>> {
    return attempt(this.#db, async (tx) => {
      const peer = await store.peerById(tx, peerId);
      if (!peer) return refuse('not_found', 'There is no such peer: look it up first.');
      const before = await store.contactsFor(tx, [{ owner, dids: [peer.did] }]);
      const { id } = await this.#welcome(tx, owner, peer.did, alias, via);
      return { contact: (await store.contactRow(tx, [owner], id))!, isNew: before[0] === null };
    });
  }

  contacts(
    owners: readonly string[],
    page: { limit: number; offset: number },
  ): Promise<{ contacts: store.ContactRow[]; total: number }> {
    return store.listContacts(this.#db, owners, page);
  }

  contactById(owners: readonly string[], id: string): Promise<store.ContactRow | null> {
    return store.contactRow(this.#db, owners, id);
  }

  async changeContact(
    owners: readonly string[],
    id: string,
    change: store.ContactChange,
  ): Promise<Outcome<store.ContactRow>> {
    const changed = await store.changeContact(this.#db, owners, id, change);
    const row = changed ? await store.contactRow(this.#db, owners, id) : null;
    return row ?? refuse('not_found', 'There is no such contact.');
  }

  /** Whom a look-up found, with the ids that a contact is made by; in their order. */
  async remember(found: ReadonlyArray<{ did: string; name: string }>): Promise<string[]> {
    const ids = await this.#ensure(
      this.#db,
      found.map(({ did }) => did),
    );
    await store.namePeers(this.#db, found);
    return ids;
  }

  blockOwnDomain(owner: string, domain: string): Promise<void> {
    return store.blockOwnDomain(this.#db, owner, domain, this.#clock.now());
  }

  unblockOwnDomain(owners: readonly string[], domain: string): Promise<boolean> {
    return store.unblockOwnDomain(this.#db, owners, domain);
  }

  blocks(owners: readonly string[], orgIds: readonly string[]): Promise<store.BlockRow[]> {
    return store.listBlocks(this.#db, owners, orgIds);
  }

  async setBlocked(owner: string, contactId: string, blocked: boolean): Promise<Outcome<Contact>> {
    return (
      (await store.setBlocked(this.#db, owner, contactId, blocked)) ?? refuse('not_found', 'There is no such contact.')
    );
  }

  removeContact(owner: string, contactId: string): Promise<boolean> {
    return store.deleteContact(this.#db, owner, contactId);
  }

  blockDomain(orgId: string, domain: string): Promise<void> {
    return store.blockDomain(this.#db, orgId, domain, this.#clock.now());
  }

  unblockDomain(orgId: string, domain: string): Promise<boolean> {
    return store.unblockDomain(this.#db, orgId, domain);
  }

  /** Who is let in by an answer of its own: it knows. A question of its that waits is answered with it. */
  async letIn(tx: Tx, owner: string, peerDid: string, how: { alias: string | null; via: string }): Promise<void> {
    await this.#add(tx, owner, peerDid, how.alias, how.via);
    await store.answerRequest(tx, owner, peerDid, this.#clock.now());
  }

  /** Of the owner's own accord: a request of the same peer is answered with it. */
  async #welcome(tx: Tx, owner: string, peerDid: string, alias: string | null, via: string): Promise<Contact> {
    const contact = await this.#add(tx, owner, peerDid, alias, via);
    if (await store.answerRequest(tx, owner, peerDid, this.#clock.now())) {
      await this.#tell(tx, peerDid);
      await this.#calls?.answer(tx, { owner, did: peerDid, agentId: null }, true);
    }
    return contact;
  }

  async #add(db: Queryable, owner: string, peerDid: string, alias: string | null, via: string): Promise<Contact> {
    const [peerId] = await this.#ensure(db, [peerDid]);
    const now = this.#clock.now();
    return store.insertContact(db, { id: newId(this.#clock), owner, peerId: peerId!, alias, via, now });
  }

  /** Its gateway holds what it asked before. */
  async #tell(tx: Tx, peerDid: string): Promise<void> {
    const domain = domainOf(peerDid);
    if (domain !== '') await this.#teller?.owe(tx, domain, peerDid);
  }

  async #ensure(db: Queryable, dids: readonly string[]): Promise<string[]> {
    const unique = [...new Set(dids)];
    const now = this.#clock.now();
    const ids = await store.ensurePeers(
      db,
      unique.map((did) => ({ id: newId(this.#clock), did, domain: domainOf(did), now })),
    );
    const byDid = new Map(unique.map((did, i) => [did, ids[i]!]));
    return dids.map((did) => byDid.get(did)!);
  }
}

/** The authority of a did:web; '' for any other DID. */
function domainOf(text: string): string {
  const did = parseDid(text, { allowIp: true });
  return did instanceof Refusal || !isDidWeb(did) ? '' : didWebParts(did).authority;
}

/** No half of a surrogate pair is left at the cut, and no NUL anywhere: PostgreSQL's text takes neither. */
function shorten(text: string): string {
  return Buffer.from(text.slice(0, excerpt)).toString().replaceAll('\u0000', '');
}
