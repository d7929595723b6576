import type { Body } from '../message.ts';
import type { ExchangeState } from '../types.ts';

/** A request on its way to an agent on an A2A server. */
export interface RemoteRequest {
  exchangeId: string;
  messageSeq: number;
  messageId: string;
  /** With its zip where the sender wrote one. */
  envelopeText: string;
  /** Whose key signs. */
  ownerId: string;
  orgId: string;
  /** The asker's conversation, and whom it asks there. */
  thread: string;
  agent: string;
  expiresAt: number;
  /** It ended, or an earlier try has brought it there already: nothing is to be sent. */
  done: boolean;
  /** What was asked of this agent in this thread before: its context, and its task while that waits for more. */
  before: { exchangeId: string; endpoint: string; contextId: string | null; taskId: string | null } | null;
}

/** A request as its server has it. */
export interface RemoteTask {
  exchangeId: string;
  ownerId: string;
  agent: string;
  destination: string;
  endpoint: string;
  taskId: string | null;
  contextId: string | null;
  state: string;
  heldUntil: number;
  pushId: string | null;
  pushToken: string | null;
  pushedAt: number;
  snapshot: string | null;
  told: readonly string[];
  /** The exchange, or this part of it, has ended. */
  ended: boolean;
  /** A later request goes on with it, and hears of it. */
  continued: boolean;
}

/** What a server said after a send: where the request stands there. */
export interface Opened {
  destination: string;
  card: string;
  endpoint: string;
  taskId: string | null;
  contextId: string | null;
  state: string;
  push: { id: string; token: string } | null;
  /** While a process waits for the answer to the send itself: until when it will have said so again. */
  heldUntil: number;
}

/** What the asker is told of it. */
export interface RemoteAnswer {
  /** The same thing told twice has the same key. */
  key: string;
  kind: 'progress' | 'reply';
  state: ExchangeState;
  reason: string | null;
  body: Body;
  /** The A2A message behind it. */
  a2aText: string | null;
  zip: Buffer | null;
}
