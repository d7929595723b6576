import assert from 'node:assert/strict';
import { after, it, type TestContext } from 'node:test';
import fc from 'fast-check';
import { ManualClock, systemClock } from '../../src/lib/clock.ts';
import { EventStream } from '../../src/lib/event-stream.ts';
import { createFetch } from '../../src/lib/fetch.ts';
import { DialectFault } from '../../src/model/dialects/types.ts';
import { type CallOptions, complete } from '../../src/model/endpoint.ts';
import { chunksOf } from '../../src/model/knowledge/chunks.ts';
import type { Endpoint } from '../../src/model/settings/index.ts';
import { providers } from '../../src/model/settings/providers.ts';
import { toolsFor } from '../../src/model/tools.ts';
import { queryOf, wordsOf } from '../../src/model/words.ts';
import { eventually } from '../support/gateway.ts';
import { json, type Said, say, standIn } from './stand-in.ts';

const model = await standIn({ after });

function endpoint(more: Partial<Endpoint> = {}): Endpoint {
  const standard: Endpoint = {
    provider: 'openai',
    baseUrl: model.url,
    model: 'm',
    key: 'k',
    system: '',
    maxTokens: 100,
    streams: true,
    remembers: false,
    search: null,
  };
  return { ...standard, ...more };
}

const request = { system: '', messages: [{ role: 'user' as const, text: 'hi' }], tools: [], mayCall: true };

function options(t: TestContext, more: Partial<Omit<CallOptions, 'clock'>> = {}): CallOptions & { clock: ManualClock } {
  const clock = new ManualClock(1_000_000);
  // Connections run on the time of the world; the turn's limits on ours.
  const fetch = createFetch({ allowLoopback: true, clock });
  t.after(() => fetch.close());
  return {
    fetch,
    clock,
    signal: new AbortController().signal,
    deadline: clock.now() + 180_000,
    mostText: 60_000,
    ...more,
  };
}

const failureOf = (result: object): { code: string; detail: string; restMs?: number } => {
  assert.ok('failure' in result, JSON.stringify(result));
  return result.failure as { code: string; detail: string };
};
const arrived = (count: number) => eventually(`${count} calls at the model`, async () => model.asked.length >= count);

it('an endpoint that hangs is given up after 45 s without a byte, before and in the middle of an answer', async (t) => {
  for (const hang of [
    () => undefined,
    (response: import('node:http').ServerResponse) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(`data: ${JSON.stringify({ choices: [{ delta: { content: 'I' } }] })}\n\n`);
    },
  ]) {
    const told: string[] = [];
    const of = options(t, { onText: (text) => told.push(text) });
    const before = model.asked.length;
    model.next(hang);
    const result = complete(endpoint(), request, of);
    await arrived(before + 1);
    if (hang.length > 0) await eventually('the first word', async () => told.length > 0);
    of.clock.advance(44_000);
    of.clock.advance(2_000);
    assert.deepEqual(failureOf(await result), { code: 'agent_error', detail: 'the endpoint did not answer in time' });
    assert.equal(model.asked.length, before + 1, 'not asked again: it may be at work');
  }
});

it('what trickles for ever ends with the turn', async (t) => {
  const of = options(t, { deadline: 1_000_000 + 60_000 });
  model.next((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const timer = setInterval(() => response.write(': still thinking\n\n'), 2);
    response.on('close', () => clearInterval(timer));
  });
  const result = complete(endpoint(), request, of);
  let ended = false;
  void result.finally(() => (ended = true));
  await eventually('the end of the turn', async () => {
    of.clock.advance(5_000);
    return ended;
  });
  assert.match(failureOf(await result).detail, /in time/);
});

it('429 and 5xx are tried again, as Retry-After says; a long one ends the turn and lets the endpoint rest', async (t) => {
  const of = options(t);
  const before = model.asked.length;
  const busy = (status: number, after?: string) => (response: import('node:http').ServerResponse) =>
    json(response, status, { error: 'busy' }, after === undefined ? {} : { 'retry-after': after });
  model.next(busy(429, '15'), busy(529), { text: 'At last.', tokens: 5 });
  const result = complete(endpoint(), request, of);
  await arrived(before + 1);
  await new Promise((resolve) => setTimeout(resolve, 50));
  of.clock.advance(14_000);
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(model.asked.length, before + 1, 'not before its time');
  of.clock.advance(1_100);
  await arrived(before + 2);
  await eventually('the third call', async () => {
    of.clock.advance(500);
    return model.asked.length === before + 3;
  });
  assert.deepEqual(await result, { text: 'At last.', calls: [], stop: 'end', tokens: 5 });

  model.next(busy(429, '120'));
  assert.deepEqual(failureOf(await complete(endpoint(), request, of)), {
    code: 'agent_error',
    detail: 'the endpoint is busy (HTTP 429)',
    restMs: 120_000,
  });
});

