import type { Envelope } from '../../exchange/message.ts';
import { redsynFingerprint } from '../../identity/redsyn-seal.ts';

/** What a delivered envelope shows beside what its sender wrote (REDSYN "El sobre"). Times in milliseconds. */
export interface DeliveredFacts {
  id: string;
  from: string;
  to: string;
  thread: string;
  replyTo: string | null;
  envelope: string;
  sigPayload: string | null;
  sigNode: string | null;
  a2a: string | null;
  /** Of an event. */
  topic: string | null;
  createdAt: number;
  expiresAt: number;
  attempts?: number;
}

/**
 * An envelope as an agent receives it. What the sender wrote stands as it is, but for the address with its session, the thread as this agent
 * knows it and what the relay adds; `sig.payload` holds the text that was signed.
 */
export function deliveredEnvelope(facts: DeliveredFacts): Record<string, unknown> {
  const written = JSON.parse(facts.envelope) as Envelope;
  const signed = facts.sigPayload !== null;
  return {
    ...written,
    v: 1,
    id: facts.id,
    from: facts.from,
    to: facts.to,
    thread: facts.thread,
    reply_to: facts.replyTo,
    ts: written.ts ?? Math.floor(facts.createdAt / 1000),
    refs: written.refs ?? [],
    error: written.error ?? false,
    ...(facts.topic !== null && { topic: facts.topic }),
    expires: Math.floor(facts.expiresAt / 1000),
    ...(facts.attempts !== undefined && { attempts: facts.attempts }),
    signed,
    sig:
      signed && written.sig
        ? {
            ...written.sig,
            payload: facts.sigPayload,
            node: facts.sigNode,
            fingerprint: redsynFingerprint(written.sig.key),
          }
        : null,
    ...(facts.a2a !== null && { a2a: JSON.parse(facts.a2a) as unknown }),
  };
}
