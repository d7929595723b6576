import { randomBytes } from 'node:crypto';
import { type SignableEnvelope, signEnvelope } from '../identity/redsyn-seal.ts';
import { Refusal } from '../lib/refusal.ts';
import type { NodeKeys } from './keys.ts';

export function newMessageId(): string {
  return `m${randomBytes(16).toString('base64url')}`;
}

/** The envelope with `ts` and the node's signature (REDSYN "Firmas"). */
export function signedEnvelope(envelope: Record<string, unknown>, keys: NodeKeys): Record<string, unknown> {
  const full = { ...envelope, ts: Math.floor(Date.now() / 1000) };
  const sig = signEnvelope(full as unknown as SignableEnvelope, keys.signing);
  if (sig instanceof Refusal) throw new TypeError(sig.words);
  return { ...full, sig };
}
