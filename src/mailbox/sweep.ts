import type { Db, Tx } from '../db/types.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { every, type Loop } from '../lib/loop.ts';
import { type Ended, lockEnded, lockOrphaned, removeDeliveries } from './store.ts';

/** Tells the senders, in the transaction that removes the deliveries. What it throws keeps them. */
export type GiveUp = (tx: Tx, ended: readonly Ended[]) => Promise<void>;

export interface SweeperOptions {
  db: Db;
  clock: Clock;
  log: Log;
  giveUp: GiveUp;
}

/** Design §10: expiry is noticed within 5 s without outside help. */
const interval = 4_000;
const batch = 100;

/** Ends what expired, or was taken ten times and never acked. Replicas share the work: each passes over what another holds. */
export function sweeper(options: SweeperOptions): Loop & { sweep(): Promise<number> } {
  const loop = every(interval, async (stopping) => void (await sweep(options, stopping)), {
    ...options,
    name: 'mailbox sweep',
  });
  return { ...loop, sweep: () => sweep(options) };
}

async function sweep(options: SweeperOptions, stopping?: AbortSignal): Promise<number> {
  return (await sweepOrphaned(options)) + (await sweepEnded(options, stopping));
}

/** One round at a time: nodes are revoked seldom. */
async function sweepOrphaned({ db, clock, giveUp }: SweeperOptions): Promise<number> {
  return db.tx(async (tx) => {
    const { ended, freed } = await lockOrphaned(tx, { now: clock.now(), limit: batch });
    for (const agent of freed) tx.notify(`inbox:${agent}`);
    if (ended.length > 0) {
      await giveUp(tx, ended);
      await removeDeliveries(
        tx,
        ended.map((each) => each.deliveryId),
      );
    }
    return ended.length;
  });
}

async function sweepEnded({ db, clock, log, giveUp }: SweeperOptions, stopping?: AbortSignal): Promise<number> {
  let after = { expiresAt: 0, id: 0 };
  let ended = 0;
  let limit = batch;
  while (!stopping?.aborted) {
    let locked: Awaited<ReturnType<typeof lockEnded>> = [];
    try {
      await db.tx(async (tx) => {
        locked = await lockEnded(tx, { now: clock.now(), limit, after });
        if (locked.length === 0) return;
        await giveUp(tx, locked);
        await removeDeliveries(
          tx,
          locked.map((each) => each.deliveryId),
        );
      });
      ended += locked.length;
    } catch (error) {
      if (locked.length === 0) throw error;
      // One that cannot be ended must not keep the others: they go one by one, and that one waits for the next sweep.
      if (limit > 1) {
        limit = 1;
        continue;
      }
      log.error({ err: error, delivery: locked[0]?.deliveryId }, 'a delivery could not be ended; it is tried again');
    }
    const last = locked.at(-1);
    if (!last || (limit > 1 && locked.length < limit)) return ended;
    after = { expiresAt: last.expiresAt, id: last.deliveryId };
  }
  return ended;
}
