import { Refusal } from '../lib/refusal.ts';
import { readA2aBody } from './a2a-body.ts';
import type { Envelope } from './message.ts';
import type { ExchangeState } from './types.ts';

/**
 * Why an agent could not take its turn (confer.md "No poder responder también es una respuesta"). A failing reply says it in `body.data.error`; without
 * it, it is `agent_error`.
 */
export const turnFailures = [
  'no_model_configured',
  'unknown_provider',
  'no_key_for_provider',
  'invalid_base_url',
  'agent_error',
] as const;
export type TurnFailure = (typeof turnFailures)[number];

/** The code that a failing answer names, as one of ours. */
export function turnFailure(code: unknown): TurnFailure {
  return turnFailures.find((known) => known === code) ?? 'agent_error';
}

/** Reasons of a failed end that this gateway gives itself. */
export type EndReason = TurnFailure | 'expired' | 'worn_out' | 'node_gone' | 'refused' | 'unreachable';

/** What a progress or a reply makes of its exchange (design §1): a question asks for input, an error fails, any other reply completes; a body of A2A says it itself. */
export function stateAfter(envelope: Envelope): { state: ExchangeState; reason: string | null } {
  const a2a = readA2aBody(envelope);
  // A body that is none was refused before.
  if (a2a?.status && !(a2a instanceof Refusal)) {
    const { state } = a2a.status;
    return { state, reason: state === 'failed' ? 'agent_error' : null };
  }
  if (envelope.kind === 'reply') {
    if (envelope.error !== true) return { state: 'completed', reason: null };
    return {
      state: 'failed',
      reason: turnFailure((envelope.body.data as { error?: unknown } | null | undefined)?.error),
    };
  }
  const data = envelope.body.data;
  const asks = typeof data === 'object' && data !== null && 'question' in data;
  return { state: asks ? 'input_required' : 'working', reason: null };
}
