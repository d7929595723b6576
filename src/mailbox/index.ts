import type { Db, Notifier } from '../db/types.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { Refusal } from '../lib/refusal.ts';
import { type Delivered, type Lease, longestLeaseMs, mailboxStore } from './store.ts';
import { type GiveUp, sweeper } from './sweep.ts';
import { WaitingRoom } from './wait.ts';

export type { Delivered, Ended, Lease } from './store.ts';
export { longestLeaseMs } from './store.ts';
export type { GiveUp } from './sweep.ts';

export interface TakeOptions {
  agentId: string;
  /** The node that takes: it alone may ack, and messages sealed for another node stay. */
  nodeId: string;
  /** Milliseconds until what was not acked goes back; 1 s to 12 h, default 900 s. */
  leaseMs?: number | undefined;
  /** Messages; default 10, at most 100. The answer also ends at about 1 MiB. */
  max?: number | undefined;
  /** Only answers to this message id, whatever the order of sessions. */
  replyTo?: string | null | undefined;
  /** Milliseconds to wait for a first message. Default 0. */
  waitMs?: number | undefined;
  /** The caller went away: nothing is leased for it, or it is given back at once (REL-01). */
  gone?: AbortSignal | undefined;
}

/** The durable inbox of every agent (REDSYN "Entrega", design §5). */
export interface Mailbox {
  /**
   * Leases the next messages to a node, in order of arrival; a later message of a session is not handed to another node while an earlier
   * one is leased. Counts as the agent's heartbeat. Whoever cannot write the answer out calls `release` with it.
   */
  take(options: TakeOptions): Promise<Delivered[] | Refusal>;
  /** What a take would find, without lease, attempt or heartbeat. */
  peek(options: Pick<TakeOptions, 'agentId' | 'nodeId' | 'max' | 'replyTo'>): Promise<Delivered[]>;
  /**
   * Prolongs a lease to `leaseMs` from now, for a taker that is still at work. False: the message was answered, ended, or taken by somebody else since.
   * Else the new end, which is part of the lease from now on.
   */
  extend(lease: Lease, leaseMs: number): Promise<number | false>;
  /**
   * Ends what `nodeId` took, and nobody else took since: an ack that comes after the lease ended still counts then. Answers the ids that
   * were acked just now; a repeat answers none and changes nothing.
   */
  ack(ack: { agentId: string; nodeId: string; ids: readonly string[] }): Promise<string[]>;
  /** Undoes leases whose answer did not reach the caller: queued again at once, the attempt not counted. Never rejects. */
  release(leases: readonly Lease[]): Promise<void>;
  start(): void;
  /** Graceful stop: held polls get an empty list, later takes too; resolves when no take or ack is under way. */
  drain(): Promise<void>;
  /** Stops the sweeper, after `drain`. Both may be called twice. */
  stop(): Promise<void>;
  /** One pass over what is over; the loop does this every 4 s. Answers how many deliveries were ended. */
  sweep(): Promise<number>;
  /** In this process: polls that are held, for how many agents, and looks into mailboxes under way. */
  stats(): { agents: number; held: number; looking: number };
}

export interface MailboxOptions {
  db: Db;
  notifier: Notifier;
  clock: Clock;
  log: Log;
  giveUp: GiveUp;
  /** Polls that one agent may hold open in one process. Default 64. */
  maxHeld?: number;
}

const defaultLeaseMs = 900_000;
const maxBytes = 1024 * 1024;

export function createMailbox(options: MailboxOptions): Mailbox {
  const { db, notifier, clock, log, maxHeld = 64 } = options;
  const store = mailboxStore(db, () => clock.now());
  const sweeping = sweeper(options);

  const release = async (leases: readonly Lease[]): Promise<void> => {
    if (leases.length === 0) return;
    try {
      const agents = await store.release(leases);
      await notifier.publish(agents.map((agent) => `inbox:${agent}`));
    } catch (error) {
      log.warn({ err: error, deliveries: leases.length }, 'leases could not be given back; they end by themselves');
    }
  };
  const room = new WaitingRoom({ store, notifier, clock, log, release, maxHeld });

  return {
    take: (take) =>
      room.take({
        agentId: take.agentId,
        nodeId: take.nodeId,
        leaseMs: clamp(take.leaseMs ?? defaultLeaseMs, 1_000, longestLeaseMs),
        max: clamp(take.max ?? 10, 1, 100),
        maxBytes,
        replyTo: take.replyTo ?? null,
        waitMs: take.waitMs ?? 0,
        gone: take.gone,
      }),
    peek: (peek) =>
      store.peek({
        agentId: peek.agentId,
        nodeId: peek.nodeId,
        max: clamp(peek.max ?? 10, 1, 100),
        maxBytes,
        replyTo: peek.replyTo ?? null,
      }),
    async ack(ack) {
      const acked = await store.ack(ack);
      // Also when none was left to ack: a reply has acked it before.
      if (ack.ids.length > 0) room.freed(ack.agentId);
      return acked;
    },
    async extend(lease, leaseMs) {
      const until = clock.now() + clamp(leaseMs, 1_000, longestLeaseMs);
      return (await store.extend(lease, until)) && until;
    },
    release,
    start: () => sweeping.start(),
    async drain() {
      room.drain();
      await store.drain();
    },
    stop: () => sweeping.stop(),
    sweep: () => sweeping.sweep(),
    stats: () => room.stats(),
  };
}

function clamp(value: number, min: number, max: number): number {
  return Math.min(Math.max(Math.trunc(value), min), max);
}
