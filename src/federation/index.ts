import type { Db } from '../db/types.ts';
import type { Registry } from '../directory/index.ts';
import { roomOf } from '../directory/rooms.ts';
import { redsynFingerprint } from '../identity/redsyn-seal.ts';
import type { DidResolver } from '../identity/resolver.ts';
import { Questions } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';
import type { Fetch } from '../lib/fetch-types.ts';
import type { Log } from '../lib/log.ts';
import { refuse } from '../lib/refusal.ts';
import type { Outbox, Sender } from '../outbox/index.ts';
import { Contacts } from './contacts/contacts.ts';
import { ConsentTeller } from './contacts/teller.ts';
import { Discovery } from './discovery.ts';
import { Exposed } from './exposed.ts';
import { Listener } from './links/listener.ts';
import { Operations } from './links/operations.ts';
import { peerName } from './links/peer-name.ts';
import * as store from './links/store.ts';
import { Teller } from './links/teller.ts';
import { toLink } from './links/view.ts';
import { PeerClient } from './peer-client.ts';
import { Remote } from './remote.ts';
import { Rooms } from './rooms/index.ts';
import { CallTeller, Trust } from './trust/index.ts';
import { peerOf } from './trust/store.ts';
import type {
  ConsentOperations,
  ExposedDirectory,
  Federation,
  Link,
  LinkOperations,
  RemoteDirectory,
} from './types.ts';

export interface FederationDeps {
  db: Db;
  clock: Clock;
  log: Pick<Log, 'error'>;
  fetch: Fetch;
  resolver: Pick<DidResolver, 'resolve'>;
  registry: Pick<Registry, 'people' | 'lookups' | 'keyring' | 'entries' | 'nodes'>;
  outbox: Pick<Outbox, 'enqueue' | 'sendNow' | 'firstTry'>;
  /** Of GATEHOUSE_URL. */
  authority: string;
  /** GATEHOUSE_URL without a slash at its end. */
  base: string;
  /** GATEHOUSE_URL is loopback: peers on loopback are called over http. */
  loopback: boolean;
}

/** Other gateways: links with them, what they and we show each other, and whom owners consented to. */
export interface FederationParts extends Federation, ConsentOperations {
  readonly links: LinkOperations;
  readonly remote: RemoteDirectory;
  readonly exposed: ExposedDirectory;
  readonly discovery: Discovery;
  /** Calls `/federation/v1` of other gateways. */
  readonly client: PeerClient;
  /** What agents here know of did:keys. */
  readonly trust: Trust;
  readonly rooms: Rooms;
  /** For the outbox. */
  readonly senders: readonly Sender[];
}

