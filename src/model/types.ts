import type { TurnFailure } from '../exchange/state.ts';

/**
 * For whom a turn is (confer.md "Bandeja de pendientes"): the agent's owner, or anybody else. It decides which tools there are and which data they reach.
 * Required wherever tools or data are reached, with no default: a default would be the permissive one.
 */
export type Audience = 'owner' | 'peer';

/** Where something in an answer comes from: kept with the message as `body.data.citations`. */
export interface Citation {
  source: string;
  url?: string;
}

/** Why there is no answer. */
export interface Failure {
  code: TurnFailure;
  /** For the agent's owner alone: says what to do, and holds nothing that the endpoint said. */
  detail: string;
  /** Milliseconds that the endpoint wants to be left alone. */
  restMs?: number;
}

export function failure(code: TurnFailure, detail: string, restMs?: number): { failure: Failure } {
  return { failure: { code, detail, ...(restMs !== undefined && { restMs }) } };
}

/** What can be stored and signed: without NUL and halves of characters, which a model may write too. */
export function plainText(text: string): string {
  return Buffer.from(text).toString().replaceAll('\0', '');
}
