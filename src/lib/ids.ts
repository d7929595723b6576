import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { ulid } from 'ulid';
import type { Clock } from './clock.ts';

const crockford = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/** 26 Crockford characters that sort by the clock's millisecond; ids of one millisecond come in no order. */
export function newId(clock: Clock): string {
  return ulid(clock.now(), randomFraction);
}

let pool = Buffer.alloc(0);
let used = 0;

// ulid asks for one random number per character; a call into the system for each would cost more than the rest of the id.
function randomFraction(): number {
  if (used === pool.length) {
    pool = randomBytes(4096);
    used = 0;
  }
  return pool[used++]! / 256;
}

/** A secret for a caller to keep: `prefix` (`ghn_`, `rsk_`, `rsw_`) and 32 random bytes as base64url, 43 characters. Store its `sha256Hex`, never itself. */
export function newToken(prefix: string): string {
  return prefix + randomBytes(32).toString('base64url');
}

export function sha256(data: string | Uint8Array): Buffer {
  return createHash('sha256').update(data).digest();
}

export function sha256Hex(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}

/**
 * The same id for the same parts, on every replica and for ever: the first 16 bytes of the SHA-256 of the parts joined with `:`, as one
 * big-endian number in 26 Crockford characters (confer-wire-facts §7). Not injective: a part that may hold a `:` goes last.
 */
export function derivedId(parts: readonly string[]): string {
  let rest = BigInt(`0x${sha256(parts.join(':')).toString('hex', 0, 16)}`);
  let id = '';
  for (let i = 0; i < 26; i++) {
    id = crockford[Number(rest & 31n)] + id;
    rest >>= 5n;
  }
  return id;
}

/** Whether two secrets are equal, in a time that tells nothing about either, not even its length. */
export function sameSecret(a: string | Uint8Array, b: string | Uint8Array): boolean {
  return timingSafeEqual(sha256(a), sha256(b));
}
