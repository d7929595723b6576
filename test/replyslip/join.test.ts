import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { ManualClock } from '../../src/lib/clock.ts';
import { person, testGateway } from '../support/gateway.ts';

const clock = new ManualClock();
const gateway = await testGateway({ after }, { clock });
const ana = await person(gateway, 'ana');

const newCode = async (more: object = {}): Promise<{ id: string; code: string; expires_at: string }> => {
  const made = await gateway.call('POST', '/api/v1/join-codes', { body: { org: 'acme', ...more } });
  assert.equal(made.status, 201, made.text);
  return made.json;
};
const register = (code: string | null, body: object = {}) =>
  gateway.call('POST', '/api/v1/agents/register', { token: code, body });

let count = 0;
const freshName = (): string => `Bot${++count}`;
/** Attempts are counted by the minute. */
const nextMinute = (): void => clock.advance(60_000);

test('a join code registers exactly one agent, with the body that the document has', async () => {
  const { code, expires_at } = await newCode();
  assert.equal(Date.parse(expires_at), clock.now() + 86_400_000, '24 hours unless the owner chose another lifetime');
  const webhook = {
    url: 'http://localhost:9/hooks/replyslip',
    auth: { type: 'bearer', token: 'whsec_example' },
  };
  const done = await register(code, { name: 'LandingBot', description: 'Drafts landing pages', webhook });
  assert.equal(done.status, 201, done.text);
  assert.equal(done.headers.get('cache-control'), 'no-store');
  const { agent, api_key, mcp, docs, next_steps } = done.json;
  assert.match(api_key, /^rsk_[A-Za-z0-9_-]{43}$/);
  assert.deepEqual(agent, {
    id: agent.id,
    name: 'LandingBot',
    description: 'Drafts landing pages',
    address: 'acme/general/joel/landingbot',
    delivery: {
      mode: 'webhook',
      webhook: {
        url: 'http://localhost:9',
        url_set: true,
        last4: 'slip',
        auth: { type: 'bearer', token: { set: true, last4: 'mple' } },
      },
    },
  });
  assert.deepEqual(mcp, { url: `${gateway.url}/api/mcp`, header: 'Bearer <api_key>' });
  for (const link of Object.values(docs)) assert.match(String(link), /^http:\/\/localhost:\d+\/[a-z./]+$/);
  assert.ok(next_steps.join('\n').includes('Bearer <api_key>'));
  assert.equal(done.text.split(api_key).length, 2, 'the key stands in the answer once');

  const again = await register(code, { name: 'Second' });
  assert.deepEqual(
    [again.status, again.json],
    [401, { error: { code: 'unauthorized', message: 'This join code has already been used' } }],
  );
});

test('the table of responses, word for word', async () => {
  nextMinute();
  const [revoked, expired, used, open] = [
    await newCode(),
    await newCode({ expires_in: 60 }),
    await newCode(),
    await newCode(),
  ];
  assert.equal((await gateway.call('DELETE', `/api/v1/join-codes/${revoked.id}`)).status, 200);
  assert.equal((await gateway.call('DELETE', `/api/v1/join-codes/${revoked.id}`)).status, 200, 'twice is once');
  await register(used.code, { name: freshName() });
  clock.advance(60_000);
  const said = async (code: string | null, body: object = { name: freshName() }) => {
    const { status, json } = await register(code, body);
    return [status, json.error.message];
  };
  assert.deepEqual(await said('rsj_nothing'), [401, 'Invalid join code']);
  assert.deepEqual(await said(null), [401, 'Invalid join code']);
  assert.deepEqual(await said(gateway.token), [401, 'Invalid join code']);
  assert.deepEqual(await said(revoked.code), [401, 'This join code has been revoked']);
  assert.deepEqual(await said(used.code), [401, 'This join code has already been used']);
  assert.deepEqual(await said(expired.code), [401, 'This join code has expired']);
  const [status, words] = await said(open.code, { name: 'LANDINGBOT' });
  assert.equal(status, 409);
  assert.match(words, /^name already exists/);
  assert.equal((await register(open.code, { name: freshName() })).status, 201, 'the code was still unused');

  const late = await gateway.call('DELETE', `/api/v1/join-codes/${used.id}`);
  assert.deepEqual([late.status, late.json.error.code], [409, 'conflict']);
  const { json } = await gateway.call('GET', '/api/v1/join-codes');
  const states = Object.fromEntries(
    json.join_codes.map(({ id, status: state }: Record<string, string>) => [id, state]),
  );
  assert.deepEqual([states[revoked.id], states[used.id], states[expired.id]], ['revoked', 'used', 'expired']);
  assert.ok(![revoked, used, expired].some(({ code }) => JSON.stringify(json).includes(code.slice(4))));
});

