import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import fc from 'fast-check';
import { wordsOf } from '../../src/model/words.ts';
import { eventually, person, testGateway } from '../support/gateway.ts';
import { json, standIn } from './stand-in.ts';
import { answerTo, ask, key, modelAgent, request } from './support.ts';

const acme = await testGateway({ after });
const model = await standIn({ after });
const other = await standIn({ after });
const mine = 'acme/general/joel/mine';
let ana: Awaited<ReturnType<typeof person>>;

before(async () => {
  await acme.admin.announce(mine);
  ana = await person(acme, 'ana');
});

const put = (address: string, body: object, token?: string) =>
  acme.call('PUT', `/api/v1/agents/${address}/model`, {
    body: { provider: 'openai', model: 'm', ...body },
    ...(token && { token }),
  });
const fieldsOf = (answer: { json: { error: { details?: object; code: string } } }): string[] =>
  Object.keys(answer.json.error.details ?? {});

it('only its owner sets, sees and ends it; others learn no more than they may', async () => {
  const to = await modelAgent(acme, 'owned', { base_url: model.url, system: 'Secret persona' });
  const path = `/api/v1/agents/${to}/model`;
  for (const [method, body] of [
    ['PUT', { provider: 'openai', model: 'm' }],
    ['GET', undefined],
    ['DELETE', undefined],
  ] as const) {
    const hers = await acme.call(method, path, { token: ana.token, ...(body && { body }) });
    assert.deepEqual([hers.status, hers.json.error.code], [403, 'forbidden'], method);
    const nobodys = await acme.call(method, path, { token: null, ...(body && { body }) });
    assert.equal(nobodys.status, 401);
  }
  assert.equal((await put('acme/general/joel/not-there', {})).status, 404);
  assert.equal((await put('acme/general/ana/not-there', {}, ana.token)).status, 404);
  const { json: agents } = await acme.call('GET', '/api/v1/agents');
  const { id } = agents.agents.find((each: { name: string }) => each.name === 'owned');
  const { json: made } = await acme.call('POST', `/api/v1/agents/${id}/keys`);
  const byKey = await acme.call('GET', path, { token: made.api_key });
  assert.equal(byKey.status, 403, 'an agent key decides nothing');
});

it('what is not valid is told by its field', async () => {
  const to = await modelAgent(acme, 'picky', { base_url: model.url });
  for (const [body, field] of [
    [{ provider: 'gemini' }, 'provider'],
    [{ model: '' }, 'model'],
    [{ base_url: 'ftp://example.com' }, 'base_url'],
    [{ base_url: 'https://10.0.0.1/v1' }, 'base_url'],
    [{ base_url: 'https://user:pass@example.com' }, 'base_url'],
    [{ base_url: 'https://example.com/v1?x=1' }, 'base_url'],
    [{ base_url: 'http://example.com' }, 'base_url'],
    [{ key: 'line\nfeed' }, 'key'],
    [{ max_tokens: 0 }, 'max_tokens'],
    [{ system: 'x'.repeat(20_001) }, 'system'],
    [{ web_search: {} }, 'web_search.key'],
    [{ web_search: { key: 'k', url: 'file:///etc/passwd' } }, 'web_search.url'],
  ] as const) {
    const answer = await put(to, body);
    assert.deepEqual(
      [answer.status, answer.json.error?.code, fieldsOf(answer)],
      [400, 'validation_error', [field]],
      JSON.stringify(body),
    );
  }
});

it('a key goes only where it was given for', async () => {
  const to = await modelAgent(acme, 'moving', {
    base_url: model.url,
    web_search: { key: 'tvly-0123456789abcdef', url: model.url },
  });
  const kept = await put(to, { base_url: model.url, system: 'New persona' });
  assert.deepEqual([kept.json.model.key_last4, kept.json.model.web_search.key_last4], ['WXYZ', 'cdef']);
  assert.equal((await put(to, { base_url: model.url, web_search: { url: other.url } })).status, 400);
  const moved = await put(to, { base_url: other.url });
  assert.equal(moved.json.model.key_last4, null);
  assert.equal(moved.json.model.system, 'New persona');
  await ask(acme, { from: mine, to, text: 'Hello?' });
  assert.equal(other.asked.length, 1, 'a loopback endpoint needs no key');
  assert.equal(other.asked[0]!.headers.authorization, undefined);
  assert.ok(!other.asked[0]!.text.includes(key));
  assert.equal((await put(to, { base_url: model.url })).json.model.key_last4, null, 'nor does it come back');
});

