import type { Tx } from '../db/types.ts';

/** Something that is owed to the outside. */
export interface OutboxItem {
  id: number;
  kind: string;
  /** The circuit it belongs to: a peer's authority, or a webhook's origin. */
  destination: string;
  lane: string;
  messageSeq: number | null;
  body: string | null;
  attempts: number;
  expiresAt: number;
}

/** What a try came to. */
export type SendResult =
  /** The other side has it. `note`: what it answered, for whoever waits on the first try. */
  | { outcome: 'delivered'; note?: unknown }
  /** Try again. `destinationDown`: the fault is the destination's, not this item's, so its circuit opens. */
  | { outcome: 'retry'; reason: string; retryAfterMs?: number; destinationDown: boolean }
  /** The other side will never take it. */
  | {
      outcome: 'refused';
      code: string;
      words: string;
      status: number;
      data?: Record<string, unknown>;
      stopDestination?: boolean;
    };

/** Sends items of one kind. Filled in by the gateway with the wires' clients, so that the outbox imports no wire. */
export interface Sender {
  readonly kind: string;
  send(item: OutboxItem): Promise<SendResult>;
  /** Runs in the transaction that removes the item, after `delivered`. */
  onDelivered?(tx: Tx, item: OutboxItem, result: SendResult): Promise<void>;
  /** Runs in the transaction that removes the item, when it was refused for good or its time ran out. */
  onGivenUp?(tx: Tx, item: OutboxItem, result: { code: string; words: string }): Promise<void>;
}

export interface NewOutboxItem {
  kind: string;
  destination: string;
  lane: string;
  messageSeq?: number;
  body?: string;
  expiresAt: number;
}
