import type { Agent } from '../directory/types.ts';
import type { NewZip } from './files/files.ts';
import type { Envelope } from './message.ts';
import type { Sender, WireName } from './sender.ts';

/** Where an admitted message goes. */
export type Target =
  /** A request to an agent of this instance. */
  | {
      kind: 'agent';
      agent: Agent;
      session: number | 'new' | null;
      thread: {
        /** The thread as the asker wrote it, or null when it asked for none. */
        asked: string | null;
        /** Our id for that thread when it may not be used as it is (design §4 "Thread binding"). */
        derived: string;
        /** A local sender may open a conversation under the id it wrote; a foreign one never. */
        mayOpen: boolean;
      };
    }
  /**
   * A request to an agent behind a linked gateway. `address`: with the peer's handle and without session, however `to` was written; `domain`:
   * where it is sent; `peerId`: the peer row of its owner's DID.
   */
  | { kind: 'remote'; address: string; domain: string; linkId: string; peerId: string }
  /** A request to an agent on an A2A server that is no linked gateway. `card`: its did:web, or the URL of its card. */
  | { kind: 'foreign'; address: string; domain: string; peerId: string; card: string }
  /** A progress or reply: it goes to whoever asked. */
  | { kind: 'asker'; exchangeId: string }
  /** An event. `address`: the topic as it is written here. */
  | { kind: 'event'; address: string; team: string; name: string; spread: Spread };

/** Who gets copies of an event. `skip`: the id of the agent that published it, when it lives here. */
export type Spread =
  /** A topic of an org here: all who listen. `checks`: what must still hold of the publisher's link when it is handed out (migrations/fn_topics.sql). */
  | { to: 'own'; orgId: string; org: string; checks: readonly string[]; skip: string | null }
  /** A topic behind links: its gateway handed it on to the agents of our orgs that listen. `revs`: by link id, the revision that it vouched for. */
  | { to: 'behind'; revs: Readonly<Record<string, number>>; skip: string | null }
  /** A topic behind a link: its own gateway, which hands it on. */
  | { to: 'far'; domain: string; linkId: string };

export interface Admission {
  wire: WireName;
  /** With `id` and `thread` filled in. */
  envelope: Envelope;
  envelopeText: string;
  a2aText: string | null;
  sender: Sender;
  /** 'm:<member id>', 'p:<peer id>', 'relay:<domain>[ <from>]' or 'anonymous:<random>': scopes the message id, and takes part in conversations. */
  senderKey: string;
  target: Target;
  /** The node signature that was verified, or null. */
  signature: { payload: string; nodeId: string | null; fingerprint: string } | null;
  /** The request signature's fingerprint for the replay store, written with the message; null for tokens. */
  proof: { key: Buffer; expiresAt: number } | null;
  /** False: a used id is not answered with the first result; a fresh inner id is made (plain A2A). */
  idempotent: boolean;
  /** The local asker's inbox gets the answers. False for callers that only poll a task. */
  askerHasInbox: boolean;
  /** Where answers to a foreign asker are sent: the peer's authority, or null when it polls. */
  askerVia: string | null;
  /** How they are brought there, when not as envelopes: the outbox kind, and what it needs beside the message. */
  askerBy: { kind: string; ref: string } | null;
  expiresAt: number;
  /** The node that a sealed request is for. A sealed answer is for `senderNode` of its request. */
  reservedFor: string | null;
  /** Its body is encrypted end to end. */
  sealed: boolean;
  /** The node here that sent it. */
  senderNode: string | null;
  /** Whose daily count it adds to, and what that may be; null when it counts for nobody. */
  quota: { orgId: string; limit: number | null } | null;
  files: NewZip | null;
  /** An agent here and its peer, whose budget it uses (`Limits`); null when it asks nothing. */
  budget: Budget | null;
  /** Its agent's owner decides first: it is stored and shown to her, and delivered when she says so. */
  held: Held | null;
}

export interface Budget {
  agentId: string;
  /** 'm:…', 'p:…' or 'anonymous'. */
  peer: string;
  /** The peer is not of the agent's organisation. */
  abroad: boolean;
  /** The agent here that sends it. */
  senderAgent: string | null;
  /** It goes to another instance. */
  leaves: boolean;
  /** As the gateway that sent it says (`Inbound.turns`). */
  turns: number;
}

/** Why a question waits for the owner of its agent. */
export interface Held {
  level: 'L2' | 'L3';
  action: string;
  /** What it would bring about, one by one. */
  effects: readonly string[];
  /** Every DID that the asker goes by, the narrowest first. */
  names: readonly string[];
  /** The authority of the asker. */
  domain: string;
  linkId: string | null;
  /** What the owner is shown of it. */
  content: string;
  /** Before this no decision counts. */
  decidableAt: number;
}

declare const admitted: unique symbol;

/** Made by `admit` alone (`gates/index.ts`); the exchange accepts nothing else from a wire. */
export type Admitted = Admission & { readonly [admitted]: true };

/** For `gates/index.ts` only; `test/house.test.ts` checks that nobody else imports it. */
export function markAdmitted(admission: Admission): Admitted {
  return admission as Admitted;
}
