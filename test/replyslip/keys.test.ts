import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { person, testGateway } from '../support/gateway.ts';

const gateway = await testGateway({ after });
let ana: Awaited<ReturnType<typeof person>>;
/** By handle. */
const ids: Record<string, string> = {};

const agentOf = (user: string, name: string): string => `acme/general/${user}/${name}`;

before(async () => {
  ana = await person(gateway, 'ana');
  const listening = { listening: true, allow: ['org'] };
  await gateway.admin.call('PUT', `/agents/${agentOf('joel', 'reviewer')}`, listening);
  await gateway.admin.call('PUT', `/agents/${agentOf('joel', 'other')}`, listening);
  await ana.call('PUT', `/agents/${agentOf('ana', 'close')}`, listening);
  const { json } = await gateway.call('GET', '/api/v1/agents');
  for (const { id, name } of json.agents) ids[name] = id;
});

async function keyOf(name: string): Promise<string> {
  const made = await gateway.call('POST', `/api/v1/agents/${ids[name]}/keys`);
  assert.equal(made.status, 201);
  assert.equal(made.headers.get('cache-control'), 'no-store');
  return made.json.api_key;
}

const send = (token: string, envelope: object) =>
  gateway.call('POST', '/redsyn/v1/messages', {
    token,
    body: { v: 1, kind: 'request', to: agentOf('ana', 'close'), body: { type: 'text/plain', text: 'hi' }, ...envelope },
  });

test('a key is told once, kept hashed, and is that agent and no other', async () => {
  const key = await keyOf('reviewer');
  assert.match(key, /^rsk_[A-Za-z0-9_-]{43}$/);
  const stored = await gateway.database.db.query<{ row: string }>('select k::text as row from agent_keys k');
  assert.ok(!JSON.stringify(stored.rows).includes(key.slice(4)));
  const listed = await gateway.call('GET', '/api/v1/agents');
  assert.ok(!listed.text.includes(key.slice(4)));
  assert.equal(listed.json.agents.find((a: { name: string }) => a.name === 'reviewer').key.set, true);
  assert.equal(listed.json.agents.find((a: { name: string }) => a.name === 'other').key.set, false);

  assert.equal((await send(key, { id: 'k1', from: agentOf('joel', 'reviewer') })).status, 201);
  assert.equal((await send(key, { id: 'k2', from: 'reviewer' })).status, 201, 'a short form from its own seat');
  for (const from of [agentOf('joel', 'other'), 'other', agentOf('ana', 'close'), 'acme/general/joel/nobody']) {
    const refused = await send(key, { id: 'k3', from });
    assert.deepEqual([refused.status, refused.json.code], [403, 'sender_mismatch'], from);
  }
});

test('only the agent that was asked answers, though another agent of its owner has a key too', async () => {
  await keyOf('other');
  const [reviewer, other] = [await keyOf('reviewer'), await keyOf('other')];
  await send(ana.token, { id: 'q1', from: agentOf('ana', 'close'), to: agentOf('joel', 'reviewer') });
  const answer = { kind: 'reply', reply_to: 'q1', to: undefined };
  const stranger = await send(other, { ...answer, id: 'r1', from: agentOf('joel', 'other') });
  assert.ok([403, 404].includes(stranger.status), stranger.text);
  assert.equal((await send(reviewer, { ...answer, id: 'r2', from: agentOf('joel', 'reviewer') })).status, 201);
});

test('an A2A task is seen by the key that asked it, not by the key of another agent of the same owner', async () => {
  const [reviewer, other] = [await keyOf('reviewer'), await keyOf('other')];
  const rpc = (token: string, method: string, params: object) =>
    gateway.call('POST', '/a2a/v1/ana:general:close', {
      token,
      headers: { 'a2a-version': '1.0' },
      body: { jsonrpc: '2.0', id: 1, method, params },
    });
  const sent = await rpc(reviewer, 'SendMessage', {
    message: { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'closed?' }] },
    configuration: { returnImmediately: true },
  });
  const { id } = sent.json.result.task;
  assert.equal((await rpc(reviewer, 'GetTask', { id })).json.result.id, id);
  const listed = (await rpc(reviewer, 'ListTasks', {})).json.result.tasks;
  assert.ok(listed.some((task: { id: string }) => task.id === id));
  assert.equal((await rpc(other, 'GetTask', { id })).json.error.code, -32001);
  assert.equal((await rpc(other, 'ListTasks', {})).json.result.tasks.length, 0);
  assert.equal((await rpc(other, 'CancelTask', { id })).json.error.code, -32001);
  assert.equal((await rpc(reviewer, 'CancelTask', { id })).json.result.status.state, 'TASK_STATE_CANCELED');
});

