import { createHmac } from 'node:crypto';
import type { WebhookAuth } from '../../directory/delivery.ts';
import { retryAfter } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Fetch, FetchRefused } from '../../lib/fetch-types.ts';
import type { Sender } from '../../outbox/types.ts';
import { type DueWake, type Wakes, wakeNotice } from '../../outbox/wakes.ts';
import { iso } from './call.ts';

export interface WakeClientOptions {
  wakes: Pick<Wakes, 'begin' | 'done' | 'failed'>;
  fetch: Fetch;
  clock: Clock;
}

const timeoutMs = 10_000;
const longestPause = 3_600_000;
/** The wake ended, or its agent is woken another way by now: nothing was sent. */
const moot = 'moot';

/**
 * POSTs a notice (replyslip.md "Webhook agent"). It holds no word of what waits. A row is one try: a failed one is given up here, and the wake itself keeps
 * when the next is due, so that retries run only where the operator wants them to.
 */
export function createWakeClient({ wakes, fetch, clock }: WakeClientOptions): Sender {
  return {
    kind: 'wake',
    async send(item, signal) {
      const due = await wakes.begin(item.body!);
      if (!due) return { outcome: 'delivered', note: moot };
      const body = Buffer.from(JSON.stringify(notice(due)));
      try {
        const { status, headers } = await fetch(due.webhook.url, {
          method: 'POST',
          headers: {
            ...proof(due.webhook.auth, body),
            'content-type': 'application/json',
            'user-agent': 'Gatehouse',
            'x-replyslip-wake-id': due.id,
          },
          body,
          maxBytes: 0,
          withoutBody: true,
          timeoutMs,
          signal,
        });
        if (status >= 200 && status < 300) return { outcome: 'delivered' };
        const redirect = status >= 300 && status < 400 ? ': redirects are not followed' : '';
        const later = retryAfter(headers.get('retry-after'), clock.now(), longestPause);
        return failedTry(`it answered ${status}${redirect}`, status, later);
      } catch (error) {
        if (!(error instanceof FetchRefused)) throw error;
        return failedTry(error.message, 502);
      }
    },
    async onDelivered(tx, item, result) {
      if (!(result.outcome === 'delivered' && result.note === moot)) await wakes.done(tx, item.body!);
    },
    async onGivenUp(tx, item, { words, data }) {
      await wakes.failed(tx, item.body!, words, data?.retryAfterMs as number | undefined);
    },
  };
}

function failedTry(words: string, status: number, retryAfterMs?: number): Awaited<ReturnType<Sender['send']>> {
  return { outcome: 'refused', code: 'unreachable', words, status, ...(retryAfterMs && { data: { retryAfterMs } }) };
}

function notice({ id, agent, reason, taskId, createdAt }: DueWake): object {
  return {
    id,
    type: 'replyslip.wake',
    agent,
    reason,
    task_id: taskId,
    notice: wakeNotice,
    created_at: iso(createdAt),
  };
}

/** A fresh signature of the very bytes for each try. */
function proof(auth: WebhookAuth, body: Buffer): Readonly<Record<string, string>> {
  switch (auth.type) {
    case 'none':
      return {};
    case 'bearer':
      return { authorization: `Bearer ${auth.token}` };
    case 'headers':
      return auth.headers;
    case 'hmac':
      return { 'x-replyslip-signature': createHmac('sha256', auth.secret).update(body).digest('hex') };
  }
}
