/**
 * The one table of refusals. A refusal is what a caller is told when the gateway will not do what was asked: it is returned as a
 * value by gates and core, and each wire renders its code in its own form. Codes are stable: clients may switch on them.
 *
 * - `status`: the HTTP status where a wire has HTTP statuses
 * - `words`: the default sentence; says what was wrong and what to do
 * - `retryable`: whether the same request may succeed later without a change
 */
export const refusals = {
  // the form of the request
  malformed_request: { status: 400, words: 'The request is malformed.', retryable: false },
  malformed_json: { status: 400, words: 'The body is not valid JSON.', retryable: false },
  duplicate_key: { status: 400, words: 'A JSON object in the body names the same key twice.', retryable: false },
  unsupported_media_type: {
    status: 415,
    words: 'Send the body as application/json, without Content-Encoding.',
    retryable: false,
  },
  payload_too_large: { status: 413, words: 'The body is larger than this call takes.', retryable: false },
  invalid_field: { status: 422, words: 'A field of the request is not valid.', retryable: false },
  not_found: { status: 404, words: 'There is nothing here by that name.', retryable: false },
  method_not_allowed: { status: 405, words: 'This address does not take that method.', retryable: false },
  unknown_version: { status: 400, words: 'That version is not known here.', retryable: false },

  // proofs (confer-wire-facts §1, RFC 9421, RFC 9530)
  unauthenticated: {
    status: 401,
    words: 'Say who you are: a bearer token, or an RFC 9421 signature.',
    retryable: false,
  },
  signature_missing: { status: 401, words: 'The request carries no signature.', retryable: false },
  signature_malformed: {
    status: 400,
    words: 'The Signature-Input or Signature header is malformed.',
    retryable: false,
  },
  signature_invalid: { status: 401, words: 'The signature does not meet what is required here.', retryable: false },
  signature_failed: { status: 401, words: 'The signature does not verify.', retryable: false },
  signature_stale: { status: 401, words: 'The signature is outside the accepted time window.', retryable: false },
  signature_replayed: { status: 401, words: 'These very bytes were already received.', retryable: false },
  digest_mismatch: { status: 401, words: 'Content-Digest does not match the body.', retryable: false },
  invalid_did: { status: 401, words: 'That is not a DID this gateway can resolve.', retryable: false },
  did_resolution_failed: { status: 401, words: 'The DID document of the signer could not be read.', retryable: true },
  key_not_found: { status: 401, words: 'The DID document does not list that key.', retryable: false },
  key_not_authorized: {
    status: 401,
    words: 'The DID document does not list that key for authentication.',
    retryable: false,
  },
  unsupported_key: { status: 401, words: 'That key is of a kind that is not accepted.', retryable: false },
  sender_mismatch: {
    status: 403,
    words: 'The named sender does not belong to the one who proved to be calling.',
    retryable: false,
  },
  envelope_signature_invalid: { status: 401, words: 'The signature of the message does not verify.', retryable: false },
  capability_invalid: { status: 401, words: 'The capability token is not valid for this request.', retryable: false },

  // admission
  rate_limited: { status: 429, words: 'Too many requests. Try again later.', retryable: true },
  forbidden: { status: 403, words: 'That is not yours to do.', retryable: false },
  address_not_found: { status: 404, words: 'No agent answers to that address.', retryable: false },
  pending_connection: {
    status: 202,
    words: 'Connection request is awaiting approval from the recipient',
    retryable: true,
  },
  pending_approval: { status: 202, words: 'The request is awaiting the owner of the agent.', retryable: true },
  policy_denied: { status: 403, words: 'Agent policy denied this request', retryable: false },
  quota_exceeded: { status: 429, words: 'The plan allows no more of this.', retryable: false },
  limit_paused: {
    status: 403,
    words: 'The limit of these two agents is used up. It goes on when the owner says so.',
    retryable: false,
  },
  loop_detected: {
    status: 403,
    words: 'These agents answer one another without an end. It goes on when the owner says so.',
    retryable: false,
  },
  conflict: { status: 409, words: 'That is already so, or contradicts what is there.', retryable: false },
  exchange_closed: { status: 409, words: 'That request is already closed.', retryable: false },
  session_closed: {
    status: 409,
    words: 'That session is closed. Follow up in its thread, or write to #new.',
    retryable: false,
  },

  // trust between did:keys (muretai.md "Códigos de error")
  introduction_invalid: {
    status: 403,
    words: 'The introduction does not hold: bad, expired, revoked or spent.',
    retryable: false,
  },
  introducer_unknown: { status: 403, words: 'Who issued the introduction is not trusted here.', retryable: false },
  query_not_permitted: { status: 403, words: 'The owner does not let you ask that.', retryable: false },
  connect_refused: { status: 403, words: 'No connection requests are taken here.', retryable: false },
  no_pending_request: { status: 404, words: 'No request of ours waits for your answer.', retryable: false },
  already_connected: { status: 409, words: 'You are connected already.', retryable: false },

  // the way out
  unreachable: { status: 502, words: 'The other side could not be reached.', retryable: true },
  expired: { status: 410, words: 'It expired before it was delivered.', retryable: false },
  internal: {
    status: 500,
    words: 'Something went wrong here. Quote the request id when you report it.',
    retryable: true,
  },
} as const satisfies Record<string, { status: number; words: string; retryable: boolean }>;

export type RefusalCode = keyof typeof refusals;

export interface RefusalExtra {
  /** The gate that spoke; set by the gate runner. */
  gate?: string;
  /** Overrides the table's status where a protocol document words the same refusal with another one (a full quota of *counts* is 403). */
  status?: number;
  /** For the log only. Never leaves the process. */
  detail?: string;
  /** Public, machine-readable facts (`quota: true`, `known: [...]`, `field: "body"`). */
  data?: Record<string, unknown>;
  /** Seconds, for `Retry-After`. */
  retryAfter?: number;
}

export class Refusal {
  readonly code: RefusalCode;
  readonly words: string;
  readonly status: number;
  readonly retryable: boolean;
  readonly gate: string | undefined;
  readonly detail: string | undefined;
  readonly data: Record<string, unknown> | undefined;
  readonly retryAfter: number | undefined;

  constructor(code: RefusalCode, words?: string, extra: RefusalExtra = {}) {
    const row = refusals[code];
    this.code = code;
    this.words = words ?? row.words;
    this.status = extra.status ?? row.status;
    this.retryable = row.retryable;
    this.gate = extra.gate;
    this.detail = extra.detail;
    this.data = extra.data;
    this.retryAfter = extra.retryAfter;
  }

  /** The same refusal, spoken by a named gate. */
  by(gate: string): Refusal {
    return new Refusal(this.code, this.words, {
      gate,
      status: this.status,
      ...(this.detail !== undefined && { detail: this.detail }),
      ...(this.data !== undefined && { data: this.data }),
      ...(this.retryAfter !== undefined && { retryAfter: this.retryAfter }),
    });
  }
}

/** Shorthand: `return refuse('invalid_field', '`to` is missing.', { data: { field: 'to' } })`. */
export function refuse(code: RefusalCode, words?: string, extra?: RefusalExtra): Refusal {
  return new Refusal(code, words, extra);
}
