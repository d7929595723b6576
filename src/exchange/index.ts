import { setMaxListeners } from 'node:events';
import type { Db, Notifier, Tx } from '../db/types.ts';
import { Batcher } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import { readA2aBody } from './a2a-body.ts';
import { toAccepted, toItem } from './accept.ts';
import { Carrier, type FirstTries } from './carrier.ts';
import { FileAcceptances, readFiles } from './files/files.ts';
import { purgeFiles, readZip } from './files/store.ts';
import { createLookups } from './lookup.ts';
import type { ExchangeLookups } from './lookups.ts';
import type { RoomHub } from './rooms/index.ts';
import { type AcceptItem, type AcceptRow, acceptMessages, updatedAt } from './store.ts';
import { followed, readTask } from './tasks.ts';
import { readThread, type ThreadView } from './threads.ts';
import { EventCarrier } from './topics/carried.ts';
import type { Exchange } from './types.ts';
import { endUndelivered, undeliveredWords } from './undelivered.ts';

export interface ExchangeOptions {
  db: Db;
  notifier: Notifier;
  clock: Clock;
  /** How long a sender waits for the first answer of another gateway before it is told "accepted" (design §10). */
  firstTryMs?: number;
  outbox: FirstTries;
  rooms: Pick<RoomHub, 'post'>;
}

export interface Core extends Exchange {
  readonly lookups: ExchangeLookups;
  readonly carrier: Carrier;
  readonly eventCarrier: EventCarrier;
  /** A delivery ended without an ack: the sender is told in REDSYN's words. Runs in the transaction that removes it. */
  deliveryEnded(tx: Tx, messageSeq: number, reason: 'expired' | 'worn_out' | 'node_gone'): Promise<void>;
  /** The conversation that goes by `thread`, cut to what these members may see. */
  thread(memberIds: readonly string[], thread: string, before: string | null): Promise<ThreadView | Refusal>;
  /** The zip of a message that these members, or somebody of their orgs, sent or got. `from` names the sender where several used the id. */
  files(q: { id: string; from: string | null; memberIds: string[]; orgIds: string[] }): Promise<Buffer | Refusal>;
  /** The zip of a message that somebody proves to know; null when it is gone. */
  zipOf(seq: number): Promise<Buffer | null>;
  /** Drops files whose time is over. Answers how many. */
  purge(): Promise<number>;
  /** The gateway stops: whoever waits for a change is told to answer with what there is. */
  endWaits(): void;
  /** Resolves when all that was being accepted is durable. */
  drain(): Promise<void>;
}

const deadlock = '40P01';

export function createExchange({ db, notifier, clock, firstTryMs = 5_000, outbox, rooms }: ExchangeOptions): Core {
  const carrier = new Carrier(db, clock, outbox);
  const stopping = new AbortController();
  // Each call that waits listens.
  setMaxListeners(0, stopping.signal);
  const acceptances = new Batcher<AcceptItem, AcceptRow>({ run, max: 200, inFlight: 2 });
  const withFiles = new FileAcceptances(
    db,
    clock,
    async (tx, item) => (await acceptMessages(tx, [item], notifier.origin, clock.now()))[0]!,
  );

  async function run(items: AcceptItem[]): Promise<AcceptRow[]> {
    // Two batches that touch the same topics and mailboxes lock them in one order.
    const order = items
      .map((item, at) => ({ item, at }))
      .sort((a, b) => compare(lockOf(a.item), lockOf(b.item)) || a.at - b.at);
    const sorted = order.map(({ item }) => item);
    for (let tries = 1; ; tries++) {
      try {
        const rows = await acceptMessages(db, sorted, notifier.origin, clock.now());
        const back = new Array<AcceptRow>(items.length);
        for (const [i, row] of rows.entries()) back[order[i]!.at] = row;
        return back;
      } catch (error) {
        if ((error as { code?: string }).code !== deadlock || tries === 3) throw error;
      }
    }
  }

  return {
    lookups: createLookups(db),
    carrier,
    eventCarrier: new EventCarrier(db, clock, carrier),

    async accept(admitted, beside = {}) {
      const fault = readA2aBody(admitted.envelope);
      if (fault instanceof Refusal) return fault;
      if (beside.goesOn && admitted.held?.level === 'L3') {
        // The decision about its first message does not cover this one.
        return refuse('policy_denied', 'What is asked of the owner every time is a request of its own.').by('policy');
      }
      const post = await rooms.post(admitted, beside);
      if (post instanceof Refusal) return post;
      const goesOn = beside.goesOn && (await followed(db, beside.goesOn));
      if (goesOn instanceof Refusal) return goesOn;
      // Nobody in particular is known by the unguessable id of the task alone, and is then who opened it.
      const item = {
        ...toItem(admitted, clock, { ...beside, ...(post && { post }) }),
        ...(goesOn?.sender && { sender: goesOn.sender }),
      };
      const row = await (admitted.files ? withFiles.submit(item, admitted.files) : acceptances.submit(item));
      if (row instanceof Refusal) return row;
      const accepted = toAccepted(row, item);
      if (accepted instanceof Refusal) return accepted;
      if (row.outbox_id === null) {
        notifier.wake(row.wakes);
        return accepted;
      }
      if (item.target === 'asker') {
        outbox.sendNow([row.outbox_id]);
        notifier.wake(row.wakes);
        return accepted;
      }
      const answer = await carrier.first(row.outbox_id, item.destination!, firstTryMs);
      if (answer instanceof Refusal) return answer;
      return answer ? { ...accepted, to: accepted.to + answer.session } : accepted;
    },

    task: (exchangeId, viewer) => readTask(db, exchangeId, viewer),

    async waitForChange(exchangeId, since, waitMs, gone) {
      await new Promise<void>((resolve, reject) => {
        const done = (): void => {
          cancel();
          unsubscribe();
          gone.removeEventListener('abort', done);
          stopping.signal.removeEventListener('abort', done);
          resolve();
        };
        const cancel = clock.after(waitMs, done);
        const unsubscribe = notifier.subscribe(`exchange:${exchangeId}`, done);
        gone.addEventListener('abort', done, { once: true });
        stopping.signal.addEventListener('abort', done, { once: true });
        if (gone.aborted || stopping.signal.aborted) return done();
        updatedAt(db, exchangeId).then((now) => now !== since && done(), reject);
      });
      return !stopping.signal.aborted;
    },

    endWaits: () => stopping.abort(),

    deliveryEnded: (tx, messageSeq, reason) =>
      endUndelivered(tx, messageSeq, reason, (address) => undeliveredWords(reason, address), clock.now()),

    thread: (memberIds, thread, before) => readThread(db, memberIds, thread, before),

    files: (q) => readFiles(db, q),

    zipOf: (seq) => readZip(db, seq),

    purge: () => purgeFiles(db, clock.now()),

    async drain() {
      await Promise.all([acceptances.drain(), withFiles.drain()]);
    },
  };
}

/** Topics come before mailboxes. */
function lockOf({ agent_id, target, to_addr }: AcceptItem): string {
  if (target === 'room') return `1 ${agent_id}`;
  return agent_id ? `2 ${agent_id}` : target === 'event' ? `1 ${to_addr}` : '';
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
