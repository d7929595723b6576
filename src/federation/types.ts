import type { Agent, DirectoryEntry, NodeIdentity } from '../directory/types.ts';
import type { Refusal } from '../lib/refusal.ts';
import type { Sender } from '../outbox/types.ts';
import type { BlockRow, ContactChange, ContactRow } from './contacts/store.ts';

export type { BlockRow, ContactChange, ContactRow } from './contacts/store.ts';

export interface Exposure {
  kind: 'agent' | 'pub' | 'sub';
  /** `agent`: `team/user/agent`, `team/user/*`, `team/*` or `*`. `pub`, `sub`: `team/name`, `team/*` or `*`. */
  pattern: string;
}

export type LinkState = 'proposed' | 'active' | 'revoked';

/** A link as one org of this instance sees it. */
export interface Link {
  id: string;
  orgId: string;
  /** The peer org's handle: how it is written in addresses, in `allow` and in paths. */
  peerHandle: string;
  /** The peer's authority, or null when the peer org lives on this instance. */
  peerDomain: string | null;
  peerOrgId: string | null;
  /** What the peer org calls itself (equal to `peerHandle` unless that name was taken here), or null while it has not told. */
  peerOrg: string | null;
  /** The peer org is the primary one of its instance, so its domain names it too. */
  peerIsPrimary: boolean;
  /** How the peer writes our org, or null when it has not told. A `from` that it does not know us by is refused there. */
  knownAs: string | null;
  state: LinkState;
  /** Only messages that their node signed may enter (default true). */
  signedOnly: boolean;
  /** Addresses and CIDRs that may send; empty: any. */
  ips: readonly string[];
  /** What this org exposes to the peer, and what the peer exposes to this org. */
  ours: readonly Exposure[];
  theirs: readonly Exposure[];
  /** Grows with every change of the peer's side: the key for what is cached about it. */
  theirRev: number;
}

export interface Contact {
  id: string;
  owner: string;
  peerId: string;
  peerDid: string;
  blocked: boolean;
  /** What the owner calls it. */
  alias?: string | null;
  /** The contact's own policy as its owner wrote it (src/gates/policies). */
  policy?: string | null;
}

/** What gates and exchange ask of federation. Look-ups are coalesced queries, never cached: a revocation acts at once on every replica. */
export interface Federation {
  /** The org's link to a peer named by handle or by authority (`:` also written `-`), whatever its state; null when there is none. */
  link(orgId: string, peer: string): Promise<Link | null>;
  linkById(id: string): Promise<Link | null>;
  /** Every link of any org here to that authority. */
  linksWithDomain(domain: string): Promise<readonly Link[]>;
  /** Every link of that org. */
  linksOf(orgId: string): Promise<readonly Link[]>;
  /** The owner's contact for any of these DIDs (agent DID, signer DID), a blocked one first; null when there is none. */
  contact(owner: string, dids: readonly string[]): Promise<Contact | null>;
  /** By an admin of the org or, when `owner` is given, by her. */
  isDomainBlocked(orgId: string, domain: string, owner?: string): Promise<boolean>;
  /** The id of the peer row for a DID, made on first use. Ids never change, so they are cached. */
  peerId(did: string): Promise<string>;
  /** One row per stranger and owner, however often it knocks. */
  requestConnection(request: {
    owner: string;
    peerDid: string;
    /** Null when the owner has no such agent. */
    agentId: string | null;
    /** Shortened to 500 characters. */
    firstMessage: string;
    /** The room that it asks to join; absent: it asks to reach the owner. */
    room?: string;
  }): Promise<void>;
  /**
   * A did:key shows an introduction, as JSON text; what holds is remembered. Refusals: `introduction_invalid`, `introducer_unknown` (muretai-wire-facts
   * §9).
   */
  presentIntroduction(agent: Agent, sender: string, credential: string): Promise<object | Refusal>;
  /**
   * One that was shown before still covers it: valid, not revoked, by somebody whom the owner still trusts. `ask`: its issuer may be asked again whether
   * it stands.
   */
  isIntroduced(agent: Agent, sender: string, how: { ask: boolean }): Promise<boolean>;
  /** Whether any of these DIDs, or that agent here, is a member of the room. */
  isRoomMember(room: Agent, who: { dids: readonly string[]; localAgent: string | null }): Promise<boolean>;
}

export interface LinkLogEntry {
  /** Unix seconds. */
  at: number;
  /** `org/person`, the org as it is written here. */
  by: string;
  what: string;
  detail: Record<string, unknown>;
}

/** A link as `GET /links` shows it (REDSYN "Organizaciones y enlaces", design §10). */
export interface LinkView {
  org: string;
  other: string;
  domain: string | null;
  state: LinkState;
  /** The handle of the side whose proposal waits for the other; null when none does. */
  proposed_by: string | null;
  exposes: readonly Exposure[];
  exposed: readonly Exposure[];
  /** What may enter from them. `ips` comma-separated; '' is any address. */
  rules: { signed_only: boolean; ips: string };
  /** What they said about their own rules; null when nothing. */
  their_rules: { signed_only: boolean; ips: string } | null;
  /** How the peer writes our org, when it cannot be by its handle. */
  known_as: string | null;
  /** Why the peer does not know our newest change yet; null when it does. */
  problem: string | null;
  /** The last 50 changes of each side, newest last. */
  log: readonly LinkLogEntry[];
}

