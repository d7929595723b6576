import { importKey } from '../identity/algorithms.ts';
import { fromBase64url } from '../identity/encoding.ts';
import {
  type EncryptionKey,
  isEncrypted,
  type Letter,
  openFiles,
  openLetter,
  readEncryptionKey,
  sealLetter,
} from '../identity/redsyn-cipher.ts';
import { redsynFingerprint } from '../identity/redsyn-seal.ts';
import { Refusal } from '../lib/refusal.ts';
import { SealError } from './errors.ts';
import type { NodeKeys } from './keys.ts';
import type { Body, DeliveredEnvelope } from './types.ts';

/** What `GET /agents/…/key` answers. */
export interface AgentKey {
  node: string | null;
  signing_key: string;
  enc_key: string | null;
  enc_sig: string | null;
  fingerprint: string;
}

/** The parts of an envelope that a seal covers and hides. */
export interface Sealable {
  id: string;
  kind: string;
  body: Body;
  refs?: unknown[];
  /** The zip. */
  files?: Uint8Array;
}

/**
 * The keys of an agent, checked: `enc_sig` is by `signing_key`. Whether that one is the person's is for the pins. Undefined: the agent has no
 * key to seal for. Throws {@link SealError} when the proof does not hold.
 */
export function checkAgentKey({ signing_key, enc_key, enc_sig }: AgentKey): CheckedKey | undefined {
  if (!enc_key || !enc_sig) return undefined;
  const raw = fromBase64url(signing_key);
  const signing = raw ? importKey('ed25519', raw) : 'not base64url';
  if (typeof signing === 'string') throw new SealError(`the gateway gave a signing key that is none: ${signing}`);
  const point = readEncryptionKey(enc_key, enc_sig, signing);
  if (point instanceof Refusal) {
    throw new SealError(`the gateway gave an encryption key that its owner did not sign: ${point.words}`);
  }
  return { signingKey: signing_key, encKey: enc_key, fingerprint: redsynFingerprint(signing.raw) };
}

export interface CheckedKey {
  signingKey: string;
  encKey: string;
  fingerprint: string;
}

/** `body`, `refs` and `files` as they travel, sealed for `encKey`; answers are to be sealed for these keys. Throws {@link SealError}. */
export function seal(
  { id, kind, body, refs = [], files }: Sealable,
  encKey: string,
  keys: NodeKeys,
): { body: Body; refs: readonly []; files?: { zip: string } } {
  const letter = { body, refs, reply_key: keys.encryption.publicKey };
  const sealed = sealLetter({ id, kind }, letter, encKey, files);
  if (sealed instanceof Refusal) throw new SealError(sealed.words);
  return { ...sealed, body: sealed.body as unknown as Body };
}

export function isSealed({ body }: Pick<DeliveredEnvelope, 'body'>): boolean {
  return isEncrypted(body);
}

/** What a sealed envelope says. Throws {@link SealError}: it was sealed for other keys, or something was changed on the way. */
export function open(envelope: Pick<DeliveredEnvelope, 'id' | 'kind' | 'body'>, keys: NodeKeys): Letter {
  return firstOf(keys, (key) => openLetter(envelope, envelope.body, key));
}

/** The zip of a sealed envelope, from the zip as it travelled. Throws {@link SealError}. */
export function openZip(
  envelope: Pick<DeliveredEnvelope, 'id' | 'kind' | 'body'>,
  zip: Uint8Array,
  keys: NodeKeys,
): Buffer {
  const text = Buffer.from(zip).toString('base64');
  return firstOf(keys, (key) => openFiles(envelope, envelope.body, text, key));
}

function firstOf<T extends object>(
  { encryption, previous }: NodeKeys,
  tryWith: (key: EncryptionKey) => T | Refusal,
): T {
  let last = '';
  for (const key of [encryption, ...previous]) {
    const opened = tryWith(key);
    if (!(opened instanceof Refusal)) return opened;
    last = opened.words;
  }
  throw new SealError(last);
}
