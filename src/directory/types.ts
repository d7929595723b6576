import type { Refusal } from '../lib/refusal.ts';

export interface Org {
  id: string;
  handle: string;
  isPrimary: boolean;
  apiVersion: string;
  plan: 'free' | 'pro' | 'enterprise';
}

/** A person in an org. The *owner* of agents, threads and consent. */
export interface Member {
  id: string;
  orgId: string;
  org: string;
  orgIsPrimary: boolean;
  personId: string;
  handle: string;
  role: 'admin' | 'member';
}

/** What an agent accepts (REDSYN "Agentes y presencia"). */
export interface AgentPolicy {
  /** A member's handle, `team:<team>`, `org`, `org:<linked org>` or `anyone`. Empty: its own team. */
  allow: readonly string[];
  trust: 'none' | 'full';
  signedOnly: boolean;
  encryptedOnly: boolean;
}

export interface Agent extends AgentPolicy {
  id: string;
  orgId: string;
  org: string;
  orgIsPrimary: boolean;
  teamId: string;
  team: string;
  /** The owner. */
  memberId: string;
  personId: string;
  user: string;
  handle: string;
  /** As its owner writes it: ReplySlip's names keep their case. Else the handle. */
  name: string;
  /** `org/team/user/agent`. */
  address: string;
  description: string;
  adapter: string;
  profile: Record<string, unknown>;
  isDefault: boolean;
  isFrontDesk: boolean;
  isListed: boolean;
}

/** Who a bearer token is: the node and its person, with every membership. */
export interface NodeIdentity {
  nodeId: string;
  nodeName: string;
  personId: string;
  isOperator: boolean;
  email: string | null;
  members: readonly Member[];
  /** Registered keys, base64url, or null. */
  publicKey: string | null;
  encKey: string | null;
  encSig: string | null;
}

/** Whom an agent key speaks as, and its owner. It is the agent's own: it decides nothing that is a person's. */
export interface AgentIdentity {
  keyId: string;
  agent: Agent;
  member: Member;
}

/** Who calls with an `rsw_` key: a watcher, which polls and acks the wakes of an org. */
export interface Watcher {
  keyId: string;
  orgId: string;
}

export interface Presence {
  online: boolean;
  /** Unix seconds of the last take or accepted webhook delivery, or null. */
  lastSeen: number | null;
  node: string | null;
}

/** A session as a viewer may see it: what it is about only to its owner and to who takes part (REDSYN "Sesiones"). */
export interface SessionSummary {
  /** `s4` */
  id: string;
  state: 'open' | 'closed';
  /** Unix seconds of the last message. */
  last_at: number;
  title?: string;
  thread?: string;
}

/** An agent as `GET /directory` and `GET /agents/…` show it; also what one gateway tells another. */
export interface DirectoryEntry {
  address: string;
  /** Not told of agents behind a linked gateway. */
  did?: string;
  description: string;
  adapter?: string;
  online: boolean;
  last_seen: number | null;
  node: string | null;
  /** Whom it takes requests from, as in `allow`; to another org only what concerns that org. */
  accepts: readonly string[];
  trust: 'none' | 'full';
  signed_only: boolean;
  encrypted_only: boolean;
  sessions?: readonly SessionSummary[];
}

/**
 * A parsed address (REDSYN "Direcciones"). `org` may be a handle, or an authority (`localhost:8081`).
 * `session`: a number, 'new', or null.
 */
export interface Address {
  org: string;
  team: string;
  user: string;
  agent: string;
  session: number | 'new' | null;
}

/** What the core asks of the directory on the way of a message. Every call is one coalesced query. */
export interface Directory {
  /** The node of a bearer token, or null when the token is unknown or revoked. */
  nodeByToken(token: string): Promise<NodeIdentity | null>;
  /** The agent of an `rsk_` key, or null when the key is unknown or revoked. */
  agentByKey(key: string): Promise<AgentIdentity | null>;
  /** The watcher of an `rsw_` key, or null when the key is unknown or revoked. */
  watcherByKey(key: string): Promise<Watcher | null>;
  /** The local agent at `org/team/user/agent` (org: a local handle, or the instance's domain as alias of the primary org), or null. */
  agentAt(address: Address): Promise<Agent | null>;
  /** The local agent or owner that a DID of this instance names (both name the default agent: design §3), or null. */
  agentByDid(did: string): Promise<Agent | null>;
  agentById(id: string): Promise<Agent | null>;
  /**
   * The agent that goes by a name in an org, whatever the case (ReplySlip): the one that was given it as a name, else the only one with that handle.
   * Null when there is none, and when several share the handle.
   */
  agentNamed(orgId: string, name: string): Promise<Agent | null>;
  /** The owner's default agent: the one she marked, else her first; null when she has none. */
  defaultAgent(memberId: string): Promise<Agent | null>;
  member(memberId: string): Promise<Member | null>;
  /** A person by her handle in an org: a handle, the instance's domain or null for the primary one. */
  memberNamed(org: string | null, user: string): Promise<Member | null>;
  /** Handles of the teams the member is in. */
  teamsOf(memberId: string): Promise<readonly string[]>;
  org(handle: string): Promise<Org | null>;
  orgById(id: string): Promise<Org | null>;
  /**
   * The node that a sealed request to the agent is for: the one whose key `reader` was told last, while that node is there and has a key; else
   * the one whose key is told now. Null when there is none.
   */
  sealedFor(agentId: string, reader: string | null): Promise<string | null>;
}

export type Outcome<T> = T | Refusal;