it('each of the codes, at the turn: no key, an unknown provider, a base URL that cannot be used', async () => {
  const to = await modelAgent(acme, 'coded', { base_url: model.url });
  const { db } = acme.database;
  const code = async (sql: string): Promise<unknown> => {
    await db.query(`update models m set ${sql} from agents a where a.id = m.agent_id and a.handle = 'coded'`);
    const reply = await ask(acme, { from: mine, to, text: 'Hello?' });
    assert.equal(reply.error, true);
    assert.match(reply.body.text, /^This agent /);
    return reply.body.data.error;
  };
  assert.equal(await code(`key = null, base_url = ''`), 'no_key_for_provider');
  assert.equal(await code(`provider = 'next-year'`), 'unknown_provider');
  assert.equal(await code(`provider = 'openai', base_url = 'nonsense'`), 'invalid_base_url');
  const { json: shown } = await acme.call('GET', `/api/v1/agents/${to}/model`);
  assert.match(shown.model.last_error, /^invalid_base_url: /);
  assert.equal((await put(to, { base_url: model.url })).json.model.last_error, null);
});

it('a webhook and encrypted_only exclude a model; off gives the inbox back', async () => {
  const to = await modelAgent(acme, 'either', { base_url: model.url });
  const [, team, , name] = to.split('/');
  await acme.call('DELETE', `/api/v1/agents/${to}/model`);
  assert.equal((await acme.call('GET', `/api/v1/agents/${to}/model`)).status, 404);
  assert.equal((await acme.call('GET', `/redsyn/v1/agents/${to}`)).json.adapter, '');
  const id = await request(acme, { from: mine, to, text: 'For a program' });
  const taken = await acme.call('GET', `/redsyn/v1/inbox/${to}?wait=5`);
  assert.deepEqual(
    taken.json.items.map((item: { id: string }) => item.id),
    [id],
  );

  const hook = await acme.call('PUT', `/redsyn/v1/agents/${to}/webhook`, { body: { url: model.url } });
  assert.equal(hook.status, 201, hook.text);
  assert.equal((await put(to, { base_url: model.url })).status, 409);
  await acme.call('DELETE', `/redsyn/v1/agents/${to}/webhook`);
  await acme.admin.announce(`acme/${team}/joel/${name}`, { encrypted_only: true });
  assert.equal((await put(to, { base_url: model.url })).status, 409);
});

it("an agent with a key of its own is a peer to its owner's model, and does not read what she said in a thread", async () => {
  const to = await modelAgent(acme, 'family', { base_url: model.url });
  await ask(acme, { from: mine, to, text: 'My PIN is 9931', thread: 'family' });
  const { json: agents } = await acme.call('GET', '/api/v1/agents');
  const { id } = agents.agents.find((each: { name: string }) => each.name === 'mine');
  const { json: made } = await acme.call('POST', `/api/v1/agents/${id}/keys`);
  const q = { from: mine, to, text: 'What did she say?', thread: 'family' };
  await answerTo(acme, await request(acme, { ...q, token: made.api_key }), q);
  const asked = model.asked.at(-1)!;
  assert.doesNotMatch(asked.text, /9931/);
  assert.deepEqual(asked.tools, ['search_knowledge_base', 'list_knowledge_bases']);
  assert.match(asked.system, /who is not your owner/);
  await ask(acme, { from: mine, to, text: 'And to me?', thread: 'family' });
  assert.match(model.asked.at(-1)!.text, /9931/);
  assert.doesNotMatch(model.asked.at(-1)!.text, /What did she say/);
});

