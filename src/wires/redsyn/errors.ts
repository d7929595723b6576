import type { HttpResponse, RenderRefusal } from '../../lib/http.ts';
import type { Refusal } from '../../lib/refusal.ts';

/** The dates of REDSYN v1 that are known here, oldest first; the last is current (REDSYN "Versiones"). */
export const versions: readonly string[] = ['2026-09-25'];
export const currentVersion = '2026-09-25';

/**
 * REDSYN's form of a refusal: `{"error", "status"}`, and the stable `code`. Where something is not found, the gate that spoke is not named:
 * it would tell hidden from missing (FED-06).
 */
export function errorResponse(refusal: Refusal, version = currentVersion): HttpResponse {
  const { words, status, code, retryable, retryAfter, data, gate } = refusal;
  const body = {
    ...data,
    error: words,
    status,
    code,
    retryable,
    ...(gate !== undefined && status !== 404 && { gate }),
  };
  return {
    status,
    headers: {
      'content-type': 'application/json',
      'redsyn-version': version,
      ...(retryAfter !== undefined && { 'retry-after': String(Math.max(0, Math.ceil(retryAfter))) }),
      ...(status === 401 && { 'www-authenticate': 'Bearer realm="redsyn"' }),
    },
    body: JSON.stringify(body),
  };
}

export const renderRefusal: RenderRefusal = (refusal) => errorResponse(refusal);
