import { type Refusal, type RefusalCode, refuse } from '../lib/refusal.ts';
import type { GateDeps } from './facts.ts';

/**
 * What an outsider is told about everything it may not see. A missing agent, a hidden one, a missing org and a link that is not active are
 * found out by different gates; one code, one sentence and one gate's name keep them one thing to whoever asks (FED-06).
 */
export function unseen(): Refusal {
  return refuse('address_not_found').by('address');
}

/** The same for consent: a blocked contact, a blocked domain and a request that nobody has answered look alike. */
export function pending(): Refusal {
  return refuse('pending_connection').by('consent');
}

/** The same for callers without a proof: whether the agent is missing or takes only known senders is not theirs to learn. Says how to qualify. */
export function unauthenticated(self: GateDeps['self'], code: RefusalCode = 'unauthenticated'): Refusal {
  return refuse(code, undefined, {
    data: {
      authorization: 'Bearer <node token>',
      authority: self.authorities[0],
      // RFC 9421 §5.1
      accept_signature:
        'sig1=("@method" "@authority" "@path" "@query" "content-digest" "date");created;keyid;alg="ed25519"',
    },
  }).by('authenticate');
}
