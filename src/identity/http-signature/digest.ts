import { createHash, timingSafeEqual } from 'node:crypto';
import { verifyHeaderValue } from '@digitalbazaar/http-digest-header';
import { type Refusal, refuse } from '../../lib/refusal.ts';
import { type DigestAlgorithm, hashes } from './digest-value.ts';
import { bytesOf, readDictionary } from './fields.ts';

export { contentDigest, type DigestAlgorithm } from './digest-value.ts';

/** What `Want-Content-Digest` says when a digest uses nothing we know (RFC 9530 §4). */
export const WANT_CONTENT_DIGEST = 'sha-256=10, sha-512=5';

/**
 * Compares `Content-Digest` with the bytes as they came, before any decoding. Every digest of a known algorithm must match and there must
 * be one; unknown algorithms beside it are passed over. Undefined is success. Refusals: `malformed_request`, with `data.want` when no
 * algorithm is known; `digest_mismatch`.
 */
export function checkContentDigest(field: string, body: Uint8Array): Refusal | undefined {
  const members = readDictionary(field);
  if (typeof members === 'string') return malformed(`Content-Digest is malformed: ${members}.`);
  let known = 0;
  for (const [name, member] of members) {
    if (!Object.hasOwn(hashes, name)) continue;
    const algorithm = name as DigestAlgorithm;
    const claimed = bytesOf(member);
    if (!claimed) return malformed(`Content-Digest is malformed: ${algorithm} is no byte sequence.`);
    const actual = createHash(hashes[algorithm]).update(body).digest();
    if (claimed.length !== actual.length || !timingSafeEqual(claimed, actual)) {
      const words = `Content-Digest (${algorithm}) does not match the ${body.length} bytes of the body as they came.`;
      return refuse('digest_mismatch', words, { data: { algorithm } });
    }
    known++;
  }
  if (known > 0) return undefined;
  return malformed('Content-Digest has neither sha-256 nor sha-512.', { want: WANT_CONTENT_DIGEST });
}

/**
 * The obsolete `Digest` field (RFC 3230, `SHA-256=…`) of old peers, on routes where nothing is signed. It never stands in for
 * Content-Digest. The package's guards are loose, so one spelling reaches it.
 */
export async function checkLegacyDigest(field: string, body: Uint8Array): Promise<boolean> {
  if (!/^sha-256=[A-Za-z0-9+/]{43}=$/i.test(field)) return false;
  const { verified } = await verifyHeaderValue({ data: body, headerValue: field });
  return verified === true;
}

function malformed(words: string, data?: Record<string, unknown>): Refusal {
  return refuse('malformed_request', words, { ...(data && { data }) });
}