it('web search is offered with a key, and its results are cited', async () => {
  const to = await modelAgent(acme, 'surfer', {
    base_url: model.url,
    web_search: { key: 'tvly-0123456789abcdef', url: model.url },
  });
  model.web = [
    { title: 'Weather', url: 'https://weather.test/today', content: 'Sunny.' },
    { title: 'Odd', url: 'javascript:alert(1)', content: 'x' },
  ];
  const before = model.asked.length;
  model.next({ calls: [{ name: 'web_search', args: { query: 'weather' } }] }, { text: 'Sunny.' });
  const reply = await ask(acme, { from: mine, to, text: 'Weather?' });
  assert.deepEqual(reply.body.data.citations, [{ source: 'Weather', url: 'https://weather.test/today' }]);
  const [, search] = model.asked.slice(before);
  assert.deepEqual([search!.path, search!.headers.authorization], ['/search', 'Bearer tvly-0123456789abcdef']);
});

it('a model that only ever asks for tools is made to answer, and one that says nothing has failed', async () => {
  const to = await modelAgent(acme, 'loopy', { base_url: model.url });
  const before = model.asked.length;
  const again = { calls: [{ name: 'list_knowledge_bases', args: {} }], tokens: 1 };
  model.next(
    again,
    {
      calls: [
        { name: 'search_knowledge_base', args: { query: 7 } },
        { name: 'search_knowledge_base', args: [] },
      ],
    },
    again,
    again,
    again,
    {
      ...again,
      text: 'Enough.',
    },
  );
  const reply = await ask(acme, { from: mine, to, text: 'Loop!' });
  assert.equal(reply.body.text, 'Enough.');
  const asked = model.asked.slice(before);
  assert.equal(asked.length, 6);
  assert.deepEqual([asked.at(-2)!.body.tool_choice, asked.at(-1)!.body.tool_choice], [undefined, 'none']);
  assert.match(asked[2]!.text, /The arguments are not what the tool takes/);
  model.next({ text: '  ' });
  assert.equal((await ask(acme, { from: mine, to, text: 'Nothing!' })).body.data.error, 'agent_error');
});

it('an answer that is too long is cut, whole characters, and says so', async () => {
  const to = await modelAgent(acme, 'verbose', { base_url: model.url });
  model.next({ text: 'ñ'.repeat(50_000) });
  const long = await ask(acme, { from: mine, to, text: 'Talk!' });
  assert.deepEqual(long.body.data, { truncated: true });
  assert.ok(Buffer.byteLength(long.body.text) <= 60_000 && /^ñ+$/.test(long.body.text));
  model.next({ text: 'Half an', stop: 'length' });
  assert.deepEqual((await ask(acme, { from: mine, to, text: 'Talk!' })).body.data, { truncated: true });
  model.next({ text: 'NUL \u0000 and half \ud800 a character' });
  assert.equal((await ask(acme, { from: mine, to, text: 'Talk!' })).body.text, 'NUL  and half \ufffd a character');
});

it('429 with a long Retry-After ends the turn, and the endpoint is left alone', async () => {
  const to = await modelAgent(acme, 'busy', { base_url: model.url });
  model.next((response) => json(response, 429, {}, { 'retry-after': '90' }));
  const reply = await ask(acme, { from: mine, to, text: 'Hello?' });
  assert.equal(reply.body.data.error, 'agent_error');
  const { json: shown } = await acme.call('GET', `/api/v1/agents/${to}/model`);
  assert.equal(shown.model.last_error, 'agent_error: the endpoint is busy (HTTP 429)');
  const before = model.asked.length;
  await request(acme, { from: mine, to, text: 'And now?' });
  await ask(acme, { from: mine, to: 'acme/general/joel/owned', text: 'Others go on.' });
  assert.equal(model.asked.length, before + 1);
  const { text: metrics } = await acme.call('GET', '/metrics');
  assert.match(metrics, /gatehouse_model_turns_total\{outcome="agent_error"\} [1-9]/);
  assert.match(metrics, /gatehouse_model_turns_total\{outcome="answered"\} [1-9]/);
  assert.match(metrics, /gatehouse_model_tokens_total [1-9]/);
});

