import { createHash } from 'node:crypto';
import { Refusal, refuse } from '../lib/refusal.ts';
import { importKey, type PublicKey, verify } from './algorithms.ts';
import { canonicalJson } from './canonical.ts';
import { fromBase64, fromBase64url, toBase64url } from './encoding.ts';
import type { KeyPair } from './keys.ts';

/** The parts of a REDSYN envelope that its signature covers (redsyn.md «Firmas»). */
export interface SignableEnvelope {
  readonly id?: string | null | undefined;
  readonly kind: string;
  readonly from: string;
  readonly to?: string | null | undefined;
  readonly thread?: string | null | undefined;
  readonly reply_to?: string | null | undefined;
  /** Unix seconds; a signed envelope must have it. */
  readonly ts?: number | null | undefined;
  readonly body: unknown;
  readonly refs?: readonly unknown[] | null | undefined;
  /** `zip` on the way in, `sha256` (hex of the decoded zip) as delivered. */
  readonly files?: { readonly zip?: string; readonly sha256?: string } | null | undefined;
  readonly error?: boolean | null | undefined;
}

export interface EnvelopeSignature {
  readonly alg: string;
  /** 32 bytes, base64url. */
  readonly key: string;
  /** 64 bytes, base64url. */
  readonly value: string;
}

export interface SealedEnvelope extends SignableEnvelope {
  /** Of a delivered event. */
  readonly topic?: string | null | undefined;
  readonly sig?: (EnvelopeSignature & { readonly payload?: string }) | null | undefined;
}

export interface VerifiedEnvelope {
  /** The very text that was signed: kept and delivered as it is. */
  readonly payload: string;
  readonly fingerprint: string;
}

/** The text that is signed: RFC 8785 of the twelve members, absent texts as `""`. Refused when a value has no canonical form. */
export function signingPayload(envelope: SignableEnvelope): string | Refusal {
  if (!Number.isSafeInteger(envelope.ts)) return unproven('A signed envelope needs `ts`, whole Unix seconds.');
  const files = filesHash(envelope.files);
  if (files instanceof Refusal) return files;
  return canonicalJson({
    v: 1,
    id: envelope.id ?? '',
    kind: envelope.kind,
    from: envelope.from,
    to: envelope.to ?? '',
    thread: envelope.thread ?? '',
    reply_to: envelope.reply_to ?? '',
    ts: envelope.ts,
    body: envelope.body,
    refs: envelope.refs ?? [],
    files_sha256: files,
    error: envelope.error ?? false,
  });
}

export function signEnvelope(envelope: SignableEnvelope, key: KeyPair): EnvelopeSignature | Refusal {
  const payload = signingPayload(envelope);
  if (payload instanceof Refusal) return payload;
  return { alg: 'ed25519', key: toBase64url(key.publicKey.raw), value: toBase64url(key.sign(Buffer.from(payload))) };
}

/**
 * What a relay checks: the signature is by the key that this node registered, over exactly what arrived, and `ts` lies within
 * `windowSeconds` of `now` (milliseconds). Refusal: `envelope_signature_invalid`, or that of a payload without canonical form.
 */
export function verifyEnvelope(
  envelope: SealedEnvelope,
  registered: PublicKey,
  time: { readonly now: number; readonly windowSeconds: number },
): VerifiedEnvelope | Refusal {
  const signature = readSignature(envelope);
  if (signature instanceof Refusal) return signature;
  if (!signature.key.raw.equals(registered.raw)) return unproven('`sig.key` is not the key that this node registered.');
  const payload = signingPayload(envelope);
  if (payload instanceof Refusal) return payload;
  if (Math.abs(time.now / 1000 - envelope.ts!) > time.windowSeconds) {
    return unproven(`\`ts\` lies more than ${time.windowSeconds} s from the time here.`);
  }
  if (!verify(registered, Buffer.from(payload), signature.value)) {
    return unproven('The signature does not cover what arrived: sign the RFC 8785 form of exactly these fields.');
  }
  return { payload, fingerprint: redsynFingerprint(registered.raw) };
}

/**
 * What a receiver checks who need not trust the relay: `sig.value` holds over `sig.payload`, and the payload says what the envelope says. The
 * relay may have completed an address or its session; `sameOrg` tells whether two names of an org mean the same one (a handle and its
 * domain). `thread` is not compared: each side has its own name for a conversation (design §4).
 */
