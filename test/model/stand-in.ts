import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Lifetime } from '../support/database.ts';

/** What the model says next. */
export interface Said {
  text?: string;
  calls?: Array<{ name: string; args: unknown }>;
  stop?: 'length';
  /** Without: none is told. */
  tokens?: number;
}

/** A call as it came: whichever API it is of. */
export interface Asked {
  path: string;
  headers: Record<string, string | string[] | undefined>;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into what was asked
  body: any;
  text: string;
  /** Names of the tools that were offered. */
  tools: string[];
  system: string;
}

export type Reaction = Said | ((response: ServerResponse, asked: Asked) => unknown);

/** A server that speaks the APIs of OpenAI, Anthropic and Tavily and says what a test has it say; else it repeats the question. */
export interface StandIn {
  readonly url: string;
  readonly asked: Asked[];
  /** Said in turn, once each. */
  next(...reactions: Reaction[]): void;
  /** What it makes of a turn when it is asked for facts to remember. */
  facts: string[];
  /** What the web search finds. */
  web: Array<{ title: string; url: string; content: string }>;
}

export async function standIn(lifetime: Lifetime): Promise<StandIn> {
  const asked: Asked[] = [];
  const queue: Reaction[] = [];
  const state: Pick<StandIn, 'facts' | 'web'> = { facts: [], web: [] };
  const server = createServer(async (request, response) => {
    response.on('error', () => {});
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const one = read(request.url ?? '', request.headers, Buffer.concat(chunks).toString());
    asked.push(one);
    if (one.path === '/search') return json(response, 200, { results: state.web });
    const wantsFacts = one.system.startsWith('Below is a question and its answer');
    const reaction = wantsFacts
      ? { text: JSON.stringify(state.facts), tokens: 3 }
      : (queue.shift() ?? { text: `You asked: ${lastText(one.body)}`, tokens: 10 });
    if (typeof reaction === 'function') return reaction(response, one);
    say(response, one, reaction);
  });
  await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve));
  lifetime.after(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const url = `http://localhost:${(server.address() as AddressInfo).port}`;
  return Object.assign(state, { url, asked, next: (...reactions: Reaction[]) => void queue.push(...reactions) });
}

/** In the form that was asked for. */
export function say(response: ServerResponse, { path, body }: Asked, said: Said): void {
  const isOpenai = path.endsWith('/chat/completions');
  if (body.stream) {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const event of isOpenai ? openaiEvents(said) : anthropicEvents(said)) response.write(event);
    response.end();
  } else {
    json(response, 200, isOpenai ? openaiWhole(said) : anthropicWhole(said));
  }
}

export function json(
  response: ServerResponse,
  status: number,
  value: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));
}

function read(path: string, headers: Asked['headers'], text: string): Asked {
  const body = JSON.parse(text || '{}');
  const tools = (body.tools ?? []).map(
    (tool: { name?: string; function?: { name: string } }) => tool.name ?? tool.function?.name,
  );
  const system = body.system ?? body.messages?.find((each: { role: string }) => each.role === 'system')?.content ?? '';
  return { path, headers, body, text, tools, system };
}

function lastText(body: { messages: Array<{ content: unknown }> }): string {
  const { content } = body.messages.at(-1)!;
  return typeof content === 'string' ? content : JSON.stringify(content);
}

const pieces = (text: string): string[] => text.match(/[\s\S]{1,7}/g) ?? [];

function openaiEvents({ text = '', calls = [], stop, tokens }: Said): string[] {
  const choice = (delta: object, finish_reason: string | null = null): object => ({
    choices: [{ index: 0, delta, finish_reason }],
  });
  return [
    choice({ role: 'assistant', content: '' }),
    ...pieces(text).map((content) => choice({ content })),
    ...calls.flatMap(({ name, args }, index) => [
      choice({ tool_calls: [{ index, id: `call_${index}`, type: 'function', function: { name, arguments: '' } }] }),
      ...pieces(JSON.stringify(args)).map((part) => choice({ tool_calls: [{ index, function: { arguments: part } }] })),
    ]),
    choice({}, stop ?? (calls.length > 0 ? 'tool_calls' : 'stop')),
    ...(tokens === undefined
      ? []
      : [{ choices: [], usage: { prompt_tokens: tokens - 1, completion_tokens: 1, total_tokens: tokens } }]),
  ]
    .map((event) => `data: ${JSON.stringify(event)}\n\n`)
    .concat('data: [DONE]\n\n');
}

function openaiWhole({ text = '', calls = [], stop, tokens }: Said): object {
  const tool_calls = calls.map(({ name, args }, i) => ({
    id: `call_${i}`,
    type: 'function',
    function: { name, arguments: JSON.stringify(args) },
  }));
  return {
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: text || null, ...(calls.length > 0 && { tool_calls }) },
        finish_reason: stop ?? (calls.length > 0 ? 'tool_calls' : 'stop'),
      },
    ],
    ...(tokens !== undefined && { usage: { total_tokens: tokens } }),
  };
}

function anthropicEvents({ text = '', calls = [], stop, tokens = 2 }: Said): string[] {
  const events: Array<{ type: string; [more: string]: unknown }> = [
    {
      type: 'message_start',
      message: { role: 'assistant', content: [], usage: { input_tokens: tokens - 1, output_tokens: 0 } },
    },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'ping' },
    ...pieces(text).map((part) => ({
      type: 'content_block_delta',
      index: 0,
      delta: { type: 'text_delta', text: part },
    })),
    { type: 'content_block_stop', index: 0 },
    ...calls.flatMap(({ name, args }, i) => [
      {
        type: 'content_block_start',
        index: i + 1,
        content_block: { type: 'tool_use', id: `toolu_${i}`, name, input: {} },
      },
      ...pieces(JSON.stringify(args)).map((part) => ({
        type: 'content_block_delta',
        index: i + 1,
        delta: { type: 'input_json_delta', partial_json: part },
      })),
      { type: 'content_block_stop', index: i + 1 },
    ]),
    { type: 'message_delta', delta: { stop_reason: reasonOf(stop, calls.length) }, usage: { output_tokens: 1 } },
    { type: 'message_stop' },
  ];
  return events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
}

function anthropicWhole({ text = '', calls = [], stop, tokens = 2 }: Said): object {
  return {
    type: 'message',
    role: 'assistant',
    content: [
      ...(text === '' ? [] : [{ type: 'text', text }]),
      ...calls.map(({ name, args }, i) => ({ type: 'tool_use', id: `toolu_${i}`, name, input: args })),
    ],
    stop_reason: reasonOf(stop, calls.length),
    usage: { input_tokens: tokens - 1, output_tokens: 1 },
  };
}

function reasonOf(stop: 'length' | undefined, calls: number): string {
  return stop === 'length' ? 'max_tokens' : calls > 0 ? 'tool_use' : 'end_turn';
}
