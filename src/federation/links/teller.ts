import type { Db, Tx } from '../../db/types.ts';
import { instanceDid } from '../../directory/dids.ts';
import type { DidResolver } from '../../identity/resolver.ts';
import { retryAfter } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import { newId } from '../../lib/ids.ts';
import { Refusal } from '../../lib/refusal.ts';
import type { GivenUp, Outbox, OutboxItem, Sender, SendResult } from '../../outbox/index.ts';
import { codeOf, faultOf, type PeerAnswer, type PeerClient } from '../peer-client.ts';
import type { Listener } from './listener.ts';
import { maxLogTold, readSide, sideOf } from './side-message.ts';
import type { LinkRow } from './store.ts';
import * as store from './store.ts';

export interface TellerDeps {
  db: Db;
  clock: Clock;
  client: PeerClient;
  resolver: Pick<DidResolver, 'resolve'>;
  listener: Listener;
  outbox: Pick<Outbox, 'enqueue' | 'sendNow' | 'firstTry'>;
}

const kind = 'link';
const firstTryMs = 4_000;
const anHourOfTries = 300;
const keepTryingMs = 30 * 86_400_000;
const longestRetryAfterMs = 60_000;
/** Refusals of a call that may pass later though nothing of it changes. */
const passing = new Set([
  'did_resolution_failed',
  'key_not_found',
  'signature_stale',
  'signature_replayed',
  'rate_limited',
  'internal',
]);

/**
 * Tells peers our side of links. What is owed names the link alone, and the newest side is read when it is sent: old states cannot queue
 * up, and one that the peer already confirmed is not sent again.
 */
export class Teller implements Sender {
  readonly kind = kind;
  readonly #deps: TellerDeps;
  constructor(deps: TellerDeps) {
    this.#deps = deps;
  }

  /** In the transaction that changed the link. */
  owe(tx: Tx, link: { id: string; peerDomain: string }): Promise<number> {
    const expiresAt = this.#deps.clock.now() + keepTryingMs;
    return this.#deps.outbox.enqueue(tx, {
      kind,
      destination: link.peerDomain,
      lane: `link:${link.id}`,
      body: link.id,
      expiresAt,
    });
  }

  wake(outboxId: number | null): void {
    if (outboxId !== null) this.#deps.outbox.sendNow([outboxId]);
  }

  /** Resolves when a try to tell this has ended, whatever came of it, or after 4 s. */
  async tellNow(outboxId: number | null): Promise<void> {
    if (outboxId === null) return;
    const tried = this.#deps.outbox.firstTry(outboxId, firstTryMs);
    this.wake(outboxId);
    await tried;
  }

  async send(item: OutboxItem): Promise<SendResult> {
    const { db } = this.#deps;
    const link = await store.linkById(db, item.body ?? '');
    if (!link || link.toldRev >= link.ourRev) return { outcome: 'delivered' };
    const result = await this.tell(link);
    if (result.outcome !== 'delivered') {
      await store.saveProblem(db, link.id, result.outcome === 'retry' ? result.reason : result.words);
    }
    return result;
  }

  /**
   * About every 11 s for an hour, so that a peer that returns knows within 15 s (design §10), and not before a failed look at its DID document
   * is forgotten (10 s); then doubling up to an hour.
   */
  retryDelay(attempts: number): number {
    const pause = 10_500 + Math.floor(2_000 * Math.random());
    return Math.min(pause * 2 ** Math.max(0, attempts - anHourOfTries), 3_600_000);
  }

  async onGivenUp(tx: Tx, item: OutboxItem, result: GivenUp): Promise<void> {
    const { clock } = this.#deps;
    const linkId = item.body ?? '';
    if (!(await store.linkById(tx, linkId))) return;
    const detail = JSON.stringify({ reason: result.words.slice(0, 500) });
    await store.addLog(tx, linkId, [
      { id: newId(clock), side: 'ours', at: clock.now(), by: 'gateway', what: 'not_told', detail },
    ]);
  }

  /** Exchanges sides with the peer, also when nothing is owed: what it answers is taken. */
  async tell(link: LinkRow): Promise<SendResult> {
    const { db, client, resolver, listener } = this.#deps;
    const domain = link.peerDomain!;
    if (link.toldRev === 0 && link.theirRev === 0) {
      const document = await resolver.resolve(instanceDid(domain));
      if (document instanceof Refusal) {
        return { outcome: 'retry', reason: `${domain} shows no did.json of its own.`, destinationDown: true };
      }
    }
    const log = (await store.logOf(db, [link.id], maxLogTold, ['ours'])).get(link.id) ?? [];
    let answer: PeerAnswer;
    try {
      answer = await client.post(domain, '/federation/v1/links', sideOf(link, log));
    } catch (error) {
      return { outcome: 'retry', reason: faultOf(error), destinationDown: true };
    }
    const { status } = answer;
    if (status !== 200 && status !== 202) return this.#refusal(domain, answer);
    if (status === 200) {
      const side = readSide(answer.json);
      if (side instanceof Refusal) return unreadable(domain, status);
      if (!(await listener.hear(link, side))) return unreadable(domain, status);
    }
    await store.saveConfirmed(db, link.id, link.ourRev);
    return { outcome: 'delivered' };
  }

  #refusal(domain: string, { status, headers, json }: PeerAnswer): SendResult {
    const code = codeOf(json);
    const wait = retryAfter(headers.get('retry-after'), this.#deps.clock.now(), longestRetryAfterMs);
    if (status >= 500 || status === 429 || status === 408 || passing.has(code)) {
      const reason = `${domain} answered ${status}${code === '' ? '' : ` (${code})`}.`;
      return {
        outcome: 'retry',
        reason,
        destinationDown: status >= 500,
        ...(wait !== undefined && { retryAfterMs: wait }),
      };
    }
    // 401 and 403 will not change by trying again: the circuit stops until an operator or the peer acts (FED-03).
    const stopDestination = status === 401 || status === 403;
    const words =
      status === 404
        ? `${domain} is no Gatehouse: it has no /federation/v1.`
        : `${domain} refused with ${status} (${code}).`;
    return {
      outcome: 'refused',
      code: code || 'forbidden',
      words,
      status,
      ...(stopDestination && { stopDestination }),
    };
  }
}

function unreadable(domain: string, status: number): SendResult {
  return { outcome: 'retry', reason: `${domain} answered ${status} with what cannot be read.`, destinationDown: false };
}
