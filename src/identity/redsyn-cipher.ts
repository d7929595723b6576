import { createCipheriv, createDecipheriv, createECDH, type ECDH, hkdfSync, randomBytes } from 'node:crypto';
import { Refusal, refuse } from '../lib/refusal.ts';
import { type PublicKey, p256Point, verify } from './algorithms.ts';
import { canonicalJson } from './canonical.ts';
import { fromBase64, fromBase64url, toBase64url } from './encoding.ts';
import type { KeyPair } from './keys.ts';

/** REDSYN's end-to-end encryption (redsyn.md «Cifrado de extremo a extremo»). The relay only ever checks proofs; clients seal and open. */

const ALGORITHM = 'P256-HKDF-SHA256-A256GCM';
const CONTEXT = 'redsyn-e2e-v1';
export const ENCRYPTED_TYPE = 'application/redsyn+encrypted';
const TAG = 16;

export interface EncryptedBody {
  readonly type: typeof ENCRYPTED_TYPE;
  readonly enc: {
    readonly v: 1;
    readonly alg: typeof ALGORITHM;
    readonly epk: string;
    readonly nonce: string;
    /** Ciphertext and the 16-byte tag after it. */
    readonly ct: string;
    readonly files_nonce: string;
  };
}

/** What the seal hides. */
export interface Letter {
  readonly body: unknown;
  readonly refs: readonly unknown[];
  /** Where progress and reply are sealed to. */
  readonly reply_key: string;
}

interface Labels {
  readonly id: string;
  readonly kind: string;
}

/** A node's P-256 pair for being written to. The private half does not leave it but through `privateKey`, for storing it sealed. */
export class EncryptionKey {
  /** 65 bytes uncompressed, base64url: `enc_key`. */
  readonly publicKey: string;
  readonly #ecdh: ECDH;