it('a task that is canceled while the model writes ends the call of the model', async () => {
  const to = await modelAgent(acme, 'stoppable', { base_url: model.url });
  const tenant = 'joel:general:stoppable';
  let closed = false;
  model.next((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const timer = setInterval(
      () => response.write(`data: ${JSON.stringify({ choices: [{ delta: { content: 'word ' } }] })}\n\n`),
      50,
    );
    response.on('close', () => {
      clearInterval(timer);
      closed = true;
    });
  });
  const rpc = (method: string, params: object) =>
    acme.call('POST', `/a2a/v1/${tenant}`, {
      body: { jsonrpc: '2.0', id: 1, method, params },
      headers: { 'a2a-version': '1.0' },
    });
  const sent = await rpc('SendMessage', {
    message: { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'Write a novel.' }] },
    configuration: { returnImmediately: true },
  });
  const { id } = sent.json.result.task;
  await eventually('the first words', async () => {
    const task = (await rpc('GetTask', { id })).json.result;
    return JSON.stringify(task).includes('word ');
  });
  assert.equal((await rpc('CancelTask', { id })).json.result.status.state, 'TASK_STATE_CANCELED');
  await eventually('the model is told no more', async () => closed);
  assert.equal((await acme.database.db.query(`select from deliveries where message_id = 'm1'`)).rowCount, 0);
  assert.match(to, /stoppable/);
});

it('tokens are of the day’s limits: what is used up pauses the pair until the owner lets it go on', async () => {
  const to = await modelAgent(acme, 'frugal', { base_url: model.url });
  const hers = 'acme/general/ana/hers';
  await ana.announce(hers);
  const chosen = await acme.call('PUT', '/api/v1/limits', { body: { agent: to, peer: 'acme/ana', tokens: 25 } });
  assert.equal(chosen.status, 200, chosen.text);
  const q = { from: hers, to, token: ana.token };
  model.next({ text: 'One.', tokens: 20 }, { text: 'Two.', tokens: 10 });
  await ask(acme, { ...q, text: 'one' });
  await ask(acme, { ...q, text: 'two' });
  await assert.rejects(request(acme, { ...q, text: 'three' }), /limit_paused/);
  await ask(acme, { from: mine, to, text: 'My own agent still answers me.' });
  const { json: shown } = await acme.call('GET', `/api/v1/agents/${to}/model`);
  assert.equal(shown.model.tokens_today, 40);
  await acme.call('POST', '/api/v1/limits/resume', { body: { agent: to, peer: 'acme/ana' } });
  await ask(acme, { ...q, text: 'four' });
});

it('events and answers start no turn', async () => {
  const to = await modelAgent(acme, 'quiet', { base_url: model.url });
  const before = model.asked.length;
  await acme.call('PUT', '/redsyn/v1/subscriptions', { body: { agent: to, topic: 'topic:acme/general/news' } });
  const event = {
    v: 1,
    id: 'news-1',
    kind: 'event',
    from: mine,
    to: 'topic:acme/general/news',
    body: { type: 'text/plain', text: 'extra!' },
  };
  const sent = await acme.call('POST', '/redsyn/v1/messages', { body: event });
  assert.ok(sent.status < 300, sent.text);
  await eventually('it was taken and put aside', async () => {
    const { rows } = await acme.database.db.query<{ n: number }>(
      'select count(*)::int as n from deliveries d join agents a on a.id = d.agent_id where a.handle = $1',
      ['quiet'],
    );
    return rows[0]!.n === 0;
  });
  const id = await request(acme, { from: mine, to, text: 'Still there?' });
  await answerTo(acme, id, { from: mine });
  assert.equal(model.asked.length, before + 1);
});

