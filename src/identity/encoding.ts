import { base58btc } from 'multiformats/bases/base58';

/** Text to bytes, canonical forms only: a text that would not be written again the same way is not taken, so that no value has two spellings. */

/** Standard alphabet with padding (RFC 4648 §4). */
export function fromBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : undefined;
}

/** URL alphabet without padding (RFC 4648 §5, RFC 7515 §2). */
export function fromBase64url(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : undefined;
}

export function toBase64url(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64url');
}

// The guard stands before the decoder: decoding is quadratic, and characters above U+00FF give wrong bytes instead of an error (CVE-2025-27611).
const MULTIBASE = /^z[1-9A-HJ-NP-Za-km-z]{40,127}$/;
const BASE58 = /^[1-9A-HJ-NP-Za-km-z]{32,64}$/;

/** base58btc behind its multibase letter `z`, at most 128 characters. */
export function fromMultibase(text: string): Uint8Array | undefined {
  if (!MULTIBASE.test(text)) return undefined;
  const bytes = base58btc.decode(text);
  return base58btc.encode(bytes) === text ? bytes : undefined;
}

export function toMultibase(bytes: Uint8Array): string {
  return base58btc.encode(bytes);
}

/** Bare base58btc, 32 to 64 characters: enough for a 32-byte key. */
export function fromBase58(text: string): Uint8Array | undefined {
  if (!BASE58.test(text)) return undefined;
  const bytes = base58btc.decode(`z${text}`);
  return base58btc.encode(bytes) === `z${text}` ? bytes : undefined;
}
