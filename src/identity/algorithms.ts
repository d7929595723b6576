import { createPublicKey, verify as cryptoVerify, ECDH, type JsonWebKey, type KeyObject } from 'node:crypto';
import { Point } from '@noble/ed25519';
import { LRUCache } from 'lru-cache';
import { varint } from 'multiformats';
import { fromBase58, fromBase64url, fromMultibase, toMultibase } from './encoding.ts';

/** Names of RFC 9421's algorithm registry (§6.2). A key has exactly one. */
export type SignatureAlgorithm = 'ed25519' | 'ecdsa-p256-sha256';

/** A public key that was checked at import: on its curve, canonical, not weak. `importKey` alone makes one. */
export interface PublicKey {
  readonly algorithm: SignatureAlgorithm;
  /** 32 bytes (Ed25519) or the 33-byte compressed point (P-256). */
  readonly raw: Buffer;
  readonly object: KeyObject;
}

interface Row {
  /** Multicodec of the public key, and the bytes that follow it. */
  readonly codec: number;
  readonly rawLength: number;
  readonly jwk: { readonly kty: string; readonly crv: string; readonly algs: readonly string[] };
  /** The checked key object, or why there is none. */
  import(raw: Uint8Array): KeyObject | string;
  /** The raw form out of the members of a JWK. */
  fromJwk(jwk: JsonWebKey): Uint8Array | undefined;
  verify(key: KeyObject, data: Uint8Array, signature: Uint8Array): boolean;
  /** One form per signature, whatever a third party can turn it into: what a replay store compares. */
  unique(signature: Uint8Array): Uint8Array;
}

/** All that is known about each kind of key. Nothing else in the gateway compares names of algorithms. */
const table: Readonly<Record<SignatureAlgorithm, Row>> = {
  ed25519: {
    codec: 0xed,
    rawLength: 32,
    jwk: { kty: 'OKP', crv: 'Ed25519', algs: ['EdDSA', 'Ed25519'] },
    import(raw) {
      let point: Point;
      try {
        point = Point.fromBytes(raw, false);
      } catch {
        return 'not a canonical point of the Ed25519 curve';
      }
      // The neutral element as a key verifies any message, and node:crypto 20 lets it.
      if (point.isSmallOrder()) return 'weak key (small order)';
      return createPublicKey({
        key: { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(raw).toString('base64url') },
        format: 'jwk',
      });
    },
    fromJwk: (jwk) => fromBase64url(jwk.x ?? ''),
    // OpenSSL refuses S >= L and compares the encoding of R without the cofactor; what it lacks are the small-order points.
    verify: (key, data, signature) =>
      signature.length === 64 && !isSmallOrderEncoding(signature) && cryptoVerify(null, data, key, signature),
    unique: (signature) => signature,
  },
  'ecdsa-p256-sha256': {
    codec: 0x1200,
    rawLength: 33,
    jwk: { kty: 'EC', crv: 'P-256', algs: ['ES256'] },
    import(raw) {
      const point = p256Point(raw);
      if (!point) return 'not a point of the P-256 curve';
      const [x, y] = [point.subarray(1, 33), point.subarray(33)].map((n) => n.toString('base64url'));
      return createPublicKey({ key: { kty: 'EC', crv: 'P-256', x: x!, y: y! }, format: 'jwk' });
    },
    fromJwk(jwk) {
      const [x, y] = [fromBase64url(jwk.x ?? ''), fromBase64url(jwk.y ?? '')];
      if (x?.length !== 32 || y?.length !== 32) return undefined;
      return p256Point(Buffer.concat([Buffer.of(4), x, y]), 'compressed');
    },
    verify: (key, data, signature) =>
      signature.length === 64 && cryptoVerify('sha256', data, { key, dsaEncoding: 'ieee-p1363' }, signature),
    // (r, s) and (r, n - s) both verify: anybody can make the second from the first.
    unique(signature) {
      const s = BigInt(`0x${Buffer.from(signature.subarray(32)).toString('hex')}`);
      if (s <= P256_ORDER / 2n) return signature;
      const low = (P256_ORDER - s).toString(16).padStart(64, '0');
      return Buffer.concat([signature.subarray(0, 32), Buffer.from(low, 'hex')]);
    },
  },
};

const P256_ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;

/**
 * A P-256 point re-encoded, or undefined when it is not on the curve (SEC 1 §2.3; the hybrid form and the point at infinity are not
 * taken). `uncompressed` is 65 bytes, `compressed` 33.
 */
export function p256Point(point: Uint8Array, form: 'uncompressed' | 'compressed' = 'uncompressed'): Buffer | undefined {
  const first = point[0];
  const known = point.length === 65 ? first === 4 : point.length === 33 && (first === 2 || first === 3);
  if (!known) return undefined;
  try {
    return ECDH.convertKey(point, 'prime256v1', undefined, undefined, form) as Buffer;
  } catch {
    return undefined;
  }
}

// The points of order 1, 2, 4 and 8 without their sign bit, canonical and not (y = p and y = p + 1).
const SMALL_ORDER = new Set([
  `01${'00'.repeat(31)}`,
  '00'.repeat(32),
  `ec${'ff'.repeat(30)}7f`,
  `ed${'ff'.repeat(30)}7f`,
  `ee${'ff'.repeat(30)}7f`,
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
]);

/** Whether the first 32 bytes encode a point of small order, in any of the 14 ways. */
export function isSmallOrderEncoding(bytes: Uint8Array): boolean {
  const y = Buffer.from(bytes.subarray(0, 32));
  y[31]! &= 0x7f;
  return SMALL_ORDER.has(y.toString('hex'));
}

const imported = new LRUCache<string, PublicKey>({ max: 4096 });

