import type { Refusal } from '../lib/refusal.ts';
import type { Admitted } from './admitted.ts';
import type { Envelope, MessageKind } from './message.ts';
import type { PushRow } from './push/store.ts';

export type ExchangeState =
  | 'submitted'
  | 'working'
  | 'input_required'
  | 'auth_required'
  | 'completed'
  | 'failed'
  | 'canceled'
  | 'rejected';

/** States that nothing follows. */
export const finalStates: ReadonlySet<ExchangeState> = new Set(['completed', 'failed', 'canceled', 'rejected']);

/** What became of an admitted message. A repeat of an idempotent one gets the first answer with `duplicate`. */
export interface Accepted {
  duplicate: boolean;
  /** Also the A2A task id. For a progress or reply: the exchange that it belongs to. */
  exchangeId: string;
  /** The message's id as the sender wrote it, or the one made for it. */
  id: string;
  /** The thread as the sender writes it. */
  thread: string;
  /** The addressee, with its session when it lives here. */
  to: string;
  /** A node signature was verified. */
  signed: boolean;
  state: ExchangeState;
  /** The agent and the sender come near a limit of theirs: `used` of `limit` today. Past it they are paused until an owner lets them go on. */
  warning?: { of: string; used?: number; limit?: number };
}

/** Who looks at a task. Somebody else's is told apart from a missing one by nobody: both are `not_found`. */
export type Viewer =
  /** A person of this instance, with every membership. */
  | { kind: 'member'; memberIds: string[] }
  /** One agent of this instance, by its own key: what it asked itself. */
  | { kind: 'agent'; memberId: string; address: string }
  /** A foreign DID. It sees what itself, a DID beneath it (`did:`) or the DID above it asked. */
  | { kind: 'peer'; did: string }
  /** Whoever knows the unguessable id of a task that an anonymous caller opened. */
  | { kind: 'anonymous' };

export interface TaskMessage {
  /** Order within the task. */
  seq: number;
  id: string;
  kind: MessageKind;
  fromAsker: boolean;
  envelope: Envelope;
  /** The A2A Message as it arrived, when it came over A2A. */
  a2aText: string | null;
  createdAt: number;
}

/** An exchange as its asker may see it. */
export interface TaskView {
  id: string;
  /** The thread as the asker wrote it, or was told. */
  thread: string;
  /** Who was asked: the local agent's id, or null when the asked agent lives elsewhere; its address without session. */
  asked: { agentId: string | null; address: string };
  state: ExchangeState;
  /** Machine-readable reason of a failed end. */
  reason: string | null;
  createdAt: number;
  /** Milliseconds; grows with every message and every change of state. */
  updatedAt: number;
  /** Webhooks of the task that did not take the last push. */
  pushErrors?: readonly PushError[];
  /** The request first, then what came of it, in order. */
  messages: TaskMessage[];
}

export interface PushError {
  /** Of the config. */
  id: string;
  error: string;
  /** Milliseconds. */
  at: number;
}

/** What a request may bring along (A2A). */
export interface Beside {
  /**
   * The request goes on with a task of its sender's that has not ended: whoever was asked gets it in the same session, and a reply to either closes
   * the task. Refusals: `not_found` (also when the task is another agent's), `exchange_closed`, `invalid_field` when `thread` is another one.
   */
  goesOn?: { taskId: string; thread: string | undefined; viewer: Viewer };
  /** Whom to tell of the task's changes, from the first on. */
  push?: readonly PushRow[];
}

/** The core as the wires see it. */
export interface Exchange {
  /** One transaction: all of it is durable when this resolves, or nothing happened. */
  accept(admitted: Admitted, beside?: Beside): Promise<Accepted | Refusal>;
  task(exchangeId: string, viewer: Viewer): Promise<TaskView | Refusal>;
  /**
   * Resolves when the exchange changed after `sinceUpdatedAt`, when `waitMs` have passed, or when `gone` aborts. Holds no database
   * connection while it waits. A wake is a hint: read the task again. False: the gateway stops, and there is nothing more to wait for.
   */
  waitForChange(exchangeId: string, sinceUpdatedAt: number, waitMs: number, gone: AbortSignal): Promise<boolean>;
}