test("a stolen key decides nothing that is a person's", async () => {
  const key = await keyOf('reviewer');
  const calls: Array<[string, string, unknown?]> = [
    ['POST', `/api/v1/agents/${ids.reviewer}/keys`],
    ['POST', `/api/v1/agents/${ids.reviewer}/revoke`],
    ['GET', '/api/v1/agents'],
    ['GET', '/api/v1/contacts'],
    ['PUT', '/api/v1/policies', {}],
    ['POST', '/api/v1/permissions/01J/decide', { decision: 'allow_once' }],
    ['PUT', `/redsyn/v1/agents/${agentOf('joel', 'reviewer')}`, { listening: true, allow: ['anyone'] }],
    ['PUT', `/redsyn/v1/agents/${agentOf('joel', 'reviewer')}/webhook`, { url: 'https://example.com/x' }],
    ['POST', '/redsyn/v1/nodes', { name: 'mine now' }],
    ['POST', '/redsyn/v1/orgs/acme/invites', { email: 'x@example.com', team: 'general' }],
  ];
  for (const [method, path, body] of calls) {
    const { status, text } = await gateway.call(method, path, { token: key, ...(body !== undefined && { body }) });
    assert.equal(status, 403, `${method} ${path}: ${text}`);
  }
});

test('a further key ends the one before, two at once leave one, and a revoked key ends at once on every replica', async () => {
  const [first, second] = [await keyOf('reviewer'), await keyOf('reviewer')];
  const from = agentOf('joel', 'reviewer');
  assert.equal((await send(first, { id: 'x1', from })).status, 401);
  assert.equal((await send(second, { id: 'x2', from })).status, 201);

  const made = await Promise.all(Array.from({ length: 6 }, () => keyOf('reviewer')));
  const good = await Promise.all(made.map(async (key, i) => (await send(key, { id: `y${i}`, from })).status));
  assert.deepEqual(good.toSorted(), [201, 401, 401, 401, 401, 401]);

  const revoked = await gateway.call('POST', `/api/v1/agents/${ids.reviewer}/revoke`);
  assert.deepEqual([revoked.status, revoked.json.revoked], [200, true]);
  for (const key of made) assert.equal((await send(key, { id: 'z', from })).status, 401);
  assert.equal((await gateway.call('POST', `/api/v1/agents/${ids.reviewer}/revoke`)).status, 404);
});

test("keys are an owner's or an admin's to manage; outsiders see no agent", async () => {
  const forbidden = await gateway.call('POST', `/api/v1/agents/${ids.reviewer}/keys`, { token: ana.token });
  assert.deepEqual([forbidden.status, forbidden.json.error.code], [403, 'forbidden']);
  assert.equal((await gateway.call('POST', `/api/v1/agents/${ids.close}/keys`, { token: ana.token })).status, 201);
  assert.deepEqual(
    (await gateway.call('GET', '/api/v1/agents', { token: ana.token })).json.agents.map(
      (a: { name: string }) => a.name,
    ),
    ['close'],
  );
  const unknown = await gateway.call('POST', '/api/v1/agents/01J/keys', { token: ana.token });
  assert.deepEqual(unknown.json, { error: { code: 'not_found', message: 'There is no such agent.' } });
  assert.equal((await gateway.call('POST', '/api/v1/agents/01J/keys', { token: 'rsk_unknown' })).status, 401);
  assert.equal(
    (await gateway.call('GET', '/api/v1/agents/nothing/here', { token: null })).json.error.code,
    'not_found',
  );
});
