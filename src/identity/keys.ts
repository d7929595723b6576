import {
  createHash,
  createPrivateKey,
  createPublicKey,
  sign as cryptoSign,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { importKey, type PublicKey, toMultikey } from './algorithms.ts';
import { type DidKey, didKey } from './did.ts';

export const SEED_BYTES = 32;

// RFC 8410 §7: the PKCS #8 frame of an Ed25519 private key, up to its 32 bytes.
const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex');

/** An Ed25519 key pair. The private half cannot be read from it, printed or serialised. */
export class KeyPair {
  readonly publicKey: PublicKey;
  readonly publicKeyMultibase: string;
  readonly did: DidKey;
  readonly #private: KeyObject;

  constructor(seed: Uint8Array) {
    if (seed.length !== SEED_BYTES) throw new TypeError(`a seed has ${SEED_BYTES} bytes, not ${seed.length}`);
    this.#private = createPrivateKey({ key: Buffer.concat([PKCS8, seed]), format: 'der', type: 'pkcs8' });
    const { x } = createPublicKey(this.#private).export({ format: 'jwk' });
    const key = importKey('ed25519', Buffer.from(x!, 'base64url'));
    if (typeof key === 'string') throw new TypeError(`that seed gives no usable key: ${key}`);
    this.publicKey = key;
    this.publicKeyMultibase = toMultikey(key);
    this.did = didKey(this.publicKeyMultibase);
  }

  /** 64 bytes. The same data always give the same signature (RFC 8032). */
  sign(data: Uint8Array): Buffer {
    return cryptoSign(null, data, this.#private);
  }
}

const pairs = new LRUCache<string, KeyPair>({ max: 1024 });

/** The key pair of a seed; parsed once and kept. */
export function keyPair(seed: Uint8Array): KeyPair {
  // Keyed by a hash, so that no seed lies about as a string.
  const name = createHash('sha256').update('gatehouse-key-pair').update(seed).digest('hex');
  const known = pairs.get(name);
  if (known) return known;
  const pair = new KeyPair(seed);
  pairs.set(name, pair);
  return pair;
}

export function generateSeed(): Buffer {
  return randomBytes(SEED_BYTES);
}
