import type { HttpResponse, RenderRefusal } from '../../lib/http.ts';
import { type Refusal, refusals } from '../../lib/refusal.ts';

/**
 * `{"error": {"code", "message"}}`. What is not found has one body, whoever asks and why ever it is not (FED-06): a code, a gate or words of
 * its own would tell hidden from missing.
 */
export function errorResponse(refusal: Refusal): HttpResponse {
  const { status, code, words, retryAfter, data } = refusal;
  const error =
    status === 404 ? { code: 'not_found', message: refusals.not_found.words } : { ...data, code, message: words };
  return {
    status,
    headers: {
      'content-type': 'application/json',
      'cache-control': 'no-store',
      ...(retryAfter !== undefined && { 'retry-after': String(Math.max(0, Math.ceil(retryAfter))) }),
    },
    body: JSON.stringify({ error }),
  };
}

export const renderRefusal: RenderRefusal = (refusal) => errorResponse(refusal);