export function createFederation(deps: FederationDeps): FederationParts {
  const { db, clock, log, fetch, resolver, registry, outbox, authority, base, loopback } = deps;
  const { people, lookups, keyring, entries, nodes } = registry;
  const client = new PeerClient({ fetch, clock, loopback, signer: () => keyring.signer(keyring.instance()) });
  const listener = new Listener({ db, clock });
  const teller = new Teller({ db, clock, client, resolver, listener, outbox });
  const operations = new Operations({ db, clock, authority, people, teller });
  const consents = new ConsentTeller({ clock, client, outbox });
  const calls = new CallTeller({ clock, outbox });
  const rooms = new Rooms({ db, clock, keyring, directory: lookups });
  const contacts = new Contacts({
    db,
    clock,
    teller: consents,
    calls,
    async join(tx, id, did) {
      const room = await lookups.agentById(id);
      const { name = '', url = null } = (await peerOf(tx, id, did)) ?? {};
      return room && roomOf(room)
        ? rooms.letIn(tx, room, { did, name, url })
        : refuse('not_found', 'That room is there no longer.');
    },
  });
  const trust = new Trust({ db, clock, fetch, keyring, directory: lookups, contacts, rooms, teller: calls, base });

  const byPeer = new Questions<store.PeerName, Link | null>({
    name: (name) => JSON.stringify(name),
    run: async (names) => (await store.linksByPeer(db, names)).map((row) => (row ? toLink(row) : null)),
  });
  const byId = grouped(
    (ids) => store.linksById(db, ids),
    (row) => row.id,
  );
  const byDomain = grouped(
    (domains) => store.linksByDomain(db, domains),
    (row) => row.peerDomain!,
  );
  const byOrg = grouped(
    (orgIds) => store.linksByOrg(db, orgIds),
    (row) => row.orgId,
  );

  const linksOf = (orgId: string): Promise<readonly Link[]> => byOrg.submit(orgId);
  const linksWithDomain = (domain: string): Promise<readonly Link[]> => byDomain.submit(domain);
  const exposed = new Exposed({
    entries,
    lookups,
    async activeLink(domain, q) {
      const org = await lookups.org(q.org);
      const links = org === null ? [] : await linksWithDomain(domain);
      const link = links.find((one) => one.orgId === org?.id && one.peerOrg === q.for && one.state === 'active');
      if (!org || !link || (await contacts.isDomainBlocked(org.id, domain))) return null;
      return { link, org: org.handle };
    },
    async key(agentId, reader) {
      const key = await nodes.keyOfListener(agentId, reader === null ? [] : [reader]);
      return (
        key && {
          node: key.node,
          signing_key: key.signingKey,
          enc_key: key.encKey,
          enc_sig: key.encSig,
          fingerprint: redsynFingerprint(key.signingKey),
        }
      );
    },
  });
  const remote = new Remote({
    clock,
    client,
    linksOf,
    ownHandle: async (orgId) => (await lookups.orgById(orgId))?.handle ?? null,
    drifted(linkId) {
      const compare = async (): Promise<void> => {
        const row = await store.linkById(db, linkId);
        if (row?.peerDomain) await teller.tell(row);
      };
      compare().catch((error) => log.error({ err: error, link: linkId }, 'a link could not be compared with its peer'));
    },
  });

  return {
    link: (orgId, peer) => byPeer.submit(peerName(orgId, peer, authority)),
    linkById: async (id) => (await byId.submit(id))[0] ?? null,
    linksWithDomain,
    linksOf,
    contact: (owner, dids) => contacts.contact(owner, dids),
    isDomainBlocked: (orgId, domain, owner) => contacts.isDomainBlocked(orgId, domain, owner),
    peerId: (did) => contacts.peerId(did),
    requestConnection: (request) => contacts.requestConnection(request),
    presentIntroduction: (agent, sender, credential) => trust.introductions.present(agent, sender, credential),
    isRoomMember: (room, who) => rooms.isMember(room, who),
    isIntroduced: (agent, sender, how) => trust.introductions.covers(agent, sender, how),
    listRequests: (owner, decided) => contacts.listRequests(owner, decided),
    decide: (owner, id, decision) => contacts.decide(owner, id, decision),
    addContact: (owner, did, alias) => contacts.addContact(owner, did, alias),
    setBlocked: (owner, id, blocked) => contacts.setBlocked(owner, id, blocked),
    removeContact: (owner, id) => contacts.removeContact(owner, id),
    blockDomain: (orgId, domain) => contacts.blockDomain(orgId, domain),
    unblockDomain: (orgId, domain) => contacts.unblockDomain(orgId, domain),
    contacts: {
      list: (owners, page) => contacts.contacts(owners, page),
      byId: (owners, id) => contacts.contactById(owners, id),
      add: (owner, peerId, how) => contacts.addPeer(owner, peerId, how),
      change: (owners, id, change) => contacts.changeContact(owners, id, change),
      remember: (found) => contacts.remember(found),
      block: (owner, domain) => contacts.blockOwnDomain(owner, domain),
      unblock: (owners, domain) => contacts.unblockOwnDomain(owners, domain),
      blocks: (owners, orgIds) => contacts.blocks(owners, orgIds),
    },
    links: {
      propose: (caller, org, other) => operations.propose(caller, org, other),
      expose: (caller, org, other, change) => operations.expose(caller, org, other, change),
      rules: (caller, org, other, change) => operations.rules(caller, org, other, change),
      revoke: (caller, org, other) => operations.revoke(caller, org, other),
      list: (caller) => operations.list(caller),
      receive: (domain, message) => listener.receive(domain, message),
      sender: teller,
    },
    remote,
    exposed,
    client,
    trust,
    rooms,
    discovery: new Discovery({ clock, fetch, resolver, loopback }),
    senders: [teller, consents],
  };
}

/** One coalesced query for what many ask about at the same time; each gets the links of its own key. */
function grouped(
  find: (keys: string[]) => Promise<store.LinkRow[]>,
  keyOf: (row: store.LinkRow) => string,
): Questions<string, Link[]> {
  return new Questions({
    name: String,
    run: async (keys: string[]) => {
      const found = new Map<string, Link[]>();
      for (const row of await find([...new Set(keys)])) {
        const key = keyOf(row);
        found.set(key, [...(found.get(key) ?? []), toLink(row)]);
      }
      return keys.map((key) => found.get(key) ?? []);
    },
  });
}
