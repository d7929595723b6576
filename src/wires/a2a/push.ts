import type { PushConfigs, PushDue } from '../../exchange/push/index.ts';
import { type Fetch, FetchRefused } from '../../lib/fetch-types.ts';
import type { Sender, SendResult } from '../../outbox/types.ts';
import type { FileParts } from './files.ts';
import { TaskFold } from './fold.ts';
import { isRecord } from './protocol.ts';
import { eventToV03 } from './v03.ts';

export interface PushClientOptions {
  pushes: Pick<PushConfigs, 'due' | 'record'>;
  files: FileParts;
  fetch: Fetch;
}

const timeoutMs = 15_000;

/**
 * Tells webhooks that a task changed (§4.3), with the task as it then stands: whoever gets one notification twice, or one of two, knows the same. 1.0
 * subscribers get a StreamResponse, those of 0.3 the Task (§0.3:9.5). Not the SDK's sender: that one follows redirects, reaches private addresses, and
 * forgets what it could not deliver.
 */
export function createPushClient({ pushes, fetch, files }: PushClientOptions): Sender {
  return {
    kind: 'push',
    async send(item, signal) {
      const owed = readOwed(item.body);
      const due = owed && (await pushes.due(owed.task, owed.config));
      // Deleted in the meantime.
      if (!due) return { outcome: 'delivered' };
      const result = await push(fetch, notification(due, files), signal);
      const error = errorOf(result);
      if (error !== null || due.failed) await pushes.record(owed.task, owed.config, error);
      return result;
    },
    async onGivenUp(tx, item, { code, words }) {
      const owed = readOwed(item.body);
      if (owed && code === 'expired') await pushes.record(owed.task, owed.config, `given up: ${words}`, tx);
    },
  };
}

async function push(fetch: Fetch, { url, headers, body }: Notification, signal: AbortSignal): Promise<SendResult> {
  try {
    const answer = await fetch(url, {
      method: 'POST',
      headers,
      body,
      maxBytes: 64 * 1024,
      withoutBody: true,
      timeoutMs,
      signal,
    });
    return resultOf(answer.status, answer.headers.get('retry-after'));
  } catch (error) {
    if (!(error instanceof FetchRefused)) throw error;
    return { outcome: 'retry', reason: `${error.reason}: ${error.message}`, destinationDown: true };
  }
}

function errorOf(result: SendResult): string | null {
  if (result.outcome === 'delivered') return null;
  return result.outcome === 'retry' ? result.reason : `given up: ${result.words}`;
}

function readOwed(body: string | null): { task: string; config: string } | null {
  const owed: unknown = body === null ? null : JSON.parse(body);
  return isRecord(owed) ? { task: String(owed.task), config: String(owed.config) } : null;
}

interface Notification {
  url: string;
  headers: Record<string, string>;
  body: string;
}

function notification({ config, task }: PushDue, files: FileParts): Notification {
  const { version, token, authentication } = config;
  const event = { task: TaskFold.of(task, files).task({ historyLength: 0 }) };
  return {
    url: config.url,
    headers: {
      'content-type': version === '1.0' ? 'application/a2a+json' : 'application/json',
      ...(version === '1.0' && { 'a2a-version': '1.0' }),
      ...(token !== undefined && { 'x-a2a-notification-token': token }),
      ...(authentication && { authorization: `${authentication.scheme} ${authentication.credentials}`.trim() }),
    },
    body: JSON.stringify(version === '1.0' ? event : eventToV03(event, false)),
  };
}

/** A webhook that is gone is not asked again; whatever else it says may pass. A redirect is a failed try like any other (WEB-02). */
function resultOf(status: number, retryAfter: string | undefined): SendResult {
  if (status >= 200 && status < 300) return { outcome: 'delivered' };
  if (status === 410) return { outcome: 'refused', code: 'not_found', words: 'the webhook is gone', status };
  const seconds = /^\d{1,6}$/.test(retryAfter ?? '') ? { retryAfterMs: Number(retryAfter) * 1000 } : {};
  return {
    outcome: 'retry',
    reason: `it answered ${status}`,
    ...seconds,
    destinationDown: status >= 500 || status === 429,
  };
}
