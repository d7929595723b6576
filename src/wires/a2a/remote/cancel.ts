import type { Cancels } from '../../../exchange/cancel/index.ts';
import type { RemoteTask } from '../../../exchange/remote/index.ts';
import { finalStates } from '../../../exchange/types.ts';
import { FetchRefused } from '../../../lib/fetch-types.ts';
import type { OutboxItem, Sender, SendResult } from '../../../outbox/types.ts';
import { otherVersion } from '../client-result.ts';
import { isNotCancelable, isUnknownTask } from './absent.ts';
import { callRemote, readRemote } from './calls.ts';
import { callTimeoutMs, endpointOfTask, isOutcome, type RemoteOptions, tell } from './options.ts';
import { exchangeOf } from './poll.ts';

const pauseMs = 5_000;

/** Asks A2A servers to cancel tasks (outbox kind 'a2a-cancel'): those that their asker withdrew, and those that nobody waits for any more. */
export class RemoteCancel implements Sender {
  readonly kind = 'a2a-cancel';
  readonly #options: RemoteOptions;
  readonly #cancels: Pick<Cancels, 'delivered'>;

  constructor(options: RemoteOptions, cancels: Pick<Cancels, 'delivered'>) {
    this.#options = options;
    this.#cancels = cancels;
  }

  async send(item: OutboxItem, signal: AbortSignal): Promise<SendResult> {
    const task = await this.#task(item);
    // It never got there, or was answered with a message.
    if (!task) return { outcome: 'delivered' };
    if (task.taskId === null) return task.heldUntil > this.#options.clock.now() ? later() : { outcome: 'delivered' };
    try {
      return await this.#ask(task, task.taskId, item, signal);
    } catch (error) {
      if (!(error instanceof FetchRefused)) throw error;
      return { outcome: 'retry', reason: `${error.reason}: ${error.message}`, destinationDown: true };
    }
  }

  async onDelivered(...[tx, item]: Parameters<NonNullable<Sender['onDelivered']>>): Promise<void> {
    const task = await this.#task(item);
    if (item.messageSeq !== null) await this.#cancels.delivered(tx, item.messageSeq);
    if (task) await this.#options.tasks.canceled(tx, task.exchangeId);
  }

  #task({ messageSeq, ...item }: OutboxItem): Promise<RemoteTask | null> {
    const { tasks } = this.#options;
    return messageSeq === null ? tasks.task(exchangeOf({ messageSeq, ...item })) : tasks.taskOfRequest(messageSeq);
  }

  async #ask(task: RemoteTask, taskId: string, item: OutboxItem, signal: AbortSignal): Promise<SendResult> {
    const endpoint = endpointOfTask(task);
    const options = { ownerId: task.ownerId, timeoutMs: callTimeoutMs, signal };
    const answer = await callRemote(this.#options, endpoint, { kind: 'cancel', taskId }, options);
    const result = readRemote(endpoint, answer, item.attempts);
    if (result !== otherVersion && !isOutcome(result)) {
      if (result.kind !== 'task') return later();
      if (result.task.state === 'canceled') return { outcome: 'delivered' };
      if (!finalStates.has(result.task.state)) return later();
      await tell(this.#options, task.exchangeId, result.task);
      return tooLate('it is answered already');
    }
    if (isUnknownTask(answer)) return { outcome: 'delivered' };
    if (result === otherVersion || isNotCancelable(answer)) return tooLate('the agent cannot stop that task any more');
    return result;
  }
}

function later(): SendResult {
  return { outcome: 'retry', reason: 'the task goes on', retryAfterMs: pauseMs, destinationDown: false };
}

function tooLate(words: string): SendResult {
  return { outcome: 'refused', code: 'conflict', words, status: 409 };
}
