import type { Topic } from '../directory/names.ts';
import type { Agent, Directory, NodeIdentity, Org, Watcher } from '../directory/types.ts';
import type { Admission } from '../exchange/admitted.ts';
import type { Limits } from '../exchange/limits/index.ts';
import type { ExchangeLookups, ExchangeRef } from '../exchange/lookups.ts';
import type { Envelope } from '../exchange/message.ts';
import type { Principal, Sender } from '../exchange/sender.ts';
import type { Contact, Federation, Link } from '../federation/types.ts';
import type { SignatureClaim } from '../identity/http-signature/verify.ts';
import type { DidResolver } from '../identity/resolver.ts';
import type { Clock } from '../lib/clock.ts';
import type { Refusal } from '../lib/refusal.ts';
import type { Flood } from './counters.ts';
import type { Inbound } from './inbound.ts';
import type { StandingPolicies } from './policies/index.ts';
import type { GateStore } from './store.ts';

/** What is asked of the gateway, as the table's columns divide it. `answer`: a progress or a reply. */
export type Column = 'request' | 'answer' | 'event' | 'read' | 'instance' | 'watch' | 'knock';

/** What is there before any gate has spoken. */
export interface Arrived {
  inbound: Inbound;
  column: Column;
}

/** Which proof the request says it has, before anything of it was verified. `name`: what is remembered of one that held. */
export type Claim =
  | { kind: 'token'; name: string; token: string }
  | { kind: 'signature'; name: string; domain: string; signature: SignatureClaim }
  /** An agent of this process itself. */
  | { kind: 'resident'; node: NodeIdentity }
  | { kind: 'none' };

export interface Claimed {
  claim: Claim;
}

/** A request signature that verified. */
export interface RequestProof {
  coversBody: boolean;
  /** One value per key and signature: the same bytes again are a replay. */
  fingerprint: Buffer;
}

export interface Called {
  principal: Principal;
  /** Null for tokens and for nobody in particular. */
  proof: RequestProof | null;
}

/** What only the column of watchers proves. */
export interface Watching {
  watcher: Watcher;
}

export interface Intact {
  /** The node signature that was verified over the envelope, or null when it has none. */
  signature: Admission['signature'];
  /** What the exchange writes into the replay store with the message; null when nothing is owed. */
  replay: Admission['proof'];
}

/** What only columns of a message prove. */
export interface Placed {
  /** The inbound envelope with its `id` filled in and `from` as the sender is now known. */
  envelope: Envelope;
  sender: Sender;
  /** Every DID that the sender goes by, the narrowest first; the owner may have consented to any of them. Empty for nobody in particular. */
  names: readonly string[];
  /** For who comes as an org: the active links of orgs here under which the address it claims is its own. Null for who comes as itself. */
  links: readonly Link[] | null;
  addressed: Addressed;
}

export type Addressed =
  | { kind: 'agent'; agent: Agent; session: number | 'new' | null }
  /** Nobody, in the name of an owner who is here. Who comes as itself must not be able to tell it from a hidden agent (FED-06). */
  | { kind: 'missing'; owner: string; orgId: string }
  /** `owner`: the DID of whose agent it is. */
  | { kind: 'remote'; address: string; domain: string; linkId: string; owner: string }
  /** An agent on an A2A server without a link: the sender comes as itself. `owner`: the DID that it is known under, or the URL of its card. */
  | { kind: 'foreign'; address: string; domain: string; owner: string; card: string }
  /** A topic of an org here. */
  | { kind: 'topic'; topic: Topic; org: Org }
  /** A topic behind a link, written to by somebody here: its own gateway takes it. The topic's org is written as it is here. */
  | { kind: 'far_topic'; topic: Topic; domain: string; linkId: string }
  /** A topic behind links, whose gateway hands an event of it on to listeners here. `skip`: the local agent that published it. */
  | { kind: 'near_topic'; topic: Topic; links: ReadonlyArray<{ link: Link; rev: number }>; skip: Agent | null }
  /** `asker`: the local agent that asked, or null when the asker lives elsewhere. */
  | { kind: 'asker'; exchange: ExchangeRef; asker: Agent | null };

/** What the request would have its agent do (src/gates/actions.ts), at least `ask`. */
export interface Acting {
  actions: readonly string[];
}

export interface Linked {
  /** The link that the message came through, as the addressee's org sees it; null within one org, and for who comes as itself. */
  link: Link | null;
}

export interface Consented {
  /** Scopes the message id and takes part in conversations: 'm:…', 'p:…' or 'anonymous:…'. */
  senderKey: string;
  /** The addressed owner's contact that it is, or null. */
  contact: Contact | null;
}

/** What only a request proves. */
export interface Judged {
  /** It waits for its agent's owner. */
  held: Admission['held'];
}

export interface Counted {
  expiresAt: number;
  quota: Admission['quota'];
  files: Admission['files'];
}

export interface Budgeted {
  budget: Admission['budget'];
}

export interface Threaded {
  target: Admission['target'];
  /** The thread as the asker is told it. */
  thread: string;
  /** The node that a sealed request is for; null for all else. */
  reservedFor: string | null;
}

/** What the gates ask of the rest of the house. */
export interface GateDeps {
  clock: Clock;
  directory: Directory;
  federation: Federation;
  lookups: ExchangeLookups;
  resolver: Pick<DidResolver, 'key' | 'resolve'>;
  store: GateStore;
  policies: StandingPolicies;
  limits: Pick<Limits, 'budget'>;
  /** This instance: the authority of its did:web, and every authority that a signature may name. */
  self: { readonly domain: string; readonly authorities: readonly string[] };
  /** GATEHOUSE_RATE_IP and GATEHOUSE_RATE_PEER: a minute, for callers without a local token. */
  rates: { readonly ip: number; readonly peer: number };
}

/** The deps, and what the gates themselves remember in this process. */
export type Tools = GateDeps & {
  readonly flood: Flood;
  /** For whoever wants it explained: what let it pass, or stopped it. Only an owner is ever told. */
  readonly note?: (rule: string) => void;
};

/**
 * One question. It gets what was proved before it and gives what it proved itself, or a refusal; it changes nothing that it was handed.
 * That it stands after what it needs is checked by the compiler (`table` in run.ts).
 */
export type Gate<Needs, Proves> = (facts: Needs, tools: Tools) => Promise<Proves | Refusal>;

export type LocalSender = Extract<Sender, { kind: 'local' }>;
