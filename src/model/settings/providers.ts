import { anthropic } from '../dialects/anthropic.ts';
import { openai } from '../dialects/openai.ts';
import type { Dialect } from '../dialects/types.ts';

/** The forms of API that are spoken; any server that speaks one can stand at `base_url`. */
export const providers = {
  openai: { baseUrl: 'https://api.openai.com/v1', dialect: openai },
  anthropic: { baseUrl: 'https://api.anthropic.com', dialect: anthropic },
} as const satisfies Record<string, { baseUrl: string; dialect: Dialect }>;

export type Provider = keyof typeof providers;

export function isProvider(name: string): name is Provider {
  return Object.hasOwn(providers, name);
}
