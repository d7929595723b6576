import { z } from 'zod';
import type { Fetch } from '../lib/fetch-types.ts';
import type { Log } from '../lib/log.ts';
import type { ToolCall, ToolOffer, ToolResult } from './dialects/types.ts';
import type { Knowledge } from './knowledge/index.ts';
import type { Memory } from './memory/index.ts';
import type { Endpoint } from './settings/index.ts';
import type { Audience, Citation } from './types.ts';
import { searchWeb } from './web-search.ts';

/** What tools reach. Each takes the audience itself, so that a tool that is wrongly offered still finds nothing that is not for it. */
export interface Sources {
  knowledge: Pick<Knowledge, 'search' | 'visible'>;
  memory: Pick<Memory, 'search'>;
  contacts(
    audience: Audience,
    owner: string,
  ): Promise<ReadonlyArray<{ did: string; name: string; alias: string | null }>>;
  fetch: Fetch;
}

/** One turn, as its tools see it. */
export interface Turn {
  owner: string;
  web: Endpoint['search'];
  sources: Sources;
  signal: AbortSignal;
}

interface Found {
  content: string;
  citations?: readonly Citation[];
}

interface Tool<Args> extends ToolOffer {
  audiences: readonly Audience[];
  needsWeb?: boolean;
  args: z.ZodType<Args>;
  run(audience: Audience, args: Args, turn: Turn): Promise<Found>;
}

const everybody = ['owner', 'peer'] as const;
const ownerAlone = ['owner'] as const;
const query = z.object({ query: z.string().min(1).max(1_000), knowledge_base: z.string().max(100).nullish() });
const queryParameter = { type: 'string', description: 'What to look for: a few telling words' };

const tools = [
  tool({
    name: 'search_knowledge_base',
    description:
      "Searches the owner's documents. Use it before you answer about her products, prices, processes or projects.",
    audiences: everybody,
    parameters: object(
      { query: queryParameter, knowledge_base: { type: 'string', description: 'Only this one; leave out for all' } },
      ['query'],
    ),
    args: query,
    async run(audience, { query: question, knowledge_base: base }, { owner, sources }) {
      const found = await sources.knowledge.search(audience, { owner, question, ...(base && { base }) });
      if (found.length === 0) return { content: 'Nothing was found.' };
      return {
        content: found.map((each) => `[${sourceOf(each)}]\n${each.text}`).join('\n\n---\n\n'),
        citations: found.map((each) => ({ source: sourceOf(each), ...(each.url !== null && { url: each.url }) })),
      };
    },
  }),
  tool({
    name: 'list_knowledge_bases',
    description: 'Names the knowledge bases that can be searched.',
    audiences: everybody,
    parameters: object({}),
    args: z.object({}),
    async run(audience, _args, { owner, sources }) {
      const bases = await sources.knowledge.visible(audience, owner);
      return {
        content: bases.map(({ name, documents }) => `${name} (${documents} documents)`).join('\n') || 'There are none.',
      };
    },
  }),
  tool({
    name: 'web_search',
    description: 'Searches the web. Never put into the query what somebody told you in confidence.',
    audiences: everybody,
    needsWeb: true,
    parameters: object({ query: queryParameter }, ['query']),
    args: query,
    async run(_audience, { query: asked }, { web, sources, signal }) {
      const results = web && (await searchWeb(web, asked, { fetch: sources.fetch, signal }));
      if (!results) return { content: 'The search could not be made.' };
      return {
        content:
          results.map(({ title, url, content }) => `[${title}] ${url}\n${content}`).join('\n\n') ||
          'Nothing was found.',
        citations: results.map(({ title, url }) => ({ source: title, url })),
      };
    },
  }),
  tool({
    name: 'search_memory',
    description: 'Searches what you learnt in earlier conversations, with whom and when.',
    audiences: ownerAlone,
    parameters: object({ query: queryParameter }, ['query']),
    args: query,
    async run(audience, { query: question }, { owner, sources }) {
      const found = await sources.memory.search(audience, { owner, question, limit: 10 });
      return { content: found.map(rememberedLine).join('\n') || 'Nothing was found.' };
    },
  }),
  tool({
    name: 'list_contacts',
    description: "Lists the owner's contacts: names, and the DIDs of their agents.",
    audiences: ownerAlone,
    parameters: object({}),
    args: z.object({}),
    async run(audience, _args, { owner, sources }) {
      const contacts = await sources.contacts(audience, owner);
      return {
        content:
          contacts.map(({ did, name, alias }) => `${alias ?? (name || 'unnamed')}: ${did}`).join('\n') ||
          'There are none.',
      };
    },
  }),
] as const;

/** What a model is offered. That it is not offered a tool keeps it from nothing: see `executeToolCall`. */
export function toolsFor(audience: Audience, web: Endpoint['search']): ToolOffer[] {
  return tools
    .filter((each) => each.audiences.some((one) => one === audience) && (web !== null || !each.needsWeb))
    .map(({ name, description, parameters }) => ({ name, description, parameters }));
}

/**
 * Runs what a model asks for. It may name a tool that it was never offered (confer.md: "no ofrecer una herramienta no es control de acceso"), so the
 * audience is asked again here, and by what the tool reaches. A call that fails tells the model so; `citations`: where what it found comes from.
 */
export async function executeToolCall(
  audience: Audience,
  call: ToolCall,
  turn: Turn,
  log: Pick<Log, 'warn'>,
): Promise<{ result: ToolResult; citations: readonly Citation[] }> {
  const wrong = (content: string) => ({ result: { id: call.id, content, isError: true }, citations: [] });
  const found = tools.find(({ name }) => name === call.name);
  const isAllowed = found?.audiences.some((one) => one === audience) && (turn.web !== null || !found.needsWeb);
  if (!found || !isAllowed) {
    if (found) log.warn({ tool: found.name, audience }, 'a model asked for a tool that its audience does not have');
    return wrong('There is no such tool.');
  }
  const args = found.args.safeParse(jsonOf(call.argumentsText));
  if (!args.success) return wrong('The arguments are not what the tool takes.');
  const { content, citations = [] } = await found.run(audience, args.data as never, turn);
  return { result: { id: call.id, content: content.slice(0, mostResult), isError: false }, citations };
}

const mostResult = 16_000;

/** With where it comes from: what somebody else said is no fact. */
export function rememberedLine({
  text,
  origin,
  source,
  createdAt,
}: {
  text: string;
  origin: Audience;
  source: string;
  createdAt: number;
}): string {
  const day = new Date(createdAt).toISOString().slice(0, 10);
  return `- ${text} (${origin === 'owner' ? 'from you' : `claimed by ${source}`}, ${day})`;
}

function sourceOf({ document, place }: { document: string; place: string }): string {
  return place === '' ? document : `${document} ${place.startsWith('p. ') ? '' : '§ '}${place}`;
}

function tool<Args>(of: Tool<Args>): Tool<Args> {
  return of;
}

function object(properties: Record<string, unknown>, required: readonly string[] = []): Record<string, unknown> {
  return { type: 'object', properties, required, additionalProperties: false };
}

/** Some models write nothing where there are no arguments. */
function jsonOf(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