test('a code that comes eight times at the same instant registers one agent', async () => {
  nextMinute();
  const { code } = await newCode();
  const names = Array.from({ length: 8 }, freshName);
  const done = await Promise.all(names.map((name) => register(code, { name })));
  assert.deepEqual(done.map(({ status }) => status).toSorted(), [201, ...Array(7).fill(401)]);
  for (const { status, json } of done) {
    if (status === 401) assert.equal(json.error.message, 'This join code has already been used');
  }
  const { json } = await gateway.call('GET', '/api/v1/agents');
  assert.equal(json.agents.filter((agent: { name: string }) => names.includes(agent.name)).length, 1);
});

test('one name that eight codes want at the same instant is one agent, and the others stay unused', async () => {
  nextMinute();
  const codes = await Promise.all(Array.from({ length: 8 }, () => newCode()));
  const done = await Promise.all(codes.map(({ code }, i) => register(code, { name: i % 2 ? 'Twin' : 'twin' })));
  assert.deepEqual(done.map(({ status }) => status).toSorted(), [201, ...Array(7).fill(409)]);
  nextMinute();
  const loser = codes[done.findIndex(({ status }) => status === 409)]!;
  assert.equal((await register(loser.code, { name: freshName() })).status, 201);
});

test('names: a letter, then letters, digits, _ and -; what is refused leaves the code unused', async () => {
  nextMinute();
  const { code } = await newCode();
  for (const name of ['1bot', '-bot', '', 'b.ot', 'böt', 'a b', 'x'.repeat(65), 'bot/..', 'bot#s1', 7, null]) {
    const { status, json } = await register(code, { name });
    assert.deepEqual(
      [status, json.error.code, json.error.details.field],
      [422, 'invalid_request', 'name'],
      String(name),
    );
  }
  assert.equal((await register(code, { name: 'x', description: 'd'.repeat(2_001) })).status, 422);
  assert.equal((await register(code, { name: 'a'.repeat(64) })).status, 201);
});

test('WEB-04: webhooks of a registration meet the guard, and no header value can hold another header', async () => {
  nextMinute();
  const { code } = await newCode();
  const url = 'http://localhost:9/hook';
  const bad: Array<[string, object]> = [
    ['webhook.url', { url: 'http://10.0.0.7/hook' }],
    ['webhook.url', { url: 'http://169.254.169.254/latest/meta-data' }],
    ['webhook.url', { url: 'file:///etc/passwd' }],
    ['webhook.url', { url: 'http://user:pass@localhost:9/hook' }],
    ['webhook.url', { url: 'http://localhost:9/a b' }],
    ['webhook.auth.token', { url, auth: { type: 'bearer', token: 'x\r\nX-Admin: 1' } }],
    ['webhook.auth.token', { url, auth: { type: 'bearer', token: '' } }],
    ['webhook.auth.headers.X-Key', { url, auth: { type: 'headers', headers: { 'X-Key': 'x\r\nX-Admin: 1' } } }],
    ['webhook.auth.headers.X-Key', { url, auth: { type: 'headers', headers: { 'X-Key': 'x\ny' } } }],
    ['webhook.auth.headers.X Key', { url, auth: { type: 'headers', headers: { 'X Key': 'x' } } }],
    ['webhook.auth.headers.Host', { url, auth: { type: 'headers', headers: { Host: 'evil.example' } } }],
    ['webhook.auth.headers', { url, auth: { type: 'headers', headers: { 'X-Key': 'x', 'x-key': 'y' } } }],
    ['webhook.auth.secret', { url, auth: { type: 'hmac', secret: '' } }],
    ['webhook.auth.type', { url, auth: { type: 'basic' } }],
  ];
  for (const [field, webhook] of bad) {
    const { status, json } = await register(code, { name: freshName(), webhook });
    assert.deepEqual([status, json.error.details.field], [422, field], JSON.stringify(webhook));
  }
  const nul = await register(code, {
    name: freshName(),
    webhook: { url, auth: { type: 'bearer', token: 'a\u0000b' } },
  });
  assert.equal(nul.status, 422);
  assert.equal((await register(code, { name: freshName(), webhook: { url } })).status, 201);
});

