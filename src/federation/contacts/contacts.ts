import { LRUCache } from 'lru-cache';
import type { Db, Queryable } from '../../db/types.ts';
import { attempt } from '../../directory/attempt.ts';
import { didWebParts, isDidWeb, parseDid } from '../../identity/did.ts';
import { Batcher } from '../../lib/batch.ts';
import type { Clock } from '../../lib/clock.ts';
import { newId } from '../../lib/ids.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import type { ConnectionRequest, ConsentOperations, Contact, Federation, Outcome } from '../types.ts';
import * as store from './store.ts';

/** Connection requests that may wait for one owner. */
export const maxPending = 1_000;
const excerpt = 500;
const shown = 50;
const batch = { max: 500, inFlight: 4 };

/** Foreign principals, and what an owner consented to (design §4 "Consent"). */
export class Contacts implements ConsentOperations {
  readonly #db: Db;
  readonly #clock: Clock;
  readonly #ids = new LRUCache<string, string>({ max: 50_000 });
  readonly #peers: Batcher<string, string>;
  readonly #contacts: Batcher<{ owner: string; dids: readonly string[] }, Contact | null>;
  readonly #blocked: Batcher<{ orgId: string; domain: string }, boolean>;

  constructor(deps: { db: Db; clock: Clock }) {
    const { db, clock } = deps;
    this.#db = db;
    this.#clock = clock;
    this.#peers = new Batcher({ ...batch, run: (dids) => this.#ensure(db, dids) });
    this.#contacts = new Batcher({ ...batch, run: (asked) => store.contactsFor(db, asked) });
    this.#blocked = new Batcher({ ...batch, run: (asked) => store.blockedDomains(db, asked) });
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

  isDomainBlocked(orgId: string, domain: string): Promise<boolean> {
    return this.#blocked.submit({ orgId, domain });
  }

  async requestConnection(request: Parameters<Federation['requestConnection']>[0]): Promise<void> {
    const { owner, peerDid, agentId, firstMessage } = request;
    const now = this.#clock.now();
    const row = {
      id: newId(this.#clock),
      owner,
      peerDid,
      peerDomain: domainOf(peerDid),
      agentId,
      firstMessage: shorten(firstMessage),
      now,
    };
    await store.requestConnection(this.#db, row, maxPending);
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
      if (decision === 'allow') await this.#add(tx, owner, decided.peerDid, null);
      return decided;
    });
  }

  addContact(owner: string, peerDid: string, alias?: string): Promise<Contact> {
    return this.#db.tx((tx) => this.#add(tx, owner, peerDid, alias ?? null));
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

  async #add(db: Queryable, owner: string, peerDid: string, alias: string | null): Promise<Contact> {
    const [peerId] = await this.#ensure(db, [peerDid]);
    return store.insertContact(db, { id: newId(this.#clock), owner, peerId: peerId!, alias, now: this.#clock.now() });
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
