import { Refusal } from '../lib/refusal.ts';
import { readA2aBody } from './a2a-body.ts';
import type { Envelope } from './message.ts';
import type { ExchangeState } from './types.ts';

/** Reasons of a failed end that this gateway gives itself. */
export type EndReason = 'agent_error' | 'expired' | 'worn_out' | 'node_gone' | 'refused' | 'unreachable';

/** What a progress or a reply makes of its exchange (design §1): a question asks for input, an error fails, any other reply completes; a body of A2A says it itself. */
export function stateAfter(envelope: Envelope): { state: ExchangeState; reason: string | null } {
  const a2a = readA2aBody(envelope);
  // A body that is none was refused before.
  if (a2a?.status && !(a2a instanceof Refusal)) {
    const { state } = a2a.status;
    return { state, reason: state === 'failed' ? 'agent_error' : null };
  }
  if (envelope.kind === 'reply') {
    return envelope.error === true ? { state: 'failed', reason: 'agent_error' } : { state: 'completed', reason: null };
  }
  const data = envelope.body.data;
  const asks = typeof data === 'object' && data !== null && 'question' in data;
  return { state: asks ? 'input_required' : 'working', reason: null };
}