test('only an admin of the org makes, lists and revokes codes; no key does', async () => {
  nextMinute();
  const { id, code } = await newCode();
  const key = (await register(code, { name: freshName() })).json.api_key;
  for (const [token, status] of [
    [ana.token, 403],
    [key, 403],
    [null, 401],
  ] as const) {
    assert.equal((await gateway.call('POST', '/api/v1/join-codes', { token, body: { org: 'acme' } })).status, status);
    assert.equal((await gateway.call('GET', '/api/v1/join-codes', { token })).status, status);
    assert.equal((await gateway.call('DELETE', `/api/v1/join-codes/${id}`, { token })).status, status);
  }
  const outside = await gateway.call('POST', '/api/v1/join-codes', { body: { org: 'globex' } });
  assert.equal(outside.status, 404);
  for (const body of [
    { expires_in: 0 },
    { expires_in: 1.5 },
    { expires_in: 1e9 },
    { expires_in: '1h' },
    { team: 'nowhere' },
  ]) {
    assert.equal((await gateway.call('POST', '/api/v1/join-codes', { body })).status, 422, JSON.stringify(body));
  }
});

test('an agent that registered is written to under its address, and its first words are its own', async () => {
  nextMinute();
  const key = (await register((await newCode()).code, { name: 'Writer' })).json.api_key;
  await register((await newCode()).code, { name: 'Reader' });
  const sent = await gateway.call('POST', '/redsyn/v1/messages', {
    token: key,
    body: {
      v: 1,
      id: 'w1',
      kind: 'request',
      from: 'writer',
      to: 'reader',
      body: { type: 'text/plain', text: 'hello' },
    },
  });
  assert.deepEqual([sent.status, sent.json.to], [201, 'acme/general/joel/reader#s1']);
});

test('registrations of one address: sixty valid ones a minute pass; wrong codes meet 429 after twenty', async () => {
  nextMinute();
  const codes = await Promise.all(Array.from({ length: 60 }, () => newCode()));
  const done = await Promise.all(codes.map(({ code }) => register(code, { name: freshName() })));
  assert.deepEqual([...new Set(done.map(({ status }) => status))], [201]);

  nextMinute();
  const statuses: number[] = [];
  for (let i = 0; i < 25; i++) statuses.push((await register(`rsj_guess${i}`, { name: 'x' })).status);
  assert.deepEqual(statuses, [...Array(20).fill(401), ...Array(5).fill(429)]);
  const good = await newCode();
  const refused = await register(good.code, { name: freshName() });
  assert.deepEqual(
    [refused.status, refused.json.error.message],
    [429, 'Too many registration attempts from this IP.'],
    'a good code is not told from a bad one meanwhile',
  );
  assert.ok(Number(refused.headers.get('retry-after')) <= 60);
  nextMinute();
  assert.equal((await register(good.code, { name: freshName() })).status, 201);
});
