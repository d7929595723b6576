import type { HttpRequest, HttpResponse, RenderRefusal } from '../../lib/http.ts';
import { Refusal, type RefusalCode, refuse } from '../../lib/refusal.ts';

interface Row {
  /** Confer's code (confer-wire-facts §1 to §3). */
  code: string;
  status: number;
  /** Confer's own sentence, where it has one. */
  words?: string;
}

const validation: Row = { code: 'validation_error', status: 400, words: 'Invalid request data' };
/** All of a verification that fails has one code; its words say which. */
const failed: Row = { code: 'signature_failed', status: 401 };
const invalid: Row = { code: 'signature_invalid', status: 401 };
const same = (code: string, status: number): Row => ({ code, status });

const table: Record<RefusalCode, Row> = {
  malformed_request: validation,
  malformed_json: validation,
  duplicate_key: validation,
  unsupported_media_type: same('unsupported_media_type', 415),
  payload_too_large: same('payload_too_large', 413),
  invalid_field: validation,
  not_found: same('not_found', 404),
  method_not_allowed: same('method_not_allowed', 405),
  unknown_version: same('unknown_version', 400),

  unauthenticated: same('unauthorized', 401),
  signature_missing: same('signature_missing', 401),
  signature_malformed: invalid,
  signature_invalid: invalid,
  signature_failed: failed,
  signature_stale: failed,
  signature_replayed: same('signature_replayed', 401),
  digest_mismatch: { ...failed, words: 'Content-Digest mismatch' },
  invalid_did: invalid,
  did_resolution_failed: same('did_resolution_failed', 401),
  key_not_found: same('key_not_found', 401),
  key_not_authorized: same('key_not_authorized', 401),
  unsupported_key: same('key_invalid', 401),
  sender_mismatch: same('sender_mismatch', 401),
  envelope_signature_invalid: failed,
  capability_invalid: same('capability_invalid', 401),

  rate_limited: { code: 'rate_limited', status: 429, words: 'Too many requests' },
  forbidden: same('forbidden', 403),
  address_not_found: { code: 'not_found', status: 404, words: 'Target agent not found on this instance' },
  pending_connection: same('pending_connection', 202),
  pending_approval: same('pending_approval', 202),
  policy_denied: same('policy_denied', 403),
  quota_exceeded: same('quota_exceeded', 429),
  limit_paused: same('limit_paused', 403),
  loop_detected: same('loop_detected', 403),
  conflict: same('conflict', 409),
  exchange_closed: same('conflict', 409),
  session_closed: same('conflict', 409),

  introduction_invalid: same('introduction_invalid', 403),
  introducer_unknown: same('introducer_unknown', 403),
  query_not_permitted: same('policy_denied', 403),
  connect_refused: same('policy_denied', 403),
  no_pending_request: same('not_found', 404),
  already_connected: same('conflict', 409),

  unreachable: same('unreachable', 502),
  expired: same('expired', 410),
  internal: same('internal_error', 500),
};

/** How to sign, for who did not (RFC 9421 §5.1). */
const challenge = {
  'accept-signature':
    'sig1=("@method" "@authority" "@path" "@query" "content-digest" "date");created;keyid;nonce;alg="ed25519"',
};

export function errorResponse(refusal: Refusal): HttpResponse {
  const { code, status, words } = table[refusal.code];
  if (refusal.code === 'pending_connection') return json(202, { status: code, message: refusal.words });
  if (refusal.code === 'pending_approval') {
    const { message_id } = refusal.data ?? {};
    return json(202, { status: code, ...(typeof message_id === 'string' && { message_id }) });
  }
  const details = detailsOf(refusal);
  const error = {
    code,
    message: words ?? refusal.words,
    ...(details !== undefined && { details }),
    ...(refusal.gate !== undefined && { gate: refusal.gate }),
    retryable: refusal.retryable,
  };
  return json(
    status,
    { error },
    {
      ...(status === 401 && challenge),
      ...(refusal.retryAfter !== undefined && { 'retry-after': String(Math.ceil(refusal.retryAfter)) }),
    },
  );
}

export const renderRefusal: RenderRefusal = errorResponse;

export function json(status: number, value: unknown, headers: Readonly<Record<string, string>> = {}): HttpResponse {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(value) };
}

/** Schema failures: by field, a list of texts (confer-wire-facts §2). */
export type Faults = Readonly<Record<string, readonly string[]>>;

export function invalidData(faults: Faults): Refusal {
  return refuse('invalid_field', 'Invalid request data', { data: { details: faults } });
}

function detailsOf({ code, words, data }: Refusal): unknown {
  if (table[code] !== validation) {
    const { details: _details, message_id: _id, ...facts } = data ?? {};
    return Object.keys(facts).length > 0 ? facts : undefined;
  }
  if (data?.details !== undefined) return data.details;
  const field = typeof data?.field === 'string' ? data.field : 'body';
  return { [field]: [words] };
}

/**
 * The refusal in the words of this wire's own order (confer-wire-facts §1): who is nobody did not sign, and a `Signature` header that is missing or no
 * byte sequence is a signature that failed.
 */
export function ofSignature(refusal: Refusal, { headers }: HttpRequest): Refusal {
  if (refusal.code === 'unauthenticated' && headers.get('authorization') === undefined)
    return refuse('signature_missing').by('authenticate');
  if (headers.get('signature-input') === undefined)
    return refusal.code === 'signature_malformed' ? refuse('signature_missing').by('authenticate') : refusal;
  const isFormed = /^[^=\s]+=:[A-Za-z0-9+/]+={0,2}:$/.test((headers.get('signature') ?? '').trim());
  if (isFormed || !(refusal.code === 'signature_malformed' || refusal.code === 'signature_missing')) return refusal;
  return new Refusal('signature_failed', 'The Signature header is missing or malformed.').by('authenticate');
}
