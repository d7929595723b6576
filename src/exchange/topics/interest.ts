import { isName } from '../../directory/names.ts';
import { type Refusal, refuse } from '../../lib/refusal.ts';

/** `POST /federation/v1/subscriptions`: whether the org `for` behind the caller listens to a topic of `org` here. */
export interface InterestMessage {
  org: string;
  for: string;
  team: string;
  name: string;
  on: boolean;
  /** Of the caller's: older news is passed over. */
  rev: number;
}

/** Unknown fields are passed over. */
export function readInterest(value: unknown): InterestMessage | Refusal {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return refuse('malformed_request', 'The body must be a JSON object.');
  }
  const { v, org, for: theirs, topic, on, rev } = value as Record<string, unknown>;
  if (v !== 1) return refuse('unknown_version', undefined, { data: { known: [1] } });
  if (typeof org !== 'string' || !isName(org)) return invalid('org');
  if (typeof theirs !== 'string' || !isName(theirs)) return invalid('for');
  const [team, name, ...more] = typeof topic === 'string' && topic.length <= 210 ? topic.split('/') : [];
  if (!team || !name || more.length > 0 || !isName(team) || !isName(name)) return invalid('topic');
  if (typeof on !== 'boolean') return invalid('on');
  // Far below 2^53, so that counting on never leaves what a double can hold.
  if (!Number.isSafeInteger(rev) || (rev as number) < 1 || (rev as number) >= 2 ** 50) return invalid('rev');
  return { org, for: theirs, team, name, on, rev: rev as number };
}

function invalid(field: string): Refusal {
  return refuse('invalid_field', `\`${field}\` is not valid.`, { data: { field } });
}
