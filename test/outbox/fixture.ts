import type { Db, Notifier } from '../../src/db/types.ts';
import { ManualClock } from '../../src/lib/clock.ts';
import {
  createOutbox,
  type Outbox,
  type OutboxItem,
  type OutboxOptions,
  type Sender,
  type SendResult,
} from '../../src/outbox/index.ts';
import { quiet, until } from '../mailbox/fixture.ts';
import { type FreshDatabase, freshDatabase } from '../support/database.ts';

export { until };

export const down: SendResult = { outcome: 'retry', reason: '503', destinationDown: true };
export const delivered: SendResult = { outcome: 'delivered' };

/** A sender whose answers the test gives: `answers` decides, by destination and body. */
export class Recorder implements Sender {
  readonly kind = 'redsyn';
  readonly tries: { at: number; id: number; destination: string; body: string | null; attempts: number }[] = [];
  readonly delivered: number[] = [];
  readonly givenUp: { id: number; code: string; status: number | undefined }[] = [];
  under = 0;
  most = 0;
  answer: (item: OutboxItem) => SendResult | Promise<SendResult> = () => delivered;
  #clock: ManualClock;

  constructor(clock: ManualClock) {
    this.#clock = clock;
  }

  async send(item: OutboxItem): Promise<SendResult> {
    const { id, destination, body, attempts } = item;
    this.tries.push({ at: this.#clock.now(), id, destination, body, attempts });
    this.under++;
    this.most = Math.max(this.most, this.under);
    try {
      return await this.answer(item);
    } finally {
      this.under--;
    }
  }

  async onDelivered(_tx: unknown, item: OutboxItem): Promise<void> {
    this.delivered.push(item.id);
  }

  async onGivenUp(_tx: unknown, item: OutboxItem, why: { code: string; status?: number }): Promise<void> {
    this.givenUp.push({ id: item.id, code: why.code, status: why.status });
  }
}

export interface Office {
  database: FreshDatabase;
  db: Db;
  notifier: Notifier;
  clock: ManualClock;
  sender: Recorder;
  outbox: Outbox;
  another(options?: Partial<OutboxOptions>): Outbox;
  owe(item?: { destination?: string; lane?: string; body?: string; ttl?: number; kind?: string }): Promise<number>;
  left(): Promise<number>;
}

let lanes = 0;
const open = new Set<Outbox>();

/** Lets what the outboxes look for and record come to an end. Tries may be under way. */
export async function settle(): Promise<void> {
  for (let quiet = 0; quiet < 3; quiet++) {
    await until(() => [...open].every((outbox) => !outbox.stats().busy));
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** The same, until no try is under way either. */
export async function rest(): Promise<void> {
  await settle();
  await until(() => [...open].every((outbox) => !outbox.stats().busy && outbox.stats().inFlight === 0));
  await settle();
}

/** Whether `promise` is still pending after what is under way had time to settle. */
export async function waits(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol('pending');
  await settle();
  return (await Promise.race([promise, new Promise((resolve) => setTimeout(resolve, 20, pending))])) === pending;
}

/** A fresh database with one outbox on it, not started. It is stopped at the end of the test. */
export async function office(lifetime: { after(fn: () => Promise<void>): void }): Promise<Office> {
  open.clear();
  const started: Outbox[] = [];
  const clock = new ManualClock();
  // `after` hooks run in the order they were made: outboxes stop before the database closes.
  lifetime.after(async () => void (await Promise.all(started.map((outbox) => outbox.stop()))));
  const database = await freshDatabase(lifetime);
  const { db, notifier } = database;
  const another = (options: Partial<OutboxOptions> = {}): Outbox => {
    const outbox = createOutbox({ db, notifier, clock, log: quiet, random: () => 0.5, ...options });
    started.push(outbox);
    open.add(outbox);
    return outbox;
  };
  const outbox = another();
  return {
    database,
    db,
    notifier,
    clock,
    sender: new Recorder(clock),
    outbox,
    another,
    owe: ({ destination = 'acme.com', lane = `lane ${++lanes}`, body = '', ttl = 86_400_000, kind = 'redsyn' } = {}) =>
      db.tx((tx) => outbox.enqueue(tx, { kind, destination, lane, body, expiresAt: clock.now() + ttl })),
    left: async () => (await db.query<{ n: number }>('select count(*) as n from outbox')).rows[0]!.n,
  };
}
