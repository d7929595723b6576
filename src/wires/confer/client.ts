import type { Signer } from '../../directory/keyring.ts';
import type { LeavingAnswer, LeavingQuestion, Letters } from '../../exchange/confer/index.ts';
import type { Body } from '../../exchange/message.ts';
import { turnFailure } from '../../exchange/state.ts';
import { conferEndpoint } from '../../federation/confer-endpoint.ts';
import { signRequest } from '../../identity/http-signature/sign.ts';
import type { DidResolver } from '../../identity/resolver.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Fetch, FetchRefused, type FetchResult } from '../../lib/fetch-types.ts';
import { readJson } from '../../lib/json.ts';
import { Refusal } from '../../lib/refusal.ts';
import type { OutboxItem, Sender, SendResult } from '../../outbox/types.ts';
import { readAnswer, refused } from './client-result.ts';
import { type AnswerRef, conferKind } from './messages.ts';
import { citationsOf, contentOf, isRecord, questionOf } from './render.ts';

export interface ConferClientOptions {
  letters: Letters;
  /** The key of that owner. */
  signer(ownerId: string): Promise<Pick<Signer, 'did' | 'keyId' | 'pair'>>;
  /** The DID of an agent here, by its address; null when there is none. */
  didOf(address: string): Promise<string | null>;
  /** An admin may have blocked the domain while it waited. */
  mayLeave(orgId: string, domain: string): Promise<boolean>;
  resolver: Pick<DidResolver, 'resolve'>;
  fetch: Fetch;
  clock: Clock;
  loopback: boolean;
}

/** confer-wire-facts §3 "Outbound". */
const timeoutMs = 10_000;
const maxAnswer = 64 * 1024;

interface Message {
  type: 'question' | 'answer' | 'notification';
  content: string;
  language?: string;
  context?: Record<string, unknown>;
}

interface Leaving {
  ownerId: string;
  from: string;
  to: string;
  thread: string;
  message: Message;
  /** A Gatehouse takes a repeat for one; others ignore it. */
  key: string;
  capability?: string;
}

/** Brings what is said to those who speak Confer: answers of their questions by itself, questions where no card leads anywhere. */
export class ConferClient implements Sender {
  readonly kind = conferKind;
  readonly #options: ConferClientOptions;

  constructor(options: ConferClientOptions) {
    this.#options = options;
  }

  async send(item: OutboxItem, signal: AbortSignal): Promise<SendResult> {
    const answer = item.messageSeq === null ? null : await this.#options.letters.answer(item.messageSeq);
    if (!answer) return refused('not_found', 'the message is no longer here');
    if (!(await this.#options.mayLeave(answer.orgId, item.destination))) {
      return refused('policy_denied', `Your organisation has blocked ${item.destination}.`);
    }
    const { from, to } = JSON.parse(item.body ?? '{}') as AnswerRef;
    const { ownerId, thread, messageId: key } = answer;
    return this.#post({ ownerId, from, to, thread, key, message: messageOf(answer) }, item, signal);
  }

  /** For requests whose addressee has no card: null when it does not speak Confer either. */
  async ask(item: OutboxItem, to: string, signal: AbortSignal): Promise<SendResult | null> {
    const { letters, didOf, signer } = this.#options;
    if (!to.startsWith('did:') || item.messageSeq === null) return null;
    const question = await letters.question(item.messageSeq);
    if (!question) return refused('not_found', 'the message is no longer here');
    if (question.done) return { outcome: 'delivered' };
    const endpoint = await conferEndpoint(to, this.#options);
    if (endpoint instanceof Refusal) return away(endpoint);
    const { ownerId, thread, exchangeId, messageId: key, envelope } = question;
    const from = (await didOf(question.from.replace(/#.*$/, ''))) ?? `${(await signer(ownerId)).did}:agent`;
    const capability = typeof envelope.capability === 'string' ? { capability: envelope.capability } : {};
    const leaving = { ownerId, from, to, thread, key, message: questionIn(question), ...capability };
    const result = await this.#post(leaving, item, signal);
    if (result.outcome === 'delivered') await letters.brought(exchangeId);
    return result;
  }

  async #post(leaving: Leaving, item: OutboxItem, signal: AbortSignal): Promise<SendResult> {
    const { signer, fetch, clock } = this.#options;
    const endpoint = await conferEndpoint(leaving.to, this.#options);
    if (endpoint instanceof Refusal) {
      return away(endpoint) ?? refused('unreachable', endpoint.words);
    }
    const { ownerId, from, to, thread, message, key, capability } = leaving;
    const url = `${endpoint}/messages`;
    const body = Buffer.from(JSON.stringify({ from, to, thread_id: thread, message }));
    const { keyId, pair } = await signer(ownerId);
    const signed = await signRequest({ method: 'POST', url, body }, { keyId, key: pair, now: clock.now() });
    try {
      const answer: FetchResult = await fetch(url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json',
          'idempotency-key': key,
          ...(capability !== undefined && { authorization: `Capability ${capability}` }),
          ...signed,
        },
        body,
        maxBytes: maxAnswer,
        timeoutMs,
        signal,
      });
      const json = readJson(answer.body);
      return readAnswer(answer, json instanceof Refusal ? undefined : json.value, item.attempts);
    } catch (error) {
      if (!(error instanceof FetchRefused)) throw error;
      const isFinal = ['scheme', 'host', 'address', 'redirect'].includes(error.reason);
      if (isFinal) return refused('unreachable', error.message);
      // Too long an answer came from somebody who has the message.
      if (error.reason === 'too_large') return { outcome: 'delivered' };
      return { outcome: 'retry', reason: `${error.reason}: ${error.message}`, destinationDown: true };
    }
  }
}

/** What an agent here answered, failed at or asks back. Only a question makes the other side act by itself. */
function messageOf({ kind, envelope, reason }: LeavingAnswer): Message {
  const { body } = envelope;
  if (kind === 'progress') return { type: 'question', content: questionOf(body), ...languageOf(body) };
  if (envelope.error !== true) {
    const citations = citationsOf(body);
    const context = citations.length > 0 ? { context: { citations } } : {};
    return { type: 'answer', content: contentOf(body), ...languageOf(body), ...context };
  }
  const error = turnFailure(reason);
  // Why, in our own words, where theirs has none.
  const ours = reason !== null && reason !== error ? { reason } : {};
  return { type: 'notification', content: contentOf(body), context: { error, ...ours } };
}

function questionIn({ envelope: { body, hops } }: LeavingQuestion): Message {
  const context = { ...(isRecord(body.context) && body.context), ...(hops !== undefined && { hops }) };
  const beside = Object.keys(context).length > 0 ? { context } : {};
  return { type: 'question', content: contentOf(body), ...languageOf(body), ...beside };
}

function languageOf({ language }: Body): { language?: string } {
  return typeof language === 'string' && language.length <= 35 ? { language } : {};
}

/** A document that cannot be read now is asked for again; one that is not there, or says nothing of Confer, will not be there the next time either. */
function away({ words, retryAfter }: Refusal): SendResult | null {
  if (retryAfter === undefined) return null;
  return { outcome: 'retry', reason: words, retryAfterMs: retryAfter * 1000, destinationDown: true };
}