for (const [what, status, type, body] of [
  ['garbage in a stream', 200, 'text/event-stream', 'data: {"choices":[{"delta":\n\n'],
  ['a stream of something else', 200, 'text/event-stream', 'data: [1,2]\n\n'],
  ['binary noise', 200, 'text/event-stream', '\u0000\uffff\n\n\n\ndata:\u0000\n\n'],
  ['a stream that breaks off', 200, 'text/event-stream', 'data: {"choices":[{"delta":{"content":"I am"}}]}\n\n'],
  ['an error in the stream', 200, 'text/event-stream', 'data: {"error":{"message":"sk-leak"}}\n\n'],
  ['an empty answer', 200, 'application/json', ''],
  ['a web page', 200, 'text/html', '<html>sk-leak</html>'],
  ['JSON of another kind', 200, 'application/json', '{"hello":"sk-leak"}'],
  ['a redirect', 307, 'text/plain', 'sk-leak'],
  ['a refusal of the key', 401, 'application/json', '{"error":"sk-leak"}'],
  ['a refusal of the call', 400, 'application/json', '{"error":"sk-leak"}'],
] as const) {
  it(`${what} is agent_error, and nothing of it is repeated`, async (t) => {
    for (const provider of ['openai', 'anthropic'] as const) {
      model.next(
        (response) =>
          void response.writeHead(status, { 'content-type': type, location: 'http://localhost:1/' }).end(body),
      );
      const { code, detail } = failureOf(await complete(endpoint({ provider }), request, options(t)));
      assert.equal(code, 'agent_error', detail);
      assert.doesNotMatch(detail, /sk-leak/);
    }
  });
}

it('an answer that does not end is cut, and no more of it is fetched', async (t) => {
  let written = 0;
  model.next((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const piece = `data: ${JSON.stringify({ choices: [{ delta: { content: 'wörd '.repeat(200) } }] })}\n\n`;
    const more = (): void => {
      while (!response.destroyed && response.write(piece)) written += piece.length;
    };
    response.on('drain', more);
    more();
  });
  const result = await complete(endpoint(), request, options(t));
  assert.ok('text' in result && result.stop === 'length' && result.text.length > 50_000);
  assert.ok(written < 8 * 1024 * 1024, `${written} bytes`);
});

it('the guard: no plain http to elsewhere, no private address', async (t) => {
  const fetch = createFetch({ allowLoopback: false, clock: systemClock });
  t.after(() => fetch.close());
  for (const baseUrl of ['http://example.com', 'http://localhost:1', 'https://127.0.0.1', 'https://localhost']) {
    const { code, detail } = failureOf(await complete(endpoint({ baseUrl }), request, { ...options(t), fetch }));
    assert.deepEqual([code, detail], ['invalid_base_url', 'the base URL leads to no public https address'], baseUrl);
  }
});

it('what a peer is offered is less, and web search only with a key', () => {
  const names = (audience: 'owner' | 'peer', web: boolean): string[] =>
    toolsFor(audience, web ? { url: '', key: '' } : null).map(({ name }) => name);
  assert.deepEqual(names('peer', true), ['search_knowledge_base', 'list_knowledge_bases', 'web_search']);
  assert.deepEqual(names('peer', false), ['search_knowledge_base', 'list_knowledge_bases']);
  assert.deepEqual(names('owner', true), [
    'search_knowledge_base',
    'list_knowledge_bases',
    'web_search',
    'search_memory',
    'list_contacts',
  ]);
});

const said = fc.record({
  text: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 80 }),
  calls: fc.array(
    fc.record({
      name: fc.constantFrom('a', 'b'),
      args: fc.dictionary(fc.constantFrom('x', 'y'), fc.string({ unit: 'grapheme' })),
    }),
    { maxLength: 3 },
  ),
  tokens: fc.integer({ min: 2, max: 1_000 }),
});

