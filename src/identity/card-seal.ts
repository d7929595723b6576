import { readJson } from '../lib/json.ts';
import { Refusal } from '../lib/refusal.ts';
import { type PublicKey, verify } from './algorithms.ts';
import { canonicalJson } from './canonical.ts';
import type { KeyPair } from './keys.ts';

export interface CardSealer {
  /** The verification method under which the key is found in a DID document. */
  readonly keyId: string;
  readonly pair: Pick<KeyPair, 'sign'>;
  /** Where a reader that knows no DIDs finds the key (RFC 7515 §4.1.2). */
  readonly jku?: string;
}

/** JWS in its flattened form (RFC 7515 §7.2.2), without the payload: that is the card. */
export interface CardSignature {
  readonly protected: string;
  readonly signature: string;
}

/**
 * A card with its signatures (A2A §8.4): over RFC 8785 of it as it is served and, where that is not the same, of what a reader of 1.0 makes of it. Such
 * a reader drops what 1.0 does not know and what is empty (§8.4.1, and more of it in `@a2a-js/sdk`), so it is given that form apart as `plain`; one
 * that takes the card as it is finds it signed as well. `@a2a-js/sdk` 1.3.0 verifies a card that its resolver has read without its `securitySchemes`
 * (it decodes it twice), so that this form is signed too: what it leaves open is whether the card has any. Equal cards under one key give equal signatures (RFC 8032), so an ETag stays what it was.
 * Throws on a card that has no canonical form.
 */
export function sealCard<T extends object>(
  card: T,
  plain: object,
  { keyId, pair, jku }: CardSealer,
): T & { signatures: CardSignature[] } {
  const header = encoded(JSON.stringify({ alg: 'EdDSA', kid: keyId, typ: 'JOSE', ...(jku !== undefined && { jku }) }));
  const { securitySchemes: _, ...decoded } = plain as { securitySchemes?: unknown };
  const forms = [withoutDefaults(plain), card, withoutDefaults(decoded)];
  const payloads = new Set(forms.map((form) => canonical(form ?? {})));
  const signatures = [...payloads].map((payload) => ({
    protected: header,
    signature: pair.sign(Buffer.from(`${header}.${encoded(payload)}`)).toString('base64url'),
  }));
  return { ...card, signatures };
}

/** What a signature names its key by (RFC 7515 §4.1). */
export interface KeyName {
  readonly kid: string;
  readonly jku?: string;
}

/** Signatures of one card that are looked at: more of them is nobody's rotation. */
const mostSignatures = 8;

/**
 * Whether a card is what its signers signed (A2A §8.4.3). `unsigned`: it has no signature, or none whose key `find` knows. `valid`: one of the others
 * holds, which is enough while keys are rotated. `invalid`: none of them does. A signature may cover the card as it came or without what ProtoJSON
 * leaves out; one whose header is not understood counts as one without a key.
 */
export async function checkCard(
  card: Readonly<Record<string, unknown>>,
  find: (name: KeyName) => Promise<PublicKey | null>,
): Promise<'unsigned' | 'valid' | 'invalid'> {
  const { signatures, ...rest } = card;
  const given: unknown[] = Array.isArray(signatures) ? signatures.slice(0, mostSignatures) : [];
  const payloads = [rest, withoutDefaults(rest) ?? {}].flatMap((form) => {
    const text = canonicalJson(form);
    return typeof text === 'string' ? encoded(text) : [];
  });
  const keys = new Map<string, PublicKey | null>();
  let checked = false;
  for (const one of given) {
    const read = readSignature(one);
    if (!read) continue;
    const name = JSON.stringify([read.name.kid, read.name.jku]);
    if (!keys.has(name)) keys.set(name, await find(read.name));
    const key = keys.get(name);
    if (!key || !algorithms[read.alg]?.includes(key.algorithm)) continue;
    checked = true;
    const data = payloads.map((payload) => Buffer.from(`${read.header}.${payload}`));
    if (data.some((signed) => verify(key, signed, read.signature))) return 'valid';
  }
  return checked ? 'invalid' : 'unsigned';
}

const algorithms: Readonly<Record<string, readonly PublicKey['algorithm'][]>> = {
  EdDSA: ['ed25519'],
  Ed25519: ['ed25519'],
  ES256: ['ecdsa-p256-sha256'],
};

function readSignature(value: unknown): { header: string; alg: string; name: KeyName; signature: Buffer } | undefined {
  const { protected: header, signature } = (value ?? {}) as Record<string, unknown>;
  if (typeof header !== 'string' || header.length > 4_096 || typeof signature !== 'string') return undefined;
  const read = readJson(Buffer.from(header, 'base64url'));
  const { alg, kid, jku, crit } = (read instanceof Refusal ? {} : (read.value ?? {})) as Record<string, unknown>;
  // What a header says is critical has to be understood (RFC 7515 §4.1.11), and nothing of that kind is.
  if (typeof alg !== 'string' || !Object.hasOwn(algorithms, alg) || typeof kid !== 'string' || crit !== undefined) {
    return undefined;
  }
  const name = { kid, ...(typeof jku === 'string' && { jku }) };
  return { header, alg, name, signature: Buffer.from(signature, 'base64url') };
}

/** What ProtoJSON leaves out: '', null and empty containers, at any depth, and `required: false`, the one boolean of a card that has a default. */
function withoutDefaults(value: unknown, key?: string): unknown {
  if (value === '' || value === null || value === undefined) return undefined;
  if (key === 'required' && value === false) return undefined;
  if (Array.isArray(value)) {
    const kept = value.map((item) => withoutDefaults(item)).filter((item) => item !== undefined);
    return kept.length > 0 ? kept : undefined;
  }
  if (typeof value !== 'object') return value;
  const entries = Object.entries(value).flatMap(([name, item]) => {
    const kept = withoutDefaults(item, name);
    return kept === undefined ? [] : [[name, kept] as const];
  });
  return entries.length > 0 ? Object.fromEntries(entries) : undefined;
}

function canonical(value: unknown): string {
  const text = canonicalJson(value);
  if (text instanceof Refusal) throw new TypeError(`the card cannot be signed: ${text.words}`);
  return text;
}

function encoded(text: string): string {
  return Buffer.from(text).toString('base64url');
}
