import type { RemoteRequest } from '../../../exchange/remote/index.ts';
import { isLoopbackHost } from '../../../identity/did.ts';
import { backoff } from '../../../lib/backoff.ts';
import { sleep } from '../../../lib/clock.ts';
import { FetchRefused } from '../../../lib/fetch-types.ts';
import { readJson } from '../../../lib/json.ts';
import { Refusal, refusals } from '../../../lib/refusal.ts';
import type { OutboxItem, Sender, SendResult } from '../../../outbox/types.ts';
import { otherVersion } from '../client-result.ts';
import type { Message } from '../protocol.ts';
import { answerOf } from './answers.ts';
import { callRemote, type Endpoint, endpointOf, type PushConfig, readRemote } from './calls.ts';
import { isFinal } from './finder.ts';
import { after, type RemoteEvent } from './form.ts';
import { isOutcome, type RemoteOptions, tell } from './options.ts';
import { messageFor } from './sending.ts';
import { follow, isUnsupported, type Streams } from './stream.ts';

/** A send that takes longer is waited for outside of the outbox, whose own patience ends soon after. */
const patienceMs = 18_000;
const cardMs = 10_000;
/** An agent that answers with a message has no task to ask after: its answer is waited for that long. */
const longestSendMs = 600_000;
const holdMs = 90_000;
/** To one server: it is given 16 connections (src/lib/fetch.ts), and some must be left for what is quick. */
const mostHeld = 6;

/** One send: what is asked, where, and what stops the waiting for it. */
interface Attempt {
  request: RemoteRequest;
  item: OutboxItem;
  card: string;
  signal: AbortSignal;
}

/** Brings requests to agents on A2A servers (outbox kind 'a2a'). */
export class RemoteSender implements Sender {
  readonly kind = 'a2a';
  readonly #options: RemoteOptions;
  readonly #streams: Streams;
  readonly #stopping = new AbortController();
  /** Sends whose answer is waited for outside of the outbox. */
  readonly #held = new Map<Promise<void>, string>();

  constructor(options: RemoteOptions, streams: Streams) {
    this.#options = options;
    this.#streams = streams;
  }

