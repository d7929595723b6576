import type { Db, Tx } from '../../db/types.ts';
import { codeOf, faultOf, type PeerAnswer, type PeerClient } from '../../federation/peer-client.ts';
import { retryAfter } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import type { GivenUp, OutboxItem, Sender, SendResult } from '../../outbox/types.ts';
import { confirmTopic, interestIn, noteProblem } from './store.ts';

export const subscriptionKind = 'subscription';
export const subscriptionsPath = '/federation/v1/subscriptions';

/**
 * Tells the gateway of a topic whether anybody here listens to it. What is owed names the topic alone and its newest state is read when it is
 * sent, so lost, repeated and late news do no harm: the other side takes only what is newer than what it has.
 */
export class InterestTeller implements Sender {
  readonly kind = subscriptionKind;
  readonly #db: Db;
  readonly #clock: Clock;
  readonly #client: Pick<PeerClient, 'post'>;

  constructor(deps: { db: Db; clock: Clock; client: Pick<PeerClient, 'post'> }) {
    this.#db = deps.db;
    this.#clock = deps.clock;
    this.#client = deps.client;
  }

  async send(item: OutboxItem): Promise<SendResult> {
    const topicId = item.body ?? '';
    const interest = await interestIn(this.#db, topicId);
    if (!interest) return { outcome: 'delivered' };
    const { isActive, domain, rev, on, org, path } = interest;
    if (!isActive) return { outcome: 'refused', code: 'not_found', words: 'the link has ended', status: 404 };
    let answer: PeerAnswer;
    try {
      answer = await this.#client.post(domain, subscriptionsPath, {
        v: 1,
        org,
        for: interest.for,
        topic: path,
        on,
        rev,
      });
    } catch (error) {
      return { outcome: 'retry', reason: faultOf(error), destinationDown: true };
    }
    if (answer.status !== 200) return this.#refusal(domain, answer);
    await confirmTopic(this.#db, topicId, rev);
    return { outcome: 'delivered' };
  }

  async onGivenUp(tx: Tx, item: OutboxItem, why: GivenUp): Promise<void> {
    await noteProblem(tx, item.body ?? '', why.words);
  }

  #refusal(domain: string, { status, headers, json }: PeerAnswer): SendResult {
    const code = codeOf(json);
    if (status === 404) {
      return {
        outcome: 'refused',
        code: 'not_found',
        words: `${domain} has no such topic for this organisation`,
        status,
      };
    }
    // A signature that was too late, or a document that could not be read, is another matter next time.
    if (status >= 500 || status === 429 || status === 408 || status === 401) {
      const wait = retryAfter(headers.get('retry-after'), this.#clock.now(), 60_000);
      const reason = `${domain} answered ${status}${code === '' ? '' : ` (${code})`}`;
      return {
        outcome: 'retry',
        reason,
        destinationDown: status >= 500,
        ...(wait !== undefined && { retryAfterMs: wait }),
      };
    }
    return {
      outcome: 'refused',
      code: code || 'forbidden',
      words: `${domain} refused with ${status} (${code})`,
      status,
    };
  }
}
