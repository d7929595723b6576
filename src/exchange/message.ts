/**
 * The one message shape inside. A wire's parse builds it, a wire's render reads it; unknown fields and the bytes that were signed
 * travel with it in `envelope`.
 */
export type MessageKind = 'request' | 'progress' | 'reply' | 'event';

export interface Body {
  type: string;
  text?: string;
  data?: unknown;
  enc?: unknown;
  [more: string]: unknown;
}

/** The signature of a node over an envelope (REDSYN "Firmas"), as it arrived. */
export interface EnvelopeSignature {
  alg: string;
  key: string;
  value: string;
}

/** An envelope (REDSYN "El sobre"), validated in form: types, sizes and alphabets, nothing else. */
export interface Envelope {
  v: 1;
  id: string;
  kind: MessageKind;
  from: string;
  /** Absent in progress and reply. */
  to?: string;
  /** The thread as the sender wrote it. */
  thread?: string;
  reply_to?: string | null;
  /** Unix seconds. */
  ts?: number;
  /** Seconds it may wait. */
  ttl?: number;
  body: Body;
  refs?: unknown[];
  /** The zip itself is kept beside the envelope (src/exchange/files). */
  files?: { bytes: number; sha256: string };
  error?: boolean;
  sig?: EnvelopeSignature | null;
  /** The A2A Message of a message that came over A2A. */
  a2a?: unknown;
  [unknown: string]: unknown;
}
