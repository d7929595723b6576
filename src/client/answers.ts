import { type Clock, sleep } from '../lib/clock.ts';
import { personOf, seatOf, withoutSession } from './addresses.ts';
import type { TakeOptions } from './api.ts';
import { GatehouseError, mayPass, NotAnsweredError } from './errors.ts';
import type { PinStore } from './pins.ts';
import type { DeliveredEnvelope, Received } from './types.ts';

export interface WaitOptions {
  /** Seconds; default 300. */
  timeout?: number;
  onProgress?: (progress: Received) => void;
  signal?: AbortSignal;
}

/** A request that was sent: the agent that asked, who was asked, and where. */
export interface Asked {
  from: string;
  to?: string;
  thread?: string;
}

export const whileAway = { baseMs: 1_000, capMs: 30_000 };

interface AnswersDeps {
  clock: Clock;
  pins: PinStore;
  take(agent: string, options: TakeOptions): Promise<DeliveredEnvelope[]>;
  ack(agent: string, ids: readonly string[]): Promise<void>;
  thread(id: string): Promise<DeliveredEnvelope[]>;
  receive(raw: DeliveredEnvelope): Promise<Received>;
  pause(fault: unknown, attempt: number): number;
}

/** Waiting for the answers to what was sent. */
export class Answers {
  readonly #deps: AnswersDeps;
  /** Who in this process waits, by the asking agent and the request's id. */
  readonly #waiting = new Map<string, (answer: DeliveredEnvelope) => Promise<void>>();

  constructor(deps: AnswersDeps) {
    this.#deps = deps;
  }

  /** `mayBeThere`: it may have been answered already, so look before waiting. */
  async wait(
    id: string,
    asked: Asked,
    { timeout = 300, onProgress, signal }: WaitOptions,
    mayBeThere: boolean,
  ): Promise<Received> {
    const { clock, take, ack, receive, pause } = this.#deps;
    const agent = withoutSession(asked.from);
    const until = clock.now() + timeout * 1000;
    const stop = new AbortController();
    const abort = (): void => stop.abort();
    signal?.addEventListener('abort', abort, { once: true });
    if (signal?.aborted) abort();
    let reply: Received | undefined;
    const got = async (item: DeliveredEnvelope): Promise<void> => {
      const received = await receive(item);
      // Before it is confirmed: delivered files are deleted.
      if (item.files) await received.files();
      if (item.kind === 'progress') onProgress?.(received);
      if (item.kind !== 'reply') return;
      reply = received;
      stop.abort();
    };
    // A listener of the same agent in this process may be handed the answer.
    const name = waiterName(agent, id);
    this.#waiting.set(name, got);
    try {
      let isFirst = mayBeThere;
      for (let failures = 0; !reply && !signal?.aborted; ) {
        const left = Math.ceil((until - clock.now()) / 1000);
        try {
          const wait = isFirst ? 0 : Math.max(0, Math.min(left, 25));
          isFirst = false;
          const began = clock.now();
          const items = await take(agent, { wait, lease: 60, replyTo: id, signal: stop.signal });
          for (const item of items) await got(item);
          const ids = items.map((item) => item.id);
          if (ids.length > 0) await ack(agent, ids);
          // One in another process may have taken it: it stays in the thread.
          else if (!reply) {
            const found = await this.#replyInThread(id, agent, asked.thread ?? id);
            if (found) reply = await receive(found);
          }
          failures = 0;
          // A gateway that is going down answers held calls at once.
          const isEarly = wait > 1 && ids.length === 0 && clock.now() - began < 1_000;
          if (isEarly && !reply) await sleep(clock, pause(undefined, 1), stop.signal);
        } catch (fault) {
          if (reply || signal?.aborted) break;
          if (!mayPass(fault)) throw fault;
          failures += 1;
          await sleep(clock, pause(fault, failures), stop.signal);
        }
        if (!reply && left <= 0) throw new NotAnsweredError(id, timeout);
      }
    } finally {
      this.#waiting.delete(name);
      signal?.removeEventListener('abort', abort);
    }
    signal?.throwIfAborted();
    if (!reply) throw new NotAnsweredError(id, timeout);
    return this.#answerOf(reply, asked.to);
  }

  /** Whether somebody here waits for it, and has it now. */
  async claim(address: string, item: DeliveredEnvelope): Promise<boolean> {
    const waiter =
      item.reply_to === null ? undefined : this.#waiting.get(waiterName(withoutSession(address), item.reply_to));
    await waiter?.(item);
    return waiter !== undefined;
  }

  async #replyInThread(id: string, agent: string, thread: string): Promise<DeliveredEnvelope | undefined> {
    const messages = await this.#deps.thread(thread).catch((fault: unknown) => {
      if (fault instanceof GatehouseError && !fault.retryable) return [];
      throw fault;
    });
    const isReply = (each: DeliveredEnvelope): boolean => each.kind === 'reply' && each.reply_to === id;
    return messages.find((each) => isReply(each) && withoutSession(each.from) !== agent);
  }

  /** Whoever answers must be who was asked: by name, or by a key that is pinned for that name. */
  async #answerOf(received: Received, to: string | undefined): Promise<Received> {
    const asked = to !== undefined && seatOf(to) ? personOf(to) : undefined;
    if (!received.verified || asked === undefined || received.signer?.person === asked) return received;
    const pin = await this.#deps.pins.get(asked);
    if (pin?.keys.some(({ key }) => key === received.signer?.key)) return received;
    return { ...received, verified: false, trouble: `${asked} was asked, and ${received.signer?.person} answered` };
  }
}

function waiterName(agent: string, id: string): string {
  return `${agent} ${id}`;
}
