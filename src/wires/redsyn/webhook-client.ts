import { createHmac } from 'node:crypto';
import { retryAfter } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Fetch, FetchRefused } from '../../lib/fetch-types.ts';
import type { Delivered } from '../../mailbox/index.ts';
import type { Pushed, PushTarget } from '../../mailbox/push/pusher.ts';
import { deliveredEnvelope } from './render.ts';

const timeoutMs = 15_000;
const longestPause = 3_600_000;

/** One delivery to a webhook (REDSYN "Webhooks"): the envelope as an inbox would give it, and an HMAC over the very bytes, new for each try (WEB-05). */
export function createWebhookClient({
  fetch,
  clock,
}: {
  fetch: Fetch;
  clock: Clock;
}): (delivery: Delivered, target: PushTarget, signal: AbortSignal) => Promise<Pushed> {
  return async (delivery, { url, secret, version }, signal) => {
    const body = Buffer.from(JSON.stringify(deliveredEnvelope(delivery)));
    const t = Math.floor(clock.now() / 1000);
    const v1 = createHmac('sha256', secret).update(`${t}.`).update(body).digest('hex');
    try {
      const answer = await fetch(url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'user-agent': 'Gatehouse',
          'redsyn-signature': `t=${t},v1=${v1}`,
          'redsyn-version': version,
          'redsyn-delivery': asField(delivery.id),
        },
        body,
        maxBytes: 0,
        withoutBody: true,
        timeoutMs,
        signal,
      });
      const { status } = answer;
      if (status >= 200 && status < 300) return { outcome: 'taken' };
      const reason =
        status >= 300 && status < 400 ? `it answered ${status}: redirects are not followed` : `it answered ${status}`;
      return {
        outcome: 'failed',
        reason,
        retryAfterMs: retryAfter(answer.headers.get('retry-after'), clock.now(), longestPause),
      };
    } catch (error) {
      if (!(error instanceof FetchRefused)) throw error;
      return { outcome: 'failed', reason: error.message };
    }
  };
}

/** An id may hold any letters; what no header field takes is written as in a URL. */
function asField(id: string): string {
  return id.replace(/[^\x21-\x7e]/gu, encodeURIComponent);
}