it('knowledge bases: names, limits, what is no text, whose they are', async () => {
  const call = (method: string, path: string, more: Parameters<typeof acme.call>[2] = {}) =>
    acme.call(method, `/api/v1/knowledge${path}`, more);
  assert.equal((await call('POST', '', { body: { name: 'docs' } })).status, 201);
  assert.equal((await call('POST', '', { body: { name: 'docs' } })).status, 409);
  assert.equal((await call('POST', '', { body: { name: 'docs' }, token: ana.token })).status, 201, 'hers is another');
  for (const name of ['', 'a/b', 'x'.repeat(101), 'a\u0007b'])
    assert.equal((await call('POST', '', { body: { name } })).status, 400, name);
  const document = (body: string | Uint8Array, name = 'a.txt', query = '') =>
    fetch(`${acme.url}/api/v1/knowledge/docs/documents/${encodeURIComponent(name)}${query}`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${acme.token}`, 'content-type': 'text/plain' },
      body,
    });
  assert.equal((await document('hello there')).status, 201);
  assert.equal((await document('hello again')).status, 200);
  assert.equal((await document(new Uint8Array([0x25, 0x50, 0x44, 0x46, 0xff, 0xfe]))).status, 415);
  assert.equal((await document('a\0b')).status, 415);
  assert.equal((await document('x'.repeat(1024 * 1024), 'folder/big.txt')).status, 201);
  assert.equal((await document('x'.repeat(1024 * 1024 + 1), 'bigger.txt')).status, 413);
  const strangers = await acme.call('PUT', '/api/v1/knowledge/docs/documents/big.txt', {
    body: 'x'.repeat(500_000),
    token: null,
  });
  assert.equal(strangers.status, 401, 'asked before it is read');
  assert.equal((await document('x', 'u.txt', '?url=javascript:alert(1)')).status, 400);
  assert.equal((await document('x'.repeat(100), 'x'.repeat(301))).status, 400);
  const { json: shown } = await call('GET', '/docs');
  assert.deepEqual(
    shown.knowledge.documents.map(({ name, bytes }: { name: string; bytes: number }) => [name, bytes]),
    [
      ['a.txt', 11],
      ['folder/big.txt', 1024 * 1024],
    ],
  );
  assert.equal((await call('GET', `/${shown.knowledge.id}`, { token: ana.token })).status, 404);
  assert.equal(
    (await call('PATCH', `/${shown.knowledge.id}`, { token: ana.token, body: { shared_with_peers: true } })).status,
    404,
  );
  assert.equal((await call('DELETE', '/docs/documents/a.txt', { token: ana.token })).status, 404, 'hers has none');
  const found = async (query: string): Promise<unknown[]> => (await call('GET', `/search?${query}`)).json.found;
  assert.equal((await found('q=again')).length, 1);
  assert.equal((await found('q=hello%20there')).length, 1, 'the first text is gone');
  assert.deepEqual(await found('q=again&audience=peer'), []);
  assert.equal((await call('GET', '/search?q=again&audience=stranger')).status, 400);
  assert.equal((await call('DELETE', '/docs/documents/a.txt')).status, 200);
  assert.deepEqual(await found('q=again'), []);
  assert.equal((await call('DELETE', '/docs')).status, 200);
  assert.equal((await call('GET', '/docs')).status, 404);
});

it('every word of a document finds it, in whatever script it is written', async () => {
  const words = fc
    .sample(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }), { numRuns: 60, seed: 7 })
    .map((word) => wordsOf(word).join(' '))
    .filter((word) => word !== '');
  const written = ['电压范围', 'Größe', '0x1F', '１２３', 'naïveté', 'МОСКВА', 'हिन्दी', 'e5', '1e5', ...words];
  await acme.call('POST', '/api/v1/knowledge', { body: { name: 'scripts' } });
  const put = await fetch(`${acme.url}/api/v1/knowledge/scripts/documents/all.txt`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${acme.token}`, 'content-type': 'text/plain' },
    body: written.join('. '),
  });
  assert.equal(put.status, 201);
  for (const word of written) {
    const { json: found } = await acme.call('GET', `/api/v1/knowledge/search?q=${encodeURIComponent(word)}`);
    assert.ok(
      found.found.some((each: { document: string }) => each.document === 'all.txt'),
      JSON.stringify(word),
    );
  }
});
