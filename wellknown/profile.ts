import type { Agent } from '../src/directory/types.ts';

/** A skill as cards list it (A2A §4.4.5). */
export interface Skill {
  id: string;
  name: string;
  description: string;
  tags: string[];
  examples?: string[];
  inputModes?: string[];
  outputModes?: string[];
}

/** What an agent says about itself in its announcement: anything at all, so every field is checked and bounded here. */
export interface Profile {
  name: string;
  description: string;
  version: string;
  /** BCP 47; `und` when the agent does not say. */
  language: string;
  skills: Skill[];
  /** AgentFacts capabilities (confer.md "AgentFacts"). */
  capabilities: { type: string; scope: string[]; languages: string[] }[];
}

const maxSkills = 32;
const maxCapabilities = 64;

export function profileOf(agent: Agent): Profile {
  const { profile } = agent;
  const name = text(profile.name, 128) ?? agent.handle;
  const description =
    agent.description === '' ? `The agent ${name} of ${agent.user} at ${agent.org}.` : agent.description;
  const languages = texts(profile.languages, 16, 35);
  return {
    name,
    description,
    version: text(profile.version, 64) ?? '1.0.0',
    language: text(profile.primary_language, 35) ?? languages[0] ?? 'und',
    skills: skills(profile.skills, description),
    capabilities: capabilities(profile.capabilities),
  };
}

/** A card lists at least one skill: without any of its own an agent can be asked in plain words. */
function skills(value: unknown, description: string): Skill[] {
  const seen = new Set<string>();
  const own = items(value, maxSkills).flatMap((item): Skill[] => {
    const id = text(item.id, 128);
    const name = text(item.name, 128) ?? id;
    if (id === undefined || name === undefined || seen.has(id)) return [];
    seen.add(id);
    return [
      {
        id,
        name,
        description: text(item.description, 2000) ?? name,
        tags: texts(item.tags, 32, 64),
        ...list('examples', texts(item.examples, 16, 2000)),
        ...list('inputModes', texts(item.inputModes, 16, 128)),
        ...list('outputModes', texts(item.outputModes, 16, 128)),
      },
    ];
  });
  return own.length > 0 ? own : [{ id: 'ask', name: 'Ask', description, tags: ['ask'] }];
}

function capabilities(value: unknown): Profile['capabilities'] {
  return items(value, maxCapabilities).flatMap((item) => {
    const type = text(item.type, 128);
    return type === undefined
      ? []
      : [{ type, scope: texts(item.scope, 64, 128), languages: texts(item.languages, 64, 35) }];
  });
}

function list<K extends string>(key: K, values: string[]): { [P in K]?: string[] } {
  return (values.length > 0 ? { [key]: values } : {}) as { [P in K]?: string[] };
}

function text(value: unknown, most: number): string | undefined {
  return typeof value === 'string' && value !== '' ? value.slice(0, most) : undefined;
}

function texts(value: unknown, count: number, most: number): string[] {
  return Array.isArray(value) ? value.slice(0, count).flatMap((item) => text(item, most) ?? []) : [];
}

function items(value: unknown, count: number): Record<string, unknown>[] {
  if (!Array.isArray(value)) return [];
  return value.slice(0, count).filter((item) => typeof item === 'object' && item !== null && !Array.isArray(item));
}
