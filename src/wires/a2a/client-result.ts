import type { FetchResult } from '../../lib/fetch-types.ts';
import { foreignText } from '../../lib/foreign-text.ts';
import { readJson } from '../../lib/json.ts';
import { Refusal, type RefusalCode, refusals } from '../../lib/refusal.ts';
import type { SendResult } from '../../outbox/types.ts';
import { isRecord, REDSYN_EXTENSION } from './protocol.ts';

/** The far side speaks A2A, but not this method or version. */
export const otherVersion = Symbol('other version');

/** What the far side takes us for wrongly, whoever of us writes: nothing more goes there before somebody has looked. */
const stops: ReadonlySet<string> = new Set<RefusalCode>([
  'unauthenticated',
  'signature_missing',
  'signature_malformed',
  'signature_invalid',
  'signature_failed',
  'digest_mismatch',
  'invalid_did',
  'key_not_found',
  'key_not_authorized',
  'unsupported_key',
]);

/** Worth another try with a fresh signature: a clock that drifts, a document that was just changed. */
const passing: ReadonlySet<string> = new Set<RefusalCode>(['signature_stale', 'signature_replayed', 'key_not_found']);
const passingTries = 5;
const waitForOwnerMs = 60_000;

/** What an answer to a carried message means for the outbox. */
export function readAnswer(answer: FetchResult, attempts: number): SendResult | typeof otherVersion {
  const json = readJson(answer.body);
  const body = json instanceof Refusal || !isRecord(json.value) ? undefined : json.value;
  if (answer.status >= 200 && answer.status < 300 && !isRecord(body?.error) && isRecord(body?.result))
    return { outcome: 'delivered', note: noteOf(body.result) };
  return faultOf(answer, body, attempts);
}

/** What an answer means that is not the wanted one. `body`: its JSON, when it is an object. */
export function faultOf(
  answer: FetchResult,
  body: Record<string, unknown> | undefined,
  attempts: number,
): SendResult | typeof otherVersion {
  const { status } = answer;
  if (isRecord(body?.error)) return readError(body.error, answer, attempts);
  if (status === 429)
    return { outcome: 'retry', reason: 'it answered 429', ...retryAfter(answer), destinationDown: true };
  if (status === 401 || status === 403) {
    const code = status === 401 ? 'unauthenticated' : 'forbidden';
    return { outcome: 'refused', code, words: `${refusals[code].words} (the other side answered ${status})`, status };
  }
  if (status === 413)
    return { outcome: 'refused', code: 'payload_too_large', words: refusals.payload_too_large.words, status };
  // Something in between answered (a proxy, another program): what it would say of the message is not known.
  return {
    outcome: 'retry',
    reason: `it answered ${status}, and no JSON-RPC`,
    ...retryAfter(answer),
    destinationDown: true,
  };
}

function readError(
  error: Record<string, unknown>,
  answer: FetchResult,
  attempts: number,
): SendResult | typeof otherVersion {
  const info = errorInfo(error);
  const metadata = isRecord(info?.metadata) ? info.metadata : {};
  const said = foreignText(error.message, 500) || 'it was refused';
  // -32601 and -32009 speak of the method and the version, and nothing else of ours can be at fault there.
  if (error.code === -32601 || error.code === -32009 || info?.reason === 'VERSION_NOT_SUPPORTED') return otherVersion;
  const { code } = metadata;
  if (typeof code !== 'string' || !/^[a-z_]{1,60}$/.test(code)) return readPlainError(error, said, answer);

  if (code === 'pending_connection' || code === 'pending_approval') {
    return { outcome: 'retry', reason: said, retryAfterMs: waitForOwnerMs, destinationDown: false };
  }
  if (code === 'rate_limited') return { outcome: 'retry', reason: said, ...retryAfter(answer), destinationDown: true };
  if (passing.has(code) && attempts < passingTries) return { outcome: 'retry', reason: said, destinationDown: false };
  if (metadata.retryable === 'true') {
    return {
      outcome: 'retry',
      reason: said,
      ...retryAfter(answer),
      destinationDown: answer.status >= 500 || code === 'did_resolution_failed',
    };
  }
  const known = Object.hasOwn(refusals, code) ? refusals[code as RefusalCode] : undefined;
  return {
    outcome: 'refused',
    code,
    words: said,
    status: answer.status >= 400 ? answer.status : (known?.status ?? 403),
    data: factsOf(metadata),
    ...(stops.has(code) && { stopDestination: true }),
  };
}

/** An A2A server that is no Gatehouse. */
function readPlainError(error: Record<string, unknown>, said: string, answer: FetchResult): SendResult {
  if (answer.status === 429) return { outcome: 'retry', reason: said, ...retryAfter(answer), destinationDown: true };
  if (answer.status >= 500 || error.code === -32603) return { outcome: 'retry', reason: said, destinationDown: true };
  const status = answer.status >= 400 ? answer.status : 403;
  return { outcome: 'refused', code: status === 401 ? 'unauthenticated' : 'forbidden', words: said, status };
}

/** In `data` on JSON-RPC, in `details` on REST (A2A §9.5, §11.6). */
function errorInfo({ data, details: ofRest }: Record<string, unknown>): Record<string, unknown> | undefined {
  const details: unknown[] = Array.isArray(data) ? data : Array.isArray(ofRest) ? ofRest : [];
  return details.filter(isRecord).find((detail) => detail['@type'] === 'type.googleapis.com/google.rpc.ErrorInfo');
}

/** Bare in 0.3, in `task` in 1.0. */
function noteOf(result: Record<string, unknown>): unknown {
  const task = isRecord(result.task) ? result.task : result;
  const note = isRecord(task.metadata) ? task.metadata[REDSYN_EXTENSION] : undefined;
  return note ?? null;
}

function factsOf(metadata: Record<string, unknown>): Record<string, unknown> {
  const { code: _code, gate: _gate, retryable: _retryable, ...facts } = metadata;
  return Object.fromEntries(
    Object.entries(facts).map(([key, value]) => [key, value === 'true' ? true : value === 'false' ? false : value]),
  );
}

function retryAfter({ headers }: FetchResult): { retryAfterMs?: number } {
  const seconds = headers.get('retry-after');
  return seconds !== undefined && /^\d{1,6}$/.test(seconds) ? { retryAfterMs: Number(seconds) * 1000 } : {};
}
