import type { HttpResponse, RenderRefusal } from '../../lib/http.ts';
import type { Refusal, RefusalCode } from '../../lib/refusal.ts';

/**
 * ReplySlip's document names statuses and sentences; codes are the gateway's own, in the form of its `result_schema_mismatch`, but where its users know
 * another word.
 */
const codes: Partial<Record<RefusalCode, string>> = {
  malformed_request: 'invalid_request',
  malformed_json: 'invalid_request',
  duplicate_key: 'invalid_request',
  invalid_field: 'invalid_request',
  unauthenticated: 'unauthorized',
  sender_mismatch: 'forbidden',
  address_not_found: 'agent_not_found',
  exchange_closed: 'task_closed',
};

/** `{"error": {"code", "message", "details"?}}`. */
export function errorResponse(refusal: Refusal): HttpResponse {
  const { status, data } = refusal;
  const code = codes[refusal.code] ?? refusal.code;
  const error = { code, message: refusal.words, ...(data !== undefined && { details: data }) };
  const headers = {
    ...(status === 401 && { 'www-authenticate': 'Bearer' }),
    ...(refusal.retryAfter !== undefined && { 'retry-after': String(Math.ceil(refusal.retryAfter)) }),
  };
  return json(status, { error }, headers);
}

export const renderRefusal: RenderRefusal = errorResponse;

export function json(status: number, value: unknown, headers: Readonly<Record<string, string>> = {}): HttpResponse {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(value) };
}

/** An answer with a secret that is told once. */
export function secret(status: number, value: unknown): HttpResponse {
  return json(status, value, { 'cache-control': 'no-store' });
}
