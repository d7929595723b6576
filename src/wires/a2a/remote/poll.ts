import type { RemoteTask } from '../../../exchange/remote/index.ts';
import { finalStates } from '../../../exchange/types.ts';
import { backoff } from '../../../lib/backoff.ts';
import { FetchRefused } from '../../../lib/fetch-types.ts';
import type { OutboxItem, Sender, SendResult } from '../../../outbox/types.ts';
import { otherVersion } from '../client-result.ts';
import { isUnknownTask } from './absent.ts';
import { callRemote, readRemote } from './calls.ts';
import type { TaskNow } from './form.ts';
import { callTimeoutMs, endpointOfTask, isOutcome, type RemoteOptions, tell } from './options.ts';
import type { Streams } from './stream.ts';

const baseMs = 1_000;
/** A task is asked after at least that often; one whose server also pushes or streams, or waits for the asker, less. */
const capMs = 30_000;
const easyCapMs = 300_000;
/** A server may take a moment to know a task that it has just named. */
const patientTries = 5;

/**
 * Follows tasks of A2A servers to their end (outbox kind 'a2a-task'): one row per task, so that it outlives this process and no two replicas ask
 * at once. Pushes and streams make it quicker; the poll alone is relied on.
 */
export class RemotePoll implements Sender {
  readonly kind = 'a2a-task';
  readonly #options: RemoteOptions;
  readonly #streams: Streams;

  constructor(options: RemoteOptions, streams: Streams) {
    this.#options = options;
    this.#streams = streams;
  }

  async send(item: OutboxItem, signal: AbortSignal): Promise<SendResult> {
    const { tasks, clock } = this.#options;
    const task = await tasks.task(exchangeOf(item));
    if (!task || task.ended || task.continued) return { outcome: 'delivered' };
    if (task.taskId === null) {
      if (task.heldUntil > clock.now()) return later(15_000);
      await tasks.sendAgain(task.exchangeId);
      return { outcome: 'delivered' };
    }
    // It was told just now how things stand.
    if (item.attempts === 1) return later(0);
    try {
      return await this.#ask(task, task.taskId, item, signal);
    } catch (error) {
      if (!(error instanceof FetchRefused)) throw error;
      return { outcome: 'retry', reason: `${error.reason}: ${error.message}`, destinationDown: true };
    }
  }

  /** The pause itself is each answer's to say. */
  retryDelay(): number {
    return Math.round(baseMs * (0.8 + 0.4 * Math.random()));
  }

  async onGivenUp(...[tx, item, why]: Parameters<NonNullable<Sender['onGivenUp']>>): Promise<void> {
    const words = why.code === 'expired' ? 'no answer: it expired before the agent had finished' : why.words;
    const reason = why.code === 'expired' ? 'expired' : 'unreachable';
    await this.#options.tasks.abandoned(tx, exchangeOf(item), { words, reason });
  }

  async #ask(task: RemoteTask, taskId: string, item: OutboxItem, signal: AbortSignal): Promise<SendResult> {
    const { tasks, clock } = this.#options;
    const { exchangeId, ownerId } = task;
    const endpoint = endpointOfTask(task);
    const began = clock.now();
    const operation = { kind: 'get', taskId } as const;
    const answer = await callRemote(this.#options, endpoint, operation, { ownerId, timeoutMs: callTimeoutMs, signal });
    const result = readRemote(endpoint, answer, item.attempts);
    if (result !== otherVersion && !isOutcome(result)) {
      if (result.kind === 'task' && (await tell(this.#options, exchangeId, result.task)))
        return { outcome: 'delivered' };
      const pushed = (await tasks.task(exchangeId))?.pushedAt ?? 0;
      return later(pushed >= began ? 0 : this.#pause(task, result.kind === 'task' ? result.task : null, item.attempts));
    }
    const known = snapshotOf(task);
    const unknown = isUnknownTask(answer);
    // Who pushed the end need not know the task any more.
    if (known && finalStates.has(known.state) && (unknown || result === otherVersion)) {
      await tell(this.#options, exchangeId, known);
      return { outcome: 'delivered' };
    }
    if (result === otherVersion) {
      if (task.pushId !== null || this.#streams.has(exchangeId)) return later(this.#pause(task, known, item.attempts));
      return failed('the server of the agent does not say what becomes of its tasks');
    }
    if (unknown) {
      return item.attempts < patientTries
        ? later(baseMs)
        : failed('the server of the agent does not know the task any more');
    }
    if (result.outcome !== 'refused') return result;
    return result.code === 'unreachable'
      ? { outcome: 'retry', reason: result.words, retryAfterMs: capMs, destinationDown: false }
      : failed(`the server of the agent says no more of the task: ${result.words}`);
  }

  #pause(task: RemoteTask, now: TaskNow | null, attempts: number): number {
    const waits = now?.state === 'input_required' || now?.state === 'auth_required';
    const easy = task.pushId !== null || waits || this.#streams.has(task.exchangeId);
    return backoff(Math.min(attempts - 1, 20), { baseMs, capMs: easy ? easyCapMs : capMs });
  }
}

export function exchangeOf({ body }: OutboxItem): string {
  return (JSON.parse(body ?? '{}') as { exchange?: string }).exchange ?? '';
}

export function snapshotOf({ snapshot }: Pick<RemoteTask, 'snapshot'>): TaskNow | null {
  return snapshot === null ? null : (JSON.parse(snapshot) as TaskNow);
}

function later(retryAfterMs: number): SendResult {
  return { outcome: 'retry', reason: 'the task goes on', retryAfterMs, destinationDown: false };
}

function failed(words: string): SendResult {
  return { outcome: 'refused', code: 'unreachable', words, status: 502 };
}