it('however a stream is cut into packets, it reads as the whole answer does', () => {
  for (const provider of ['openai', 'anthropic'] as const) {
    const { dialect } = providers[provider];
    fc.assert(
      fc.property(said, fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }), (answer: Said, cuts) => {
        const bytes = Buffer.from(written(dialect.path(''), answer, true));
        const reader = dialect.reader();
        let told = '';
        const events = new EventStream((data) => (told += reader.event(data)));
        for (let at = 0, i = 0; at < bytes.length; i++) {
          const size = cuts[i % cuts.length]!;
          events.push(bytes.subarray(at, at + size));
          at += size;
        }
        const streamed = reader.finish();
        const whole = dialect.reader();
        whole.whole(JSON.parse(written(dialect.path(''), answer, false)));
        assert.deepEqual(streamed, whole.finish());
        assert.equal(told, answer.text);
        assert.equal(streamed.calls.length, answer.calls?.length);
      }),
    );
  }
});

it('whatever an endpoint says, it is an answer or a DialectFault', () => {
  for (const { dialect } of Object.values(providers)) {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.json(), fc.string(), shaped)), (events) => {
        const reader = dialect.reader();
        try {
          for (const data of events) reader.event(data);
          reader.finish();
        } catch (error) {
          assert.ok(error instanceof DialectFault, String(error));
        }
      }),
    );
  }
});

const shaped = fc
  .record(
    {
      type: fc.constantFrom('message_start', 'content_block_start', 'content_block_delta', 'message_delta', 'error'),
      index: fc.oneof(fc.nat(3), fc.anything()),
      delta: fc.anything(),
      content_block: fc.oneof(fc.anything(), fc.constant({ type: 'tool_use' })),
      message: fc.anything(),
      choices: fc.array(
        fc.record({
          delta: fc.record({ content: fc.anything(), tool_calls: fc.anything() }),
          finish_reason: fc.anything(),
        }),
      ),
      usage: fc.anything(),
    },
    { requiredKeys: [] },
  )
  .map((value) => {
    try {
      return JSON.stringify(value) ?? '';
    } catch {
      return '';
    }
  });

it('pieces of a document hold all of its words in order, none too long', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          fc.string({ unit: 'grapheme', maxLength: 4_000 }),
          fc.constantFrom('\n\n', '\n', '# A\n\n', '## B\n', '\f', ' '),
        ),
      ),
      (parts) => {
        const text = parts.join('');
        const chunks = chunksOf(text);
        const bare = (of: string): string => of.replace(/\s/g, '');
        assert.equal(bare(chunks.map((chunk) => chunk.text).join('')), bare(text));
        assert.ok(
          chunks.every(
            (chunk) => chunk.text.length <= 1_800 && chunk.place.length <= 160 && !/\p{Surrogate}/u.test(chunk.text),
          ),
        );
      },
    ),
  );
});

it('places: pages of pdftotext, and headings one beneath the other', () => {
  assert.deepEqual(
    chunksOf('one\fsecond page').map(({ place }) => place),
    ['p. 1', 'p. 2'],
  );
  assert.deepEqual(
    chunksOf('# Manual #\n\nhello\n\n## Wiring\n\nred\n\n# Index\n\nx').map(({ place }) => place),
    ['Manual', 'Manual › Wiring', 'Index'],
  );
  assert.deepEqual(chunksOf('# Manual\n\n## Wiring\n\nred\n\n# Index'), [
    { place: 'Manual › Wiring', text: '# Manual\n\n## Wiring\n\nred' },
    { place: 'Index', text: '# Index' },
  ]);
});

it('words meet however they are written', () => {
  assert.deepEqual(wordsOf('Montaña X-100, ＡＢＣ'), ['montana', 'x', '100', 'abc']);
  assert.deepEqual(wordsOf('电压范围'), ['电压', '压范', '范围']);
  assert.equal(queryOf('What is the voltage of the invoices?'), 'voltage:* | invoice:*');
  assert.equal(queryOf('the of'), 'the | of', 'when there is nothing else');
  assert.equal(queryOf('?!'), '');
});

function written(path: string, answer: Said, stream: boolean): string {
  const parts: string[] = [];
  const keep = (chunk = ''): void => void parts.push(chunk);
  const response = { writeHead: () => response, write: keep, end: keep };
  say(response as never, { path, body: { stream } } as never, answer);
  return parts.join('');
}