/** What admins do with links. `org` and `other` as in the paths of REDSYN; the caller must be an admin of `org`. */
export interface LinkOperations {
  /**
   * Proposes, or accepts what the other side proposed. `other`: a local org's handle, an authority, an https URL or a did:web, each optionally with an org
   * that is not primary there (`host/org`, `did:web:host:orgs:org`), or the handle of an incoming proposal. Refusals: `forbidden`, `not_found`, `invalid_field`,
   * `conflict` (the handle is taken here), `quota_exceeded` (403).
   */
  propose(caller: NodeIdentity, org: string, other: string): Promise<Outcome<LinkView>>;
  expose(
    caller: NodeIdentity,
    org: string,
    other: string,
    change: { kind: string; pattern: string; on: boolean },
  ): Promise<Outcome<LinkView>>;
  /** A field that is left out stays as it is. */
  rules(
    caller: NodeIdentity,
    org: string,
    other: string,
    change: { signedOnly?: boolean; ips?: readonly string[] | string },
  ): Promise<Outcome<LinkView>>;
  revoke(caller: NodeIdentity, org: string, other: string): Promise<Outcome<LinkView>>;
  /** Of every org that the caller is in. */
  list(caller: NodeIdentity): Promise<readonly LinkView[]>;
  /**
   * The peer at `domain`, proved to be calling, tells its side. Answers our side, or null while this org has not agreed, or does not exist: both
   * look the same.
   */
  receive(domain: string, message: unknown): Promise<Outcome<{ side: object | null }>>;
  /** Sends items of kind 'link'. */
  readonly sender: Sender;
}

/** An exposed agent of a linked gateway, with its address as it is written here. */
export interface RemoteAgent extends DirectoryEntry {
  linkId: string;
}

/** `GET /agents/…/key` (REDSYN "Cifrado de extremo a extremo"). */
export interface AgentKey {
  node: string;
  signing_key: string;
  enc_key: string;
  enc_sig: string;
  fingerprint: string;
}

/** What linked gateways expose to an org here. Kept 60 s per link and revision; a revoked link shows nothing at once. */
export interface RemoteDirectory {
  /** All of them, merged; a peer that does not answer within 5 s adds what was last known, or nothing. */
  agents(orgId: string): Promise<readonly RemoteAgent[]>;
  /** `not_found`: hidden or missing, nobody can tell. `unreachable`: the peer did not answer. */
  agent(link: Link, path: string): Promise<Outcome<RemoteAgent>>;
  /** `by`: the DID of the owner who asks, for whom the far side remembers which node she was told of. */
  key(link: Link, path: string, by?: string | null): Promise<Outcome<AgentKey>>;
}

/** The other side of it: what a linked gateway at `domain`, proved to be calling, may see. Hidden is missing: `not_found`, always the same. */
export interface ExposedDirectory {
  list(
    domain: string,
    q: { org: string; for: string },
  ): Promise<Outcome<{ agents: readonly DirectoryEntry[]; truncated: boolean }>>;
  agent(domain: string, q: { org: string; for: string }, path: string): Promise<Outcome<DirectoryEntry>>;
  /** `by`: the owner behind that domain who asks. */
  key(domain: string, q: { org: string; for: string; by: string | null }, path: string): Promise<Outcome<AgentKey>>;
}

export interface ConnectionRequest {
  id: string;
  owner: string;
  peerDid: string;
  peerDomain: string;
  agentId: string | null;
  firstMessage: string;
  /** The room that it asks to join, or ''. */
  room: string;
  decision: 'pending' | 'allowed' | 'denied';
  createdAt: number;
  decidedAt: number | null;
}

/** The owner's side of consent. */
export interface ConsentOperations {
  /** Newest first, at most 50. */
  listRequests(owner: string, decided?: boolean): Promise<readonly ConnectionRequest[]>;
  /** The first decision counts; a later one changes nothing and answers what stands. Allowing makes the contact. */
  decide(owner: string, requestId: string, decision: 'allow' | 'deny'): Promise<Outcome<ConnectionRequest>>;
  addContact(owner: string, peerDid: string, alias?: string): Promise<Contact>;
  setBlocked(owner: string, contactId: string, blocked: boolean): Promise<Outcome<Contact>>;
  removeContact(owner: string, contactId: string): Promise<boolean>;
  blockDomain(orgId: string, domain: string): Promise<void>;
  unblockDomain(orgId: string, domain: string): Promise<boolean>;
  /** Contacts as their owners keep them; `owners`: every membership of a person. Somebody else's are `not_found`. */
  readonly contacts: ContactOperations;
}

export interface ContactOperations {
  list(
    owners: readonly string[],
    page: { limit: number; offset: number },
  ): Promise<{ contacts: readonly ContactRow[]; total: number }>;
  byId(owners: readonly string[], id: string): Promise<ContactRow | null>;
  /** `peerId`: of a row that `remember` made. */
  add(
    owner: string,
    peerId: string,
    how: { alias: string | null; via: string },
  ): Promise<Outcome<{ contact: ContactRow; isNew: boolean }>>;
  /** What is left out stays. */
  change(owners: readonly string[], id: string, change: ContactChange): Promise<Outcome<ContactRow>>;
  /** Stores whom a look-up found; the ids of their rows, in their order. */
  remember(found: ReadonlyArray<{ did: string; name: string }>): Promise<readonly string[]>;
  block(owner: string, domain: string): Promise<void>;
  unblock(owners: readonly string[], domain: string): Promise<boolean>;
  blocks(owners: readonly string[], orgIds: readonly string[]): Promise<readonly BlockRow[]>;
}

export type Outcome<T> = T | Refusal;
