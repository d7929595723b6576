import type { FetchResult } from '../../lib/fetch-types.ts';
import { foreignText } from '../../lib/foreign-text.ts';
import { type RefusalCode, refusals } from '../../lib/refusal.ts';
import type { SendResult } from '../../outbox/types.ts';
import { isRecord } from './render.ts';

/** Confer's codes as ours, for those that the other side refuses with. */
const codes: Readonly<Record<string, RefusalCode>> = {
  validation_error: 'invalid_field',
  not_found: 'address_not_found',
  policy_denied: 'policy_denied',
  peer_blocked: 'policy_denied',
  payload_too_large: 'payload_too_large',
  capability_invalid: 'capability_invalid',
  sender_mismatch: 'sender_mismatch',
  limit_paused: 'limit_paused',
  loop_detected: 'loop_detected',
};
/** Worth another try with a fresh signature: a clock that drifts, a document that was just changed. */
const passing: ReadonlySet<string> = new Set(['signature_replayed', 'signature_failed', 'key_not_found']);
const passingTries = 5;
/** The owner there may take days; each try asks again. */
const waitForOwnerMs = 60_000;

/** What an answer to a message means for the outbox. 202 `pending_connection` is "not stored": it is brought again until there is consent. */
export function readAnswer({ status, headers }: FetchResult, json: unknown, attempts: number): SendResult {
  const body = isRecord(json) ? json : {};
  const wait = secondsIn(headers.get('retry-after'));
  if (status === 202 && body.status === 'pending_connection') {
    const reason = foreignText(body.message, 300) || 'it waits for the consent of the owner there';
    return { outcome: 'retry', reason, retryAfterMs: waitForOwnerMs, destinationDown: false };
  }
  if (status >= 200 && status < 300) {
    return { outcome: 'delivered', note: { message_id: body.message_id, status: body.status } };
  }
  const error = isRecord(body.error) ? body.error : {};
  const code = typeof error.code === 'string' ? error.code : '';
  const words = foreignText(error.message, 500) || `the other side answered ${status}`;
  if (status === 429 || status >= 500 || status === 408) {
    return {
      outcome: 'retry',
      reason: words,
      ...(wait !== undefined && { retryAfterMs: wait * 1000 }),
      destinationDown: true,
    };
  }
  // Our own document could not be read there: nothing of it is wrong.
  if (code === 'did_resolution_failed') return { outcome: 'retry', reason: words, destinationDown: true };
  if (passing.has(code) && attempts < passingTries) return { outcome: 'retry', reason: words, destinationDown: false };
  const known =
    codes[code] ?? (status === 404 ? 'address_not_found' : status === 401 ? 'unauthenticated' : 'forbidden');
  const stops = status === 401 && known === 'unauthenticated';
  return { ...refused(known, words), status, ...(stops && { stopDestination: true }) };
}

export function refused(code: RefusalCode, words: string): Extract<SendResult, { outcome: 'refused' }> {
  return { outcome: 'refused', code, words, status: refusals[code].status };
}

function secondsIn(value: string | undefined): number | undefined {
  return value !== undefined && /^\d{1,6}$/.test(value.trim()) ? Number(value) : undefined;
}
