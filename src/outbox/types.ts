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
  /** Tries, the one under way included: 1 on the first. */
  attempts: number;
  expiresAt: number;
}

/** What a try came to. */
export type SendResult =
  /** The other side has it. `note`: what it answered, for whoever waits on the first try. */
  | { outcome: 'delivered'; note?: unknown }
  /**
   * Try again, not before `retryAfterMs` (at most an hour counts). `destinationDown`: the fault is the destination's, not this item's,
   * so its circuit opens.
   */
  | { outcome: 'retry'; reason: string; retryAfterMs?: number; destinationDown: boolean }
  /**
   * The other side will never take it. `stopDestination`: it refuses us altogether (401, 403), so nothing more goes there until an
   * operator clears the circuit or the destination calls.
   */
  | {
      outcome: 'refused';
      code: string;
      words: string;
      status: number;
      data?: Record<string, unknown>;
      stopDestination?: boolean;
    };

/** Why an item was given up. `status` and `data` are the far side's; an item whose time ran out has the code `expired` and neither. */
export interface GivenUp {
  code: string;
  words: string;
  status?: number;
  data?: Record<string, unknown>;
}

/** Sends items of one kind. Filled in by the gateway with the wires' clients, so that the outbox imports no wire. */
export interface Sender {
  readonly kind: string;
  /**
   * One try. `signal` aborts when the try takes too long; the item is then tried again, and so it is after a crash: the other side must know
   * it again. What it throws counts as a fault of this item.
   */
  send(item: OutboxItem, signal: AbortSignal): Promise<SendResult>;
  /**
   * Milliseconds between the `attempts`-th failed try of an item and the next, where the protocol names its own schedule; it then also
   * holds while the destination is down. Without: doubling from 8 s up to an hour, and while the destination is down its circuit alone decides.
   */
  retryDelay?(attempts: number): number;
  /** Runs in the transaction that removes the item, after `delivered`. */
  onDelivered?(tx: Tx, item: OutboxItem, result: SendResult): Promise<void>;
  /** Runs in the transaction that removes the item, when it was refused for good or its time ran out. */
  onGivenUp?(tx: Tx, item: OutboxItem, result: GivenUp): Promise<void>;
}

export interface NewOutboxItem {
  kind: string;
  destination: string;
  lane: string;
  messageSeq?: number;
  body?: string;
  expiresAt: number;
}

/** A destination that is not simply well. Times in milliseconds. */
export interface Circuit {
  destination: string;
  failures: number;
  /** Nothing is tried before this time, unless the destination calls first. */
  openUntil: number;
  downSince: number | null;
  lastError: string | null;
  /** Set when the destination refuses us: stopped until an operator or the destination acts. */
  alert: string | null;
  /** Items that wait for it; counted up to 10,000. */
  waiting: number;
}
