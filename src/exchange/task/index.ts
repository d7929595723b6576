import type { Db, Notifier } from '../../db/types.ts';
import type { Clock } from '../../lib/clock.ts';
import { newId } from '../../lib/ids.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { a2aBodyType } from '../a2a-body.ts';
import type { Canceler, Cancels } from '../cancel/index.ts';
import type { Envelope } from '../message.ts';
import { readTask } from '../tasks.ts';
import { finalStates, type TaskView, type Viewer } from '../types.ts';
import { type ListPage, type ListQuery, listTasks } from './list.ts';
import * as store from './store.ts';
import { type TaskWatch, TaskWatches } from './watch.ts';

export type { ListPage, ListQuery } from './list.ts';
export type { TaskChange, TaskWatch } from './watch.ts';

export interface TasksOptions {
  db: Db;
  notifier: Notifier;
  clock: Clock;
  cancels: Pick<Cancels, 'cancel'>;
}

/** How long an agent may take to hear that what it works on was canceled. */
const noticeTtl = 7 * 86_400_000;

/** Exchanges as those who asked them list, follow and cancel them. */
export class Tasks {
  readonly #options: TasksOptions;
  readonly #watches: TaskWatches;

  constructor(options: TasksOptions) {
    this.#options = options;
    this.#watches = new TaskWatches(options);
  }

  list(viewer: Viewer, q: ListQuery): Promise<ListPage | Refusal> {
    return listTasks(this.#options.db, viewer, q);
  }

  /** Whoever watches holds no database connection meanwhile, and has to close the watch. Refusal: `not_found`. */
  watch(exchangeId: string, viewer: Viewer): Promise<TaskWatch | Refusal> {
    return this.#watches.watch(exchangeId, viewer);
  }

  /**
   * Cancels a task that has not ended, also one that an agent here has taken: it is told with a progress from the asker, and what it says later is
   * `exchange_closed`. One that was asked of an agent behind another gateway is withdrawn there, which takes only what nobody took. Refusals:
   * `not_found`, `exchange_closed` (it has ended, canceled included), `conflict` (taken at the other gateway).
   */
  async cancel(exchangeId: string, viewer: Viewer): Promise<TaskView | Refusal> {
    const { db, clock, notifier, cancels } = this.#options;
    const task = await readTask(db, exchangeId, viewer);
    if (task instanceof Refusal) return task;
    if (finalStates.has(task.state)) return ended();
    const names = await store.cancelable(db, task.id);
    if (!names) return refuse('not_found', 'Task not found.');
    const now = clock.now();
    const notice = noticeOf(names, newId(clock), now);
    // In a transaction for its retries: the sweep of expired messages locks in another order.
    const row = await db.tx((tx) =>
      store.cancelTask(tx, {
        exchangeId: task.id,
        noticeId: notice.id,
        notice: JSON.stringify(notice),
        expiresAt: now + noticeTtl,
        origin: notifier.origin,
        now,
      }),
    );
    notifier.wake(row.wakes);
    if (row.outcome === 'ended') return ended();
    if (row.outcome === 'elsewhere' && viewer.kind !== 'anonymous') {
      const by: Canceler = viewer.kind === 'agent' ? { kind: 'member', memberIds: [viewer.memberId] } : viewer;
      const done = await cancels.cancel(by, names.request_id);
      if (done instanceof Refusal) return done;
    }
    return readTask(db, exchangeId, viewer);
  }

  /** Ends all watches: the gateway stops. */
  close(): void {
    this.#watches.close();
  }

  stats(): { tasks: number; readers: number } {
    return this.#watches.stats();
  }
}

function ended(): Refusal {
  return refuse('exchange_closed', 'That task has ended.');
}

/** What an agent that took the request hears. A progress, since nothing answers one automatically. */
function noticeOf({ request_id, asker_addr, asked_thread }: store.CancelableRow, id: string, now: number): Envelope {
  return {
    v: 1,
    id,
    kind: 'progress',
    from: asker_addr,
    ...(asked_thread !== null && { thread: asked_thread }),
    reply_to: request_id,
    ts: Math.floor(now / 1000),
    body: { type: a2aBodyType, text: 'canceled', data: { status: { state: 'TASK_STATE_CANCELED' } } },
  };
}
