import { type Refusal, type RefusalCode, refuse } from '../../lib/refusal.ts';

/** What an answer says instead of a result, in either binding. */
export interface RpcError {
  /** Of JSON-RPC. */
  code: number;
  message: string;
  data: object[];
  /** HTTP status of a JSON-RPC answer; `rest` of an answer in HTTP+JSON. */
  status: number;
  rest: number;
  headers: Record<string, string>;
}

interface Row {
  /** JSON-RPC code: JSON-RPC's own, A2A's (§5.4 of the specification), or -32000 for what only this gateway says. */
  rpc: number;
  /** `reason` of ErrorInfo: the A2A error's name where there is one. */
  reason: string;
  /** Errors ride on HTTP 200 (§9.5) but where HTTP itself has something to say to the client or to a proxy. */
  status?: number;
  /** In HTTP+JSON (§5.4): `status` unless it is another one, and 400 without either. */
  rest?: number;
}

const GATEWAY = -32000;
const PARSE = -32700;
const INVALID_REQUEST = -32600;
const INVALID_PARAMS = -32602;
const TASK_NOT_FOUND = -32001;
const NOT_CANCELABLE = -32002;
const UNSUPPORTED = -32004;

const unauthenticated: Row = { rpc: GATEWAY, reason: 'UNAUTHENTICATED', status: 401 };
const denied: Row = { rpc: GATEWAY, reason: 'PERMISSION_DENIED', rest: 403 };

/** A2A has no error for a refused sender, so ErrorInfo's `metadata.code` tells which refusal it was, and clients of ours read it back from there. */
const table: Record<RefusalCode, Row> = {
  malformed_request: { rpc: INVALID_REQUEST, reason: 'INVALID_REQUEST' },
  malformed_json: { rpc: PARSE, reason: 'PARSE_ERROR' },
  duplicate_key: { rpc: PARSE, reason: 'PARSE_ERROR' },
  unsupported_media_type: { rpc: -32005, reason: 'CONTENT_TYPE_NOT_SUPPORTED' },
  payload_too_large: { rpc: INVALID_REQUEST, reason: 'PAYLOAD_TOO_LARGE', status: 413 },
  invalid_field: { rpc: INVALID_PARAMS, reason: 'INVALID_ARGUMENT' },
  not_found: { rpc: TASK_NOT_FOUND, reason: 'TASK_NOT_FOUND', rest: 404 },
  method_not_allowed: { rpc: INVALID_REQUEST, reason: 'METHOD_NOT_ALLOWED', status: 405 },
  unknown_version: { rpc: -32009, reason: 'VERSION_NOT_SUPPORTED' },

  unauthenticated,
  signature_missing: unauthenticated,
  signature_malformed: unauthenticated,
  signature_invalid: unauthenticated,
  signature_failed: unauthenticated,
  signature_stale: unauthenticated,
  signature_replayed: unauthenticated,
  digest_mismatch: unauthenticated,
  invalid_did: unauthenticated,
  did_resolution_failed: unauthenticated,
  key_not_found: unauthenticated,
  key_not_authorized: unauthenticated,
  unsupported_key: unauthenticated,
  envelope_signature_invalid: unauthenticated,
  capability_invalid: unauthenticated,
  sender_mismatch: denied,

  rate_limited: { rpc: GATEWAY, reason: 'RATE_LIMITED', status: 429 },
  forbidden: denied,
  address_not_found: { rpc: INVALID_PARAMS, reason: 'ADDRESS_NOT_FOUND', rest: 404 },
  pending_connection: { rpc: GATEWAY, reason: 'PENDING_CONNECTION', rest: 403 },
  pending_approval: { rpc: GATEWAY, reason: 'PENDING_APPROVAL', rest: 403 },
  policy_denied: denied,
  quota_exceeded: { rpc: GATEWAY, reason: 'QUOTA_EXCEEDED', rest: 429 },
  limit_paused: denied,
  loop_detected: denied,
  conflict: { rpc: GATEWAY, reason: 'CONFLICT', rest: 409 },
  exchange_closed: { rpc: UNSUPPORTED, reason: 'UNSUPPORTED_OPERATION' },
  session_closed: { rpc: UNSUPPORTED, reason: 'UNSUPPORTED_OPERATION' },

  introduction_invalid: denied,
  introducer_unknown: denied,
  query_not_permitted: denied,
  connect_refused: denied,
  no_pending_request: { rpc: GATEWAY, reason: 'NOT_FOUND', rest: 404 },
  already_connected: { rpc: GATEWAY, reason: 'CONFLICT', rest: 409 },

  unreachable: { rpc: GATEWAY, reason: 'UNREACHABLE', rest: 502 },
  expired: { rpc: GATEWAY, reason: 'EXPIRED', rest: 410 },
  internal: { rpc: -32603, reason: 'INTERNAL', status: 500 },
};

