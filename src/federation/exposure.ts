import { isName } from '../directory/names.ts';
import { type Refusal, refuse } from '../lib/refusal.ts';
import type { Exposure } from './types.ts';

const parts: Readonly<Record<Exposure['kind'], number>> = { agent: 3, pub: 2, sub: 2 };

/** Whether one of the exposures of that kind names `path`: `team/user/agent`, or `team/name` for topics. */
export function exposes(exposures: readonly Exposure[], path: string, kind: Exposure['kind'] = 'agent'): boolean {
  return exposures.some((exposure) => exposure.kind === kind && matches(exposure.pattern, path));
}

function matches(pattern: string, path: string): boolean {
  if (pattern === '*') return true;
  return pattern.endsWith('/*') ? path.startsWith(pattern.slice(0, -1)) : pattern === path;
}

/** Reads an exposure (REDSYN "Organizaciones y enlaces"). */
export function readExposure(kind: unknown, pattern: unknown): Exposure | Refusal {
  if (kind !== 'agent' && kind !== 'pub' && kind !== 'sub') return invalid('kind', 'must be `agent`, `pub` or `sub`');
  if (typeof pattern !== 'string' || !isPattern(pattern, parts[kind])) {
    return invalid(
      'pattern',
      kind === 'agent'
        ? 'must be `team/user/agent`, `team/user/*`, `team/*` or `*`'
        : 'must be a topic: `team/name`, `team/*` or `*`',
    );
  }
  return { kind, pattern };
}

/** Names, all of them or fewer with a `*` at the end. */
function isPattern(text: string, length: number): boolean {
  const names = text.length <= 400 ? text.split('/') : [];
  const open = names.at(-1) === '*';
  if (open) names.pop();
  else if (names.length !== length) return false;
  return names.length <= length - (open ? 1 : 0) && names.every(isName);
}

function invalid(field: string, why: string): Refusal {
  return refuse('invalid_field', `\`${field}\` ${why}.`, { data: { field } });
}
