import type { Db, Tx } from '../db/types.ts';
import type { Deliveries, WakeWebhook } from '../directory/delivery.ts';
import type { Clock } from '../lib/clock.ts';
import { type Refusal, refuse } from '../lib/refusal.ts';
import type { Outbox } from './index.ts';
import * as store from './wakes/store.ts';

export interface WakesDeps {
  db: Db;
  clock: Clock;
  deliveries: Pick<Deliveries, 'open'>;
  outbox: Pick<Outbox, 'sendNow' | 'firstTry'>;
}

/** replyslip.md, word for word: what every wake says, and all that it says. */
export const wakeNotice = 'Another agent sent you something on ReplySlip; check it with your ReplySlip tools.';

/** One try that is to be made. */
export interface DueWake {
  id: string;
  agent: string;
  reason: string;
  taskId: string | null;
  createdAt: number;
  webhook: WakeWebhook;
}

/** What a watcher is handed. */
export interface LocalWake {
  id: string;
  driver: string;
  target: string;
}

/** replyslip.md "When a webhook POST fails" and "Local agent". Milliseconds. */
const firstDelay = 30_000;
const longestDelay = 3_600_000;
const mostAttempts = 8;
const leaseMs = 60_000;
const mostPolled = 50;
const mostRetried = 200;
/** A row of the outbox is one try: it needs no longer than the destination is busy. */
const tryMs = 86_400_000;
const keptMs = 7 * 86_400_000;
const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Wakes after the database owed them (migrations/fn_wakes.sql). A webhook's first try is a row of the outbox from the start; when it fails the row
 * goes, the wake keeps the time of the next, and whoever runs retries puts it into the outbox again.
 */
export class Wakes {
  readonly #deps: WakesDeps;

  constructor(deps: WakesDeps) {
    this.#deps = deps;
  }

  /** Begins one try; null when there is none to make: the wake ended, or its agent is not woken by a webhook any more. */
  async begin(id: string): Promise<DueWake | null> {
    const { db, clock, deliveries } = this.#deps;
    const row = await store.begin(db, id, clock.now());
    if (!row) return null;
    const { sealed, agentId, attempts: _attempts, ...wake } = row;
    return { ...wake, webhook: deliveries.open(agentId, sealed) };
  }

  done(tx: Tx, id: string): Promise<void> {
    return store.done(tx, id, this.#deps.clock.now());
  }

  /** 30 s, doubled up to an hour, or later when the other side asks for it; after 8 tries it is `failed`. */
  failed(tx: Tx, id: string, error: string, retryAfterMs = 0): Promise<void> {
    const atLeast = Math.min(retryAfterMs, longestDelay);
    const limits = { first: firstDelay, cap: longestDelay, most: mostAttempts, atLeast };
    return store.failed(tx, { id, error, now: this.#deps.clock.now(), ...limits });
  }

  /** Sends what is due again, at most 200, and waits up to `waitMs` for what became of it. */
  async retryDue(waitMs: number): Promise<{ due: number; delivered: number; pending: number; failed: number }> {
    const { db, clock, outbox } = this.#deps;
    const now = clock.now();
    const rows = await db.tx((tx) => store.enqueueDue(tx, { now, until: now + tryMs, most: mostRetried }));
    const tries = rows.map(({ outboxId }) => outboxId);
    if (tries.length > 0) outbox.sendNow(tries);
    if (waitMs > 0) await Promise.all(tries.map((id) => outbox.firstTry(id, waitMs)));
    const ids = rows.map(({ id }) => id);
    const counted = new Map((await store.states(db, ids)).map(({ state, n }) => [state, n]));
    const count = (state: 'pending' | 'done' | 'failed'): number => counted.get(state) ?? 0;
    return { due: rows.length, delivered: count('done'), pending: count('pending'), failed: count('failed') };
  }

  /** Leased for 60 s. */
  poll(orgId: string): Promise<LocalWake[]> {
    const { db, clock } = this.#deps;
    const now = clock.now();
    return store.poll(db, { orgId, most: mostPolled, leaseUntil: now + leaseMs, last: mostAttempts, now });
  }

  /** Twice is once. `not_found`: not of that org, or never handed out; `conflict`: it has failed meanwhile. */
  async ack(orgId: string, id: string): Promise<Refusal | undefined> {
    const { db, clock } = this.#deps;
    const before = uuid.test(id) ? await store.ack(db, { orgId, id, now: clock.now() }) : undefined;
    if (before === undefined) return refuse('not_found', 'There is no such wake.');
    return before === 'failed' ? refuse('conflict', 'This wake has failed: its leases are used up.') : undefined;
  }

  /** What waits for an agent, what was given up in the last week, and why the last try failed. */
  standing(agentId: string): Promise<store.Standing> {
    return store.standingOf(this.#deps.db, agentId);
  }

  purge(): Promise<void> {
    return store.purge(this.#deps.db, this.#deps.clock.now() - keptMs);
  }
}
