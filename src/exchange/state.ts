import type { Envelope } from './message.ts';
import type { ExchangeState } from './types.ts';

/** Reasons of a failed end that this gateway gives itself. */
export type EndReason = 'agent_error' | 'expired' | 'worn_out' | 'node_gone' | 'refused' | 'unreachable';

/** What a progress or a reply makes of its exchange (design §1): a question asks for input, an error fails, any other reply completes. */
export function stateAfter(envelope: Envelope): { state: ExchangeState; reason: string | null } {
  if (envelope.kind === 'reply') {
    return envelope.error === true ? { state: 'failed', reason: 'agent_error' } : { state: 'completed', reason: null };
  }
  const data = envelope.body.data;
  const asks = typeof data === 'object' && data !== null && 'question' in data;
  return { state: asks ? 'input_required' : 'working', reason: null };
}
