import type { Db, Notifier, Tx } from '../../db/types.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Refusal, refuse } from '../../lib/refusal.ts';
import type { GivenUp, OutboxItem } from '../../outbox/types.ts';
import type { FirstTries } from '../carrier.ts';
import * as store from './store.ts';

/** A withdrawal that travels to the gateway of whom was asked. */
export interface CarriedCancel {
  /** The request's id, as its sender wrote it. */
  requestId: string;
  /** Whose key signs: the owner's of whoever asked. */
  ownerId: string;
}

/** What became of a withdrawal: done; or the other gateway has not said yet, and goes on being asked. */
export interface Canceled {
  id: string;
  pending: boolean;
}

/** Who withdraws: somebody here with every membership, or a foreign signer. */
export type Canceler = { kind: 'member'; memberIds: readonly string[] } | { kind: 'peer'; did: string };

const firstTryMs = 5_000;

/** REDSYN "Cancelar": a request that nobody took yet can be withdrawn, wherever it waits. */
export class Cancels {
  readonly #db: Db;
  readonly #clock: Clock;
  readonly #notifier: Pick<Notifier, 'origin' | 'wake'>;
  readonly #outbox: FirstTries;

  constructor(deps: { db: Db; clock: Clock; notifier: Pick<Notifier, 'origin' | 'wake'>; outbox: FirstTries }) {
    this.#db = deps.db;
    this.#clock = deps.clock;
    this.#notifier = deps.notifier;
    this.#outbox = deps.outbox;
  }

  /**
   * Withdraws a request; a second time is the same. Refusals: `not_found` (also for somebody else's), `conflict` (it was taken, or is
   * answered).
   */
  async cancel(by: Canceler, id: string): Promise<Canceled | Refusal> {
    const { origin } = this.#notifier;
    const askers =
      by.kind === 'member' ? by.memberIds.map((one) => `m:${one}`) : await store.peerKeys(this.#db, by.did);
    const known = id.length <= 256 && !id.includes('\0') && askers.length > 0;
    // In a transaction for its retries: the sweep of expired messages locks in another order.
    const now = this.#clock.now();
    const row = known ? await this.#db.tx((tx) => store.cancelRequest(tx, { askers, id, origin, now })) : null;
    switch (row?.outcome) {
      case undefined:
      case 'missing':
        return refuse('not_found', 'You have sent no such request.');
      case 'taken':
        return taken(row.addressee!);
      case 'answered':
        return answered();
      case 'canceled':
        this.#notifier.wake([`exchange:${row.exchange}`]);
        return { id, pending: false };
      case 'away':
        return this.#away(row, id);
    }
  }

  /** Null when there is nothing to withdraw any more. */
  async load(requestSeq: number): Promise<CarriedCancel | null> {
    const row = await store.requestAway(this.#db, requestSeq);
    return row && row.state === 'submitted' ? { requestId: row.requestId, ownerId: row.owner } : null;
  }

  /** The other gateway has withdrawn it, or never had it. */
  async delivered(tx: Tx, requestSeq: number): Promise<void> {
    const row = await store.requestAway(tx, requestSeq);
    if (row && (await store.endCanceled(tx, row.exchangeId, this.#clock.now())))
      tx.notify(`exchange:${row.exchangeId}`);
  }

  /** Too late, or nobody to ask: the request stays what it is. */
  async givenUp(_tx: Tx, _item: OutboxItem, _why: GivenUp): Promise<void> {}

  async #away(row: store.CancelRow, id: string): Promise<Canceled | Refusal> {
    const outboxId = row.outbox_id!;
    this.#outbox.sendNow([outboxId]);
    const [tried, down] = [this.#outbox.firstTry(outboxId, firstTryMs), this.#outbox.isDown(row.destination!)];
    const result = (await down) ? null : await tried;
    // What came in the meantime counts more than what the other side answered.
    const state = await store.stateOf(this.#db, row.exchange!);
    if (state === 'canceled') return { id, pending: false };
    if (state !== 'submitted')
      return state === 'working' || state === 'input_required' ? taken(row.addressee!) : answered();
    if (result?.outcome !== 'refused') return { id, pending: true };
    return result.code === 'conflict'
      ? taken(row.addressee!)
      : refuse('conflict', `The other side does not withdraw it: ${result.words}`);
  }
}

function taken(address: string): Refusal {
  return refuse('conflict', `${address} has taken it already: only its answer ends it now.`);
}

function answered(): Refusal {
  return refuse('conflict', 'It is answered already.');
}
