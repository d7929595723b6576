import type { Agent, NodeIdentity } from '../directory/types.ts';
import type { Envelope } from '../exchange/message.ts';
import type { WireName } from '../exchange/sender.ts';
import type { HttpRequest } from '../lib/http.ts';

/**
 * What is asked. `message`: put a message in. `read`: see or steer something of one's own (a task, a stream).
 * `instance`: one gateway speaks to another about a link. `watch`: a watcher asks for wakes, with a key for nothing else. `knock`: may somebody send a body that costs much to read? Its body is still unread.
 */
export type Operation = 'message' | 'read' | 'instance' | 'watch' | 'knock';

/** What every wire builds and hands to `admit`. Nothing in it is believed until a gate has proved it. */
export interface Inbound {
  wire: WireName;
  operation: Operation;
  /** The HTTP request that carried it: the proofs are in its headers and bytes. */
  request: HttpRequest;
  /**
   * For `message`: the envelope, in REDSYN form whatever the wire. `from`, `to` and `thread` are claims and requests. An `id` or `from` of ''
   * is one that the wire's form does not have: an id is made, the sender is whoever the proof names.
   */
  envelope?: Envelope;
  /** The envelope's text as it arrived, byte for byte; where a zip stood, its size and hash stand. */
  envelopeText?: string;
  /** The zip that stood in the envelope. */
  zip?: Buffer | null;
  /** The A2A Message's text, when it came over A2A. */
  a2aText?: string;
  /** The addressee when it is not `envelope.to` alone: an agent that the URL or tenant names; null when nobody is there by that name. */
  addressee?: Agent | null;
  /** An event that the gateway of its topic hands on, as that gateway says. Counts only from a gateway itself. */
  handedOn?: HandedOn;
  /** The DID or address that the URL or tenant names, for when `addressee` is null. */
  named?: string;
  /** What it says it would have the agent do (src/gates/actions.ts); rules over `envelope.action`. */
  action?: string;
  /** The thread that the carrier asks for (A2A contextId, Confer thread_id); rules over `envelope.thread`. */
  thread?: string;
  /** An introduction that the sender shows (muretai `vc`), as JSON text. */
  introduction?: string;
  /** The sender claims to be this DID (Confer `from`, muretai `from`). */
  claimedDid?: string;
  /**
   * An answer whose form names no request (Confer): it is to the oldest open one that was asked of its sender in its thread, else it is told to its
   * addressee for itself.
   */
  namesNoRequest?: boolean;
  /** How many requests its gateway knows to have led to this one, itself included (fn_accept_limits.sql); 0 or absent: it says nothing. */
  turns?: number;
  /** Answers to a foreign asker leave by this outbox kind, which needs `ref` beside the message. Without: as envelopes to its gateway. */
  answersBy?: { kind: string; ref: string };
  /**
   * An agent that runs in this very process answers (src/model): who it speaks as, and the key that it signs with. No caller can say so: nothing of a
   * request is read into it, and only src/model sets it (test/house.test.ts). Counts for answers alone.
   */
  resident?: NodeIdentity;
  /** How answers reach the asker: put into its inbox (here, or at its own gateway), or it polls a task. */
  answers: 'inbox' | 'poll';
  /** Whether a repeat of the id gives the first result (design §5: REDSYN always; plain A2A only when asked). */
  idempotent: boolean;
}

/** What the topic's gateway adds to an event for the gateways of linked orgs that listen. */
export interface HandedOn {
  /** `topic:org/team/name` and the publisher's address, both in full and as that gateway writes them. */
  topic: string;
  from: string;
  /** The orgs that it is for, by their own handles, and the revision of the link's side that exposes the topic to each. */
  audience: ReadonlyArray<{ org: string; rev: number }>;
}