/** Checks a raw public key and keeps its key object for the next time. A string says why it is not accepted. */
export function importKey(algorithm: SignatureAlgorithm, raw: Uint8Array): PublicKey | string {
  const row = table[algorithm];
  if (raw.length !== row.rawLength) return `${raw.length} bytes where ${algorithm} has ${row.rawLength}`;
  const bytes = Buffer.from(raw);
  const name = `${algorithm}:${bytes.toString('hex')}`;
  const known = imported.get(name);
  if (known) return known;
  const object = row.import(bytes);
  if (typeof object === 'string') return object;
  const key: PublicKey = { algorithm, raw: bytes, object };
  imported.set(name, key);
  return key;
}

/** Strict verification with the key's own algorithm: raw 64-byte signatures; never throws. */
export function verify(key: PublicKey, data: Uint8Array, signature: Uint8Array): boolean {
  return table[key.algorithm].verify(key.object, data, signature);
}

/** The form of a signature under which two deliveries of it are the same. */
export function uniqueSignature(key: PublicKey, signature: Uint8Array): Uint8Array {
  return table[key.algorithm].unique(signature);
}

export function sameKey(a: PublicKey, b: PublicKey): boolean {
  return a.algorithm === b.algorithm && a.raw.equals(b.raw);
}

/** `z6Mk…` or `zDn…`: multicodec and key in base58btc (Multikey, did:key). */
export function toMultikey(key: PublicKey): string {
  const codec = varint.encodeTo(table[key.algorithm].codec, new Uint8Array(2));
  return toMultibase(Buffer.concat([codec, key.raw]));
}

/** The other direction. A string says why it is not accepted. */
export function fromMultikey(text: string): PublicKey | string {
  const bytes = fromMultibase(text);
  if (!bytes) return 'not canonical base58btc multibase of a key';
  let codec: number;
  let length: number;
  try {
    [codec, length] = varint.decode(bytes);
  } catch {
    return 'no multicodec prefix';
  }
  for (const [name, row] of rows) {
    if (row.codec === codec) return importKey(name, bytes.subarray(length));
  }
  return `multicodec 0x${codec.toString(16)} is neither an Ed25519 nor a P-256 public key`;
}

const rows = Object.entries(table) as [SignatureAlgorithm, Row][];

/** Of a JWK (RFC 8037, RFC 7518 §6.2). A string says why it is not accepted. */
export function fromJwk(value: unknown): PublicKey | string {
  if (typeof value !== 'object' || value === null) return 'publicKeyJwk is not an object';
  const jwk = value as JsonWebKey & Record<string, unknown>;
  if ('d' in jwk) return 'publicKeyJwk publishes the private key';
  const found = rows.find(([, row]) => row.jwk.kty === jwk.kty && row.jwk.crv === jwk.crv);
  if (!found) return 'publicKeyJwk is neither OKP Ed25519 nor EC P-256';
  const [name, row] = found;
  if (jwk.alg !== undefined && !row.jwk.algs.includes(jwk.alg as string)) return `publicKeyJwk is for ${jwk.alg}`;
  if (jwk.use !== undefined && jwk.use !== 'sig') return 'publicKeyJwk is not for signatures';
  if (typeof jwk.x !== 'string' || (jwk.y !== undefined && typeof jwk.y !== 'string'))
    return 'publicKeyJwk has no point';
  const raw = row.fromJwk(jwk);
  return raw ? importKey(name, raw) : 'publicKeyJwk holds no canonical point of its curve';
}

/** Where a verification method may keep its key, and how each place is read. */
const places = {
  publicKeyMultibase: (value: unknown) =>
    typeof value === 'string' ? fromMultikey(value) : 'publicKeyMultibase is not text',
  publicKeyBase58: (value: unknown) => {
    const raw = typeof value === 'string' ? fromBase58(value) : undefined;
    return raw ? importKey('ed25519', raw) : 'publicKeyBase58 is not base58btc of a key';
  },
  publicKeyJwk: fromJwk,
} as const;

type Place = keyof typeof places;

/** Types of verification methods that are read (did-extensions registry), with the places and algorithms that each allows. */
const methodTypes: Readonly<Record<string, { places: readonly Place[]; algorithms: readonly SignatureAlgorithm[] }>> = {
  Ed25519VerificationKey2018: { places: ['publicKeyBase58', 'publicKeyJwk'], algorithms: ['ed25519'] },
  Ed25519VerificationKey2020: { places: ['publicKeyMultibase'], algorithms: ['ed25519'] },
  Multikey: { places: ['publicKeyMultibase'], algorithms: ['ed25519', 'ecdsa-p256-sha256'] },
  JsonWebKey2020: { places: ['publicKeyJwk'], algorithms: ['ed25519', 'ecdsa-p256-sha256'] },
  JsonWebKey: { places: ['publicKeyJwk'], algorithms: ['ed25519', 'ecdsa-p256-sha256'] },
};

/** The key of a verification method, whatever of the five shapes it has. A string says why it is not accepted. */
export function keyOfMethod(method: Readonly<Record<string, unknown>>): PublicKey | string {
  const type = Object.hasOwn(methodTypes, String(method.type)) ? methodTypes[String(method.type)] : undefined;
  if (!type) return 'its type is not one that is read here';
  const present = (Object.keys(places) as Place[]).filter((place) => method[place] !== undefined);
  if (!present.some((place) => type.places.includes(place))) return `it has no ${type.places.join(' or ')}`;
  let key: PublicKey | undefined;
  for (const place of present) {
    const next = places[place](method[place]);
    if (typeof next === 'string') return next;
    if (key && !sameKey(key, next)) return `${present.join(' and ')} hold different keys`;
    key = next;
  }
  if (!type.algorithms.includes(key!.algorithm)) return `${key!.algorithm} under the type ${String(method.type)}`;
  return key!;
}
