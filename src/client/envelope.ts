import { createHash, randomBytes } from 'node:crypto';
import { type SealedEnvelope, type SignableEnvelope, signEnvelope, verifyDelivered } from '../identity/redsyn-seal.ts';
import { Refusal } from '../lib/refusal.ts';
import { personOf, withoutSession } from './addresses.ts';
import type { NodeKeys } from './keys.ts';
import type { Answer, Body, DeliveredEnvelope, FullAnswer, Outgoing, Signer } from './types.ts';

export function newMessageId(): string {
  return `m${randomBytes(16).toString('base64url')}`;
}

/**
 * The id of the answer to a request: always the same one, so that a repeat, after a crash too, is no second answer. It names the sender as
 * well, because two senders may have chosen the same id.
 */
export function answerId(request: Pick<DeliveredEnvelope, 'id' | 'from'>): string {
  const hash = createHash('sha256')
    .update(`${withoutSession(request.from)}\n${request.id}`)
    .digest('base64url');
  return `r${hash.slice(0, 32)}`;
}

/** With `ts` (Unix seconds) and the node's signature (REDSYN "Firmas"). Throws when the envelope has no canonical form. */
export function signedEnvelope(
  envelope: Record<string, unknown>,
  keys: NodeKeys,
  now: number,
): Record<string, unknown> {
  const full = { ...envelope, ts: Math.floor(now / 1000) };
  const sig = signEnvelope(full as unknown as SignableEnvelope, keys.signing);
  if (sig instanceof Refusal) throw new TypeError(sig.words);
  return { ...full, sig };
}

/**
 * Whose key signed what the envelope says, checked without trusting the relay; a string says why not. Whether that key is the
 * person's is for the pins to say. `sameOrg` tells whether two names of an org mean the same one.
 */
export function verify(
  envelope: DeliveredEnvelope,
  sameOrg?: (signed: string, shown: string) => boolean,
): Signer | string {
  const checked = verifyDelivered(envelope as unknown as SealedEnvelope, sameOrg);
  if (checked instanceof Refusal) return checked.words;
  return {
    person: personOf(envelope.from),
    key: checked.key.raw.toString('base64url'),
    fingerprint: checked.fingerprint,
  };
}

export function bodyOf({ text, data, body }: Pick<Outgoing, 'text' | 'data' | 'body'>): Body {
  if (body) return body;
  return data === undefined ? { type: 'text/plain', text: text ?? '' } : { type: 'application/json', data };
}

export function readAnswer(answer: Answer): FullAnswer {
  if (typeof answer === 'string' || answer === undefined) return { body: { type: 'text/plain', text: answer ?? '' } };
  if (typeof answer.body === 'object' && answer.body !== null) return answer as FullAnswer;
  return { body: answer as Body };
}

export function textOf({ text, data }: Body): string {
  return text ?? (data === undefined ? '' : JSON.stringify(data));
}