/** Reasons that A2A or google.rpc define; the rest are this gateway's own words. */
const own = new Set([
  'PENDING_CONNECTION',
  'PENDING_APPROVAL',
  'QUOTA_EXCEEDED',
  'CONFLICT',
  'UNREACHABLE',
  'EXPIRED',
  'ADDRESS_NOT_FOUND',
  'NOT_FOUND',
]);

/** What to do about a 401 (RFC 9110 §11.6.1, RFC 9421 §5.1). */
const challenge = {
  'www-authenticate': 'Bearer realm="gatehouse"',
  'accept-signature': 'sig1=("@method" "@authority" "@path" "content-digest" "date");created;alg="ed25519"',
};

export function ofRefusal(refusal: Refusal): RpcError {
  const row = table[refusal.code];
  const status = row.status ?? 200;
  return {
    code: row.rpc,
    message: refusal.words,
    data: [errorInfo(row.reason, metadataOf(refusal)), ...violations(refusal)],
    status,
    rest: row.rest ?? row.status ?? 400,
    headers: {
      ...(status === 401 && challenge),
      ...(refusal.retryAfter !== undefined && { 'retry-after': String(Math.ceil(refusal.retryAfter)) }),
    },
  };
}

/**
 * §3.3.4: the client did not say that it knows the extension which it would need. 0.3 has no such error. In HTTP+JSON its metadata is the extension
 * alone (confer-wire-facts §8).
 */
export function extensionRequired(uri: string, refusal: Refusal): RpcError {
  const message = `This agent is reached with the extension ${uri}, or with a bearer token of this instance.`;
  return plain(-32008, message, 'EXTENSION_SUPPORT_REQUIRED', { ...metadataOf(refusal), extension: uri });
}

export function versionNotSupported(supported: readonly string[]): RpcError {
  const words = `That A2A version is not spoken here. Spoken are: ${supported.join(', ')}.`;
  const refusal = refuse('unknown_version', words, { data: { supported: supported.join(',') } });
  return ofRefusal(refusal);
}

export function methodNotFound(words: string): RpcError {
  return { ...plain(-32601, words, 'METHOD_NOT_FOUND', {}), rest: 404 };
}

export function unsupportedOperation(words: string): RpcError {
  return plain(UNSUPPORTED, words, 'UNSUPPORTED_OPERATION', {});
}

export function notCancelable(refusal: Refusal, { id, state }: { id: string; state: string }): RpcError {
  return plain(NOT_CANCELABLE, refusal.words, 'TASK_NOT_CANCELABLE', { taskId: id, state });
}

/** Errors of A2A that are none of a gate or of the core: HTTP 400 in HTTP+JSON, all of them. */
function plain(code: number, message: string, reason: string, metadata: Record<string, string>): RpcError {
  return { code, message, data: [errorInfo(reason, metadata)], status: 200, rest: 400, headers: {} };
}

function metadataOf(refusal: Refusal): Record<string, string> {
  return {
    ...textual(refusal.data ?? {}),
    code: refusal.code,
    ...(refusal.gate !== undefined && { gate: refusal.gate }),
    retryable: String(refusal.retryable),
  };
}

/** ErrorInfo's metadata holds texts only (google.rpc.ErrorInfo). */
function textual(data: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, typeof value === 'string' ? value : JSON.stringify(value)]),
  );
}

function errorInfo(reason: string, metadata: Record<string, string>): object {
  return {
    '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
    reason,
    domain: own.has(reason) ? 'gatehouse.dev' : 'a2a-protocol.org',
    metadata,
  };
}

function violations(refusal: Refusal): object[] {
  const field = refusal.code === 'invalid_field' ? refusal.data?.field : undefined;
  if (typeof field !== 'string') return [];
  const fieldViolations = [{ field, description: refusal.words }];
  return [{ '@type': 'type.googleapis.com/google.rpc.BadRequest', fieldViolations }];
}