  /** From 32 private bytes, or a new one. Throws when they are no private key. */
  constructor(privateKey?: Uint8Array) {
    this.#ecdh = createECDH('prime256v1');
    if (privateKey) this.#ecdh.setPrivateKey(privateKey);
    else this.#ecdh.generateKeys();
    this.publicKey = toBase64url(this.#ecdh.getPublicKey());
  }

  privateKey(): Buffer {
    const bytes = this.#ecdh.getPrivateKey();
    return Buffer.concat([Buffer.alloc(32 - bytes.length), bytes]);
  }

  /** The message key that this key shares with another one (steps 2 and 3): salt is the *ephemeral* public key, whichever side asks. */
  messageKey(other: Uint8Array, ephemeral: Uint8Array): Buffer {
    return Buffer.from(hkdfSync('sha256', this.#ecdh.computeSecret(other), ephemeral, CONTEXT, 32));
  }
}

/** `enc_sig`: the node's signing key vouches for its encryption key. */
export function proveEncryptionKey(encKey: string, key: KeyPair): string {
  return toBase64url(key.sign(Buffer.from(`redsyn-enc-v1:${encKey}`)));
}

/** The point of an `enc_key` whose proof holds. Refusal: `invalid_field` for `enc_key` or `enc_sig`. */
export function readEncryptionKey(encKey: string, encSig: string, signingKey: PublicKey): Buffer | Refusal {
  const point = readPoint(encKey);
  if (!point) return bad('enc_key', '`enc_key` is no P-256 point: 65 bytes uncompressed, base64url.');
  const signature = fromBase64url(encSig);
  if (!signature || !verify(signingKey, Buffer.from(`redsyn-enc-v1:${encKey}`), signature)) {
    return bad('enc_sig', '`enc_sig` is no signature of this `enc_key` by this node.');
  }
  return point;
}

/** Steps 1 to 6. `to` is the recipient's `enc_key`, already verified; `zip` the bytes of the files. */
export function sealLetter(
  labels: Labels,
  letter: Letter,
  to: string,
  zip?: Uint8Array,
): { body: EncryptedBody; refs: readonly []; files?: { zip: string } } | Refusal {
  const point = readPoint(to);
  if (!point) return bad('enc_key', 'The key to seal for is no P-256 point.');
  const text = canonicalJson({ body: letter.body, refs: letter.refs, reply_key: letter.reply_key });
  if (text instanceof Refusal) return text;
  const ephemeral = new EncryptionKey();
  const epk = fromBase64url(ephemeral.publicKey)!;
  const key = ephemeral.messageKey(point, epk);
  const nonce = randomBytes(12);
  const enc = { v: 1, alg: ALGORITHM, epk: ephemeral.publicKey, nonce: toBase64url(nonce) } as const;
  const ct = toBase64url(encrypt(key, nonce, Buffer.from(text), bodyData(labels)));
  if (!zip) return { body: { type: ENCRYPTED_TYPE, enc: { ...enc, ct, files_nonce: '' } }, refs: [] };
  const filesNonce = randomBytes(12);
  return {
    body: { type: ENCRYPTED_TYPE, enc: { ...enc, ct, files_nonce: toBase64url(filesNonce) } },
    refs: [],
    files: { zip: encrypt(key, filesNonce, zip, filesData(labels)).toString('base64') },
  };
}

/** Undoes the seal. Refusal: `invalid_field`, without a hint whether key, id, kind or text was wrong. */
export function openLetter(labels: Labels, body: unknown, key: EncryptionKey): Letter | Refusal {
  const parts = readEncrypted(body);
  const text = parts && decrypt(key.messageKey(parts.epk, parts.epk), parts.nonce, parts.ct, bodyData(labels));
  const letter = text && parseLetter(text);
  return letter ?? bad('body', 'The sealed body does not open with this key.');
}

/** The files of a sealed envelope: `zip` as it travelled, in base64. */
export function openFiles(labels: Labels, body: unknown, zip: string, key: EncryptionKey): Buffer | Refusal {
  const parts = readEncrypted(body);
  const sealed = fromBase64(zip);
  const opened =
    parts?.filesNonce &&
    sealed &&
    decrypt(key.messageKey(parts.epk, parts.epk), parts.filesNonce, sealed, filesData(labels));
  return opened ?? bad('files', 'The sealed files do not open with this key.');
}

/** Whether a body has the form of a sealed one: all that a relay can tell (`encrypted_only`). */
export function isEncrypted(body: unknown): body is EncryptedBody {
  return readEncrypted(body) !== undefined;
}

function readEncrypted(
  body: unknown,
): { epk: Buffer; nonce: Buffer; ct: Buffer; filesNonce: Buffer | undefined } | undefined {
  const { type, enc } = (body ?? {}) as { type?: unknown; enc?: Record<string, unknown> };
  if (type !== ENCRYPTED_TYPE || typeof enc !== 'object' || enc === null || enc.v !== 1 || enc.alg !== ALGORITHM)
    return undefined;
  const bytes = (name: string): Buffer | undefined =>
    typeof enc[name] === 'string' ? fromBase64url(enc[name]) : undefined;
  const epk = typeof enc.epk === 'string' ? readPoint(enc.epk) : undefined;
  const [nonce, ct] = [bytes('nonce'), bytes('ct')];
  const filesNonce = enc.files_nonce === undefined || enc.files_nonce === '' ? undefined : bytes('files_nonce');
  if (!epk || nonce?.length !== 12 || !ct || ct.length < TAG) return undefined;
  if (filesNonce ? filesNonce.length !== 12 : enc.files_nonce !== undefined && enc.files_nonce !== '') return undefined;
  return { epk, nonce, ct, filesNonce };
}

function parseLetter(text: Buffer): Letter | undefined {
  try {
    const { body, refs, reply_key } = JSON.parse(text.toString('utf8')) as Record<string, unknown>;
    if (body === undefined || typeof reply_key !== 'string') return undefined;
    return { body, refs: Array.isArray(refs) ? refs : [], reply_key };
  } catch {
    return undefined;
  }
}

/** A point in the one form that REDSYN has: 65 bytes, on the curve. */
function readPoint(text: string): Buffer | undefined {
  const bytes = fromBase64url(text);
  return bytes?.length === 65 ? p256Point(bytes) : undefined;
}

function bodyData({ id, kind }: Labels): Buffer {
  return Buffer.from(`${CONTEXT}|${id}|${kind}`);
}

function filesData({ id, kind }: Labels): Buffer {
  return Buffer.from(`${CONTEXT}|${id}|${kind}|files`);
}

function encrypt(key: Buffer, nonce: Buffer, plain: Uint8Array, data: Buffer): Buffer {
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(data);
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

function decrypt(key: Buffer, nonce: Buffer, sealed: Buffer, data: Buffer): Buffer | undefined {
  if (sealed.length < TAG) return undefined;
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG });
  decipher.setAAD(data).setAuthTag(sealed.subarray(sealed.length - TAG));
  try {
    return Buffer.concat([decipher.update(sealed.subarray(0, sealed.length - TAG)), decipher.final()]);
  } catch {
    return undefined;
  }
}

function bad(field: string, words: string): Refusal {
  return refuse('invalid_field', words, { data: { field } });
}
