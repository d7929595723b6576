import { createHash } from 'node:crypto';

/** Keys of the hash algorithm registry that are not deprecated (RFC 9530 §7.2), with node:crypto's names. */
export const hashes = { 'sha-256': 'sha256', 'sha-512': 'sha512' } as const;

export type DigestAlgorithm = keyof typeof hashes;

/** `sha-256=:…:`, the value of `Content-Digest` for these bytes. */
export function contentDigest(body: Uint8Array, algorithm: DigestAlgorithm = 'sha-256'): string {
  return `${algorithm}=:${createHash(hashes[algorithm]).update(body).digest('base64')}:`;
}