  async send(item: OutboxItem, signal: AbortSignal): Promise<SendResult> {
    const { tasks, clock } = this.#options;
    const patience = new AbortController();
    const late = sleep(clock, patienceMs, patience.signal).then(() => null);
    try {
      const request = item.messageSeq === null ? null : await tasks.load(item.messageSeq);
      if (!request) return refused('not_found', 'the message is no longer here');
      // An earlier try brought it there, and could not record that it did.
      if (request.done) return { outcome: 'delivered' };
      if (!(await this.#options.mayLeave(request.orgId, item.destination))) {
        return refused('policy_denied', `Your organisation has blocked ${item.destination}.`);
      }
      if ([...this.#held.values()].filter((destination) => destination === item.destination).length >= mostHeld) {
        return {
          outcome: 'retry',
          reason: 'its server is slow, and others wait for it',
          retryAfterMs: 5_000,
          destinationDown: false,
        };
      }
      const card = cardOf(item);
      const endpoints = await this.#endpoints(card, request);
      if (isOutcome(endpoints)) return (await this.#otherwise(endpoints, item, card, signal)) ?? endpoints;
      if (signal.aborted) return { outcome: 'retry', reason: 'no answer in time', destinationDown: true };
      const work = this.#attempt({ request, item, card, signal: this.#stopping.signal }, endpoints);
      const result = await Promise.race([work, late]);
      if (result !== null) return result;
      await this.#hold(request, item, card, endpoints[0]!, work);
      return { outcome: 'delivered' };
    } finally {
      patience.abort();
    }
  }

  /** An owner may consent at any time: a request waits a minute at most, unless its server is away. */
  retryDelay(attempts: number): number {
    return backoff(attempts, { baseMs: 4_000, capMs: 60_000 });
  }

  async onGivenUp(...[tx, item, why]: Parameters<NonNullable<Sender['onGivenUp']>>): Promise<void> {
    if (item.messageSeq !== null) await this.#options.carrier.givenUp(tx, item.id, item.messageSeq, why);
  }

  /** What is waited for is sent again by whoever finds it. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#held.keys());
  }

  async #endpoints(card: string, { before }: RemoteRequest): Promise<Endpoint[] | SendResult> {
    // What answers a task is said where the task is.
    if (before?.taskId) return [JSON.parse(before.endpoint) as Endpoint];
    const search = new AbortController();
    const cancel = this.#options.clock.after(cardMs, () => search.abort());
    const found = await this.#options.finder.find(card, search.signal).finally(cancel);
    if ('why' in found) {
      if (found.why === 'away') return { outcome: 'retry', reason: found.words, destinationDown: true };
      return refused(found.why === 'absent' ? 'address_not_found' : 'unreachable', found.words);
    }
    const named = found.interfaces.map((one) => endpointOf(found, one));
    // Cards say one version and servers speak the other: both grammars can be told apart at one address.
    const others = named
      .filter(({ binding }) => binding === 'JSONRPC')
      .map((one): Endpoint => ({ ...one, version: one.version === '1.0' ? '0.3' : '1.0' }))
      .filter((one) => !named.some(({ url, version }) => url === one.url && version === one.version));
    return [...named, ...others];
  }

  /** What is no A2A server may be reached by another protocol. */
  async #otherwise(none: SendResult, item: OutboxItem, card: string, signal: AbortSignal): Promise<SendResult | null> {
    if (none.outcome !== 'refused') return null;
    return (await this.#options.otherwise?.(item, card, signal)) ?? null;
  }

  async #attempt(attempt: Attempt, endpoints: readonly Endpoint[]): Promise<SendResult> {
    try {
      for (const endpoint of endpoints) {
        const push = this.#pushTo(endpoint);
        const canStream = endpoint.streaming && this.#streams.hasRoom(endpoint.url);
        const ways = canStream
          ? push
            ? (['send', 'stream'] as const)
            : (['stream', 'send'] as const)
          : (['send'] as const);
        for (const way of ways) {
          const message = messageFor(attempt.request);
          const result =
            way === 'stream'
              ? await this.#stream(attempt, endpoint, message)
              : await this.#plain(attempt, endpoint, message, push);
          if (result !== otherVersion) return result;
        }
      }
      return refused('unknown_version', 'the other side speaks neither A2A 1.0 nor 0.3 at the addresses of its card');
    } catch (error) {
      if (!(error instanceof FetchRefused)) throw error;
      if (isFinal(error)) return refused('unreachable', error.message);
      return { outcome: 'retry', reason: `${error.reason}: ${error.message}`, destinationDown: true };
    }
  }

  async #plain(
    { request, item, card, signal }: Attempt,
    endpoint: Endpoint,
    message: Message,
    push: PushConfig | null,
  ): Promise<SendResult | typeof otherVersion> {
    const { ownerId, exchangeId } = request;
    const answer = await callRemote(
      this.#options,
      endpoint,
      { kind: 'send', message, push },
      {
        ownerId,
        key: exchangeId,
        timeoutMs: longestSendMs,
        signal,
      },
    );
    // Some servers only stream.
    if (endpoint.streaming && answer.body.length < 64 * 1024) {
      const json = readJson(answer.body);
      if (!(json instanceof Refusal) && isUnsupported(json.value)) return otherVersion;
    }
    const result = readRemote(endpoint, answer, item.attempts);
    if (result === otherVersion || isOutcome(result)) return result;
    await this.#opened({ request, item, card, signal }, endpoint, push, result);
    return { outcome: 'delivered' };
  }

  async #stream(attempt: Attempt, endpoint: Endpoint, message: Message): Promise<SendResult | typeof otherVersion> {
    const { request, item } = attempt;
    return follow(this.#options, this.#streams, {
      exchangeId: request.exchangeId,
      ownerId: request.ownerId,
      attempts: item.attempts,
      endpoint,
      message,
      signal: attempt.signal,
      opened: (event) => this.#opened(attempt, endpoint, null, event),
    });
  }

  /** The first word of the server: from now on it is known there. */
  async #opened(
    { request, item, card }: Attempt,
    endpoint: Endpoint,
    push: PushConfig | null,
    event: RemoteEvent,
  ): Promise<void> {
    const { tasks } = this.#options;
    const common = { destination: item.destination, card, endpoint: JSON.stringify(endpoint), push, heldUntil: 0 };
    if (event.kind === 'message') {
      const contextId = event.message.contextId ?? null;
      const said = { state: 'completed', taskId: null, contextId };
      await tasks.opened(request, { ...common, ...said });
      await tasks.answered(request.exchangeId, [answerOf(event.message)], said);
      return;
    }
    const now = after(null, event);
    await tasks.opened(request, { ...common, taskId: now.id, contextId: now.contextId, state: now.state });
    await tell(this.#options, request.exchangeId, now);
  }

  /** The server takes its time: the outbox need not wait for it, and what comes is recorded when it comes. */
  async #hold(
    request: RemoteRequest,
    item: OutboxItem,
    card: string,
    endpoint: Endpoint,
    work: Promise<SendResult>,
  ): Promise<void> {
    const { tasks, clock, log } = this.#options;
    const { exchangeId } = request;
    const until = (): number => clock.now() + holdMs;
    const settled = new AbortController();
    const result = work
      .catch((error): SendResult => {
        log.warn({ err: error, exchange: exchangeId }, 'a send to an A2A server failed; it is sent again');
        return { outcome: 'retry', reason: 'a fault of the sender', destinationDown: false };
      })
      .finally(() => settled.abort());
    const said = { destination: item.destination, card, endpoint: JSON.stringify(endpoint), push: null };
    const task = await tasks.task(exchangeId);
    if (task === null)
      await tasks.opened(request, { ...said, taskId: null, contextId: null, state: 'submitted', heldUntil: until() });
    const held: Promise<void> = (async () => {
      while (!settled.signal.aborted) {
        await sleep(clock, holdMs / 3, settled.signal);
        if (!settled.signal.aborted) await tasks.holdOn(exchangeId, until());
      }
      const end = await result;
      if (end.outcome === 'retry') await tasks.sendAgain(exchangeId);
      else if (end.outcome === 'refused')
        await tasks.fail(exchangeId, { words: `not delivered: ${end.words}`, reason: 'refused' });
    })()
      .catch((error) => log.warn({ err: error, exchange: exchangeId }, 'the end of a long send could not be recorded'))
      .finally(() => this.#held.delete(held));
    this.#held.set(held, item.destination);
  }

  /** Null where pushes cannot reach us: a gateway on loopback is only there for its neighbours. */
  #pushTo({ push, url }: Endpoint): PushConfig | null {
    const { tasks, base, loopback } = this.#options;
    if (!push || (loopback && !isLoopbackHost(new URL(url).hostname))) return null;
    const { id, token } = tasks.newPush();
    return { id, token, url: `${base}/a2a/v1/push/${id}` };
  }
}

function cardOf({ body }: OutboxItem): string {
  return (JSON.parse(body ?? '{}') as { card: string }).card;
}

function refused(code: keyof typeof refusals, words: string): SendResult {
  return { outcome: 'refused', code, words, status: refusals[code].status };
}
