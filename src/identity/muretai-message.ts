import { hasLoneSurrogate } from '../lib/json.ts';
import { type Refusal, refuse } from '../lib/refusal.ts';
import { verify } from './algorithms.ts';
import { pythonFloat, RawNumber } from './canonical.ts';
import { fromBase64 } from './encoding.ts';
import { didKeyOf } from './introduction.ts';
import type { KeyPair } from './keys.ts';
import { withRawNumbers } from './raw-numbers.ts';

/** The six fields that a message's signature covers (muretai.md "La carga firmada"). `timestamp`: the number as it was written. */
export interface SignedFields {
  from: string;
  to: string;
  messageId: string;
  contextId: string | null;
  text: string;
  timestamp: string;
}

/** A message as it arrived: well formed, and nothing of it verified. An absent member is null. */
export interface SignedMessage extends Omit<SignedFields, 'from' | 'to' | 'timestamp'> {
  from: string | null;
  to: string | null;
  sig: string | null;
  /** Null where no number stood. */
  timestamp: string | null;
  /** All of `metadata`, numbers as they were written. */
  metadata: Readonly<Record<string, unknown>>;
}

/** UTF-8 bytes (muretai-wire-facts §6.2). */
export const maxMessageText = 65_536;
const maxId = 256;

/**
 * Reads a message out of JSON text that `readJson` has passed. Refusals, in this order: `invalid_field` for what is no object, `malformed_request` for a
 * member of the wrong kind, `payload_too_large` for its text (muretai-wire-facts §6.2 steps 3 to 5).
 */
export function readMessage(json: string): SignedMessage | Refusal {
  const value = withRawNumbers(json);
  if (!isRecord(value)) return refuse('invalid_field', 'params.message must be an A2A message object');
  const { parts = null, messageId, contextId = null } = value;
  const metadata = value.metadata ?? {};
  if (parts !== null && !Array.isArray(parts)) return shape('parts must be an array');
  const texts: string[] = [];
  for (const part of (parts ?? []) as unknown[]) {
    if (!isRecord(part) || part.kind !== 'text') continue;
    const { text = '' } = part;
    if (typeof text !== 'string') return shape("a text part's `text` must be a string");
    texts.push(text);
  }
  if (typeof messageId !== 'string' || messageId.trim() === '') return shape('messageId must be a non-empty string');
  if (messageId.length > maxId) return shape(`messageId is longer than ${maxId} characters`);
  if (contextId !== null && typeof contextId !== 'string') return shape('contextId must be a string or null');
  if (contextId !== null && contextId.length > maxId) return shape(`contextId is longer than ${maxId} characters`);
  if (!isRecord(metadata)) return shape('metadata must be an object');
  const { from = null, to = null, sig = null, timestamp } = metadata;
  if (!isText(from)) return shape('metadata.from must be a string');
  if (!isText(to)) return shape('metadata.to must be a string');
  if (!isText(sig)) return shape('metadata.sig must be a string');
  const text = texts.join('\n');
  if ([text, messageId, contextId, from, to, sig].some(hasLoneSurrogate))
    return shape('a text is not encodable UTF-8 (a lone surrogate)');
  if (value.kind !== 'message') return shape('not an A2A message object');
  const excess = Buffer.byteLength(text) - maxMessageText;
  if (excess > 0)
    return refuse('payload_too_large', `text is ${excess} bytes over the ${maxMessageText}-byte limit`, {
      data: { limit: maxMessageText },
    });
  const stamp = timestamp instanceof RawNumber ? timestamp.token : null;
  return { from, to, sig, messageId, contextId, text, timestamp: stamp, metadata };
}

/**
 * The texts that a signature of it may cover. An older node's timestamp was a float: its signer signed either the number as it stands here, or as Python
 * prints the float that it reads (`1.79e9` is `1790000000.0` there). Both are the same number, so neither says anything else.
 */
export function payloadsOf(fields: SignedFields): string[] {
  const { timestamp: token } = fields;
  const tokens = /[.eE]/.test(token) && token.length <= 40 ? [token, pythonFloat(Number(token))] : [token];
  return [...new Set(tokens)].map((timestamp) => signingPayload({ ...fields, timestamp }));
}

/** muretai's canonical JSON of the six fields. The keys stand in the order of their code points; texts have no lone surrogates. */
export function signingPayload({ contextId, from, messageId, text, timestamp, to }: SignedFields): string {
  const s = JSON.stringify;
  return `{"contextId":${s(contextId)},"from":${s(from)},"messageId":${s(messageId)},"text":${s(text)},"timestamp":${timestamp},"to":${s(to)}}`;
}

/** The payload that `sig` covers, by the key that stands inside `from` and no other. Refused as `signature_failed`; the words say why. */
export function verifyMessage(fields: SignedFields, sig: string): string | Refusal {
  const signer = didKeyOf(fields.from);
  if (!signer) return refuse('signature_failed', 'metadata.from is no Ed25519 did:key');
  const raw = sig.length === 88 ? fromBase64(sig) : undefined;
  if (raw?.length !== 64) return refuse('signature_failed', 'metadata.sig is not 64 bytes in padded base64');
  const payload = payloadsOf(fields).find((text) => verify(signer.key, Buffer.from(text), raw));
  return payload ?? refuse('signature_failed', 'signature does not match');
}

export interface NewMessage {
  role: 'user' | 'agent';
  to: string;
  text: string;
  messageId: string;
  contextId: string | null;
  /** Milliseconds. Signed in whole seconds. */
  now: number;
  /** Unsigned members of `metadata`. */
  more?: Readonly<Record<string, unknown>>;
}

/** A message as it is sent, signed by `pair`. */
export function signMessage({ role, to, text, messageId, contextId, now, more }: NewMessage, pair: KeyPair): object {
  const timestamp = Math.floor(now / 1000);
  const fields = { contextId, from: pair.did, messageId, text, timestamp: String(timestamp), to };
  const sig = pair.sign(Buffer.from(signingPayload(fields))).toString('base64');
  const metadata = { timestamp, from: pair.did, to, sig, ...more };
  return { kind: 'message', role, parts: [{ kind: 'text', text }], messageId, contextId, metadata };
}

function isText(value: unknown): value is string | null {
  return value === null || typeof value === 'string';
}

function shape(words: string): Refusal {
  return refuse('malformed_request', words);
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof RawNumber);
}