export function verifyDelivered(
  envelope: SealedEnvelope,
  sameOrg: (signed: string, shown: string) => boolean = (signed, shown) => signed === shown,
): (VerifiedEnvelope & { readonly key: PublicKey }) | Refusal {
  const signature = readSignature(envelope);
  if (signature instanceof Refusal) return signature;
  const payload = envelope.sig?.payload;
  if (typeof payload !== 'string') return unproven('The envelope does not bring the payload that was signed.');
  if (!verify(signature.key, Buffer.from(payload), signature.value)) {
    return unproven('The signature does not hold over its payload.');
  }
  const signed = readPayload(payload);
  if (!signed) return unproven('The payload that was signed is no envelope.');
  // Progress and replies go to whoever asked: their `to` says nothing and is not used (redsyn.md «El sobre»).
  const isAnswer = envelope.kind === 'reply' || envelope.kind === 'progress';
  const isFrom = isCompleted(signed.from, envelope.from, sameOrg);
  // An event is delivered to an agent; what was signed names its topic.
  const isTo =
    isAnswer ||
    (envelope.kind === 'event'
      ? isCompletedTopic(signed.to, String(envelope.topic ?? ''), sameOrg)
      : isCompleted(signed.to, envelope.to ?? '', sameOrg));
  if (!isFrom || !isTo || signingPayload({ ...envelope, ...signed }) !== payload) {
    return unproven('The envelope does not say what was signed.');
  }
  return { payload, fingerprint: redsynFingerprint(signature.key.raw), key: signature.key };
}

/**
 * How people compare keys: the first 16 bytes of SHA-256 over the raw 32-byte key (or its base64url), lower-case hex in eight groups,
 * `d5f2-…`. 128 bits are enough against a second key of the same fingerprint, and short enough to read aloud.
 */
export function redsynFingerprint(key: Uint8Array | string): string {
  const raw = typeof key === 'string' ? Buffer.from(key, 'base64url') : key;
  return createHash('sha256').update(raw).digest('hex').slice(0, 32).match(/.{4}/g)!.join('-');
}

function readSignature({ sig }: SealedEnvelope): { key: PublicKey; value: Buffer } | Refusal {
  if (typeof sig !== 'object' || sig === null) return unproven('The envelope is not signed.');
  if (sig.alg !== 'ed25519') return unproven('`sig.alg` must be "ed25519".');
  const raw = typeof sig.key === 'string' ? fromBase64url(sig.key) : undefined;
  const key = raw ? importKey('ed25519', raw) : 'not base64url';
  if (typeof key === 'string') return unproven(`\`sig.key\` is no usable Ed25519 key: ${key}.`);
  const value = typeof sig.value === 'string' ? fromBase64url(sig.value) : undefined;
  return value?.length === 64 ? { key, value } : unproven('`sig.value` is not 64 bytes in base64url.');
}

function filesHash(files: SignableEnvelope['files']): string | Refusal {
  if (files?.zip === undefined) return files?.sha256 ?? '';
  const zip = fromBase64(files.zip);
  if (!zip) return unproven('`files.zip` is not canonical base64, so no hash of it was signed.');
  return createHash('sha256').update(zip).digest('hex');
}

function readPayload(payload: string): { from: string; to: string; thread: string } | undefined {
  try {
    const { from, to, thread } = JSON.parse(payload);
    return [from, to, thread].every((text) => typeof text === 'string') ? { from, to, thread } : undefined;
  } catch {
    return undefined;
  }
}

/** Whether `shown` is what the sender wrote, completed from the left (`ana/close`) and with a session where none or `#new` was named. */
function isCompleted(written: string, shown: string, sameOrg: (a: string, b: string) => boolean): boolean {
  const [address = '', session] = written.split('#');
  const [shownAddress = '', shownSession] = shown.split('#');
  if (session !== undefined && session !== 'new' && session !== shownSession) return false;
  const [names, shownNames] = [address.split('/'), shownAddress.split('/')];
  if (names.length !== 4) return address !== '' && (shownAddress === address || shownAddress.endsWith(`/${address}`));
  const [[org, ...rest], [shownOrg, ...shownRest]] = [names, shownNames];
  return rest.join('/') === shownRest.join('/') && (org === shownOrg || sameOrg(org!, shownOrg!));
}

function isCompletedTopic(written: string, shown: string, sameOrg: (a: string, b: string) => boolean): boolean {
  if (!written.startsWith('topic:') || !shown.startsWith('topic:')) return false;
  const [names, shownNames] = [written, shown].map((text) => text.slice('topic:'.length).split('/')) as [
    string[],
    string[],
  ];
  if (shownNames.length !== 3 || names.length > 3 || names.includes('')) return false;
  const tail = shownNames.slice(3 - names.length);
  return names.every((name, i) => name === tail[i] || (names.length === 3 && i === 0 && sameOrg(name, tail[i]!)));
}

function unproven(words: string): Refusal {
  return refuse('envelope_signature_invalid', words);
}
