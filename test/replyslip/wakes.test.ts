import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { after, beforeEach, test } from 'node:test';
import { ManualClock } from '../../src/lib/clock.ts';
import { eventually, person, testGateway } from '../support/gateway.ts';
import { receiver } from '../support/receiver.ts';
import { registered, say, setDelivery } from './support.ts';

const clock = new ManualClock();
const gateway = await testGateway({ after }, { clock });
const hook = await receiver({ after });
const target = await registered(gateway, 'Target');
const sender = await registered(gateway, 'Sender');
const notice = 'Another agent sent you something on ReplySlip; check it with your ReplySlip tools.';

const webhook = (auth: object = { type: 'none' }) => ({ mode: 'webhook', webhook: { url: hook.url, auth } });
const arrivals = (n: number) => eventually(`${n} wakes`, async () => hook.arrived.length >= n && hook.arrived);
const wakes = async () =>
  (
    await gateway.database.db.query<{
      state: string;
      attempts: number;
      due_at: number | null;
      updated_at: number;
      reason: string;
    }>('select state, attempts, due_at, updated_at, reason from wakes order by created_at, id')
  ).rows;
const recorded = (state: string, attempts: number) =>
  eventually(`${state} after ${attempts}`, async () =>
    (await wakes()).some(
      (wake) => wake.state === state && wake.attempts === attempts && (state !== 'pending' || wake.due_at !== null),
    ),
  );
/** Until then the retries' own loop comes round again and again. */
const passing = (ms: number, n: number) =>
  eventually(`${n} wakes`, async () => {
    clock.advance(ms);
    return hook.arrived.length >= n;
  });

beforeEach(async () => {
  await setDelivery(gateway, target, { mode: 'none' });
  await setDelivery(gateway, sender, { mode: 'none' });
  await gateway.database.db.query('delete from wakes');
  hook.arrived.length = 0;
  hook.answer = () => 200;
});

test('a wake says the fixed notice and not a word of what was sent', async () => {
  await setDelivery(gateway, target, webhook());
  await say(gateway, sender, { to: target.address });
  const [wake] = await arrivals(1);
  assert.deepEqual(Object.keys(wake!.json), ['id', 'type', 'agent', 'reason', 'task_id', 'notice', 'created_at']);
  const { id, type, agent, reason, task_id, notice: words, created_at } = wake!.json;
  assert.deepEqual([type, agent, reason, words], ['replyslip.wake', 'Target', 'task', notice]);
  assert.equal(created_at, new Date(clock.now()).toISOString());
  assert.match(id, /^[0-9a-f-]{36}$/);
  assert.match(task_id, /^[0-9A-Z]{26}$/);
  assert.equal(wake!.headers['x-replyslip-wake-id'], id);
  assert.equal(wake!.headers.authorization, undefined);
  assert.ok(!wake!.body.includes('secret words'));
  await recorded('done', 1);
});

test('the sender is woken by the question, the result and the failure; the target by what its sender says next', async () => {
  await setDelivery(gateway, target, webhook());
  await setDelivery(gateway, sender, webhook());
  const reasons = async (n: number) => (await arrivals(n)).map(({ json }) => `${json.agent} ${json.reason}`);
  const first = await say(gateway, sender, { to: target.address });
  await arrivals(1);
  const progress = { kind: 'progress', reply_to: first, to: undefined };
  await say(gateway, target, { ...progress, body: { type: 'application/json', data: { question: 'which one?' } } });
  await arrivals(2);
  await say(gateway, target, { ...progress, kind: 'reply' });
  await arrivals(3);
  const second = await say(gateway, sender, { to: target.address });
  await arrivals(4);
  await say(gateway, target, { kind: 'reply', reply_to: second, to: undefined, error: true });
  assert.deepEqual(await reasons(5), [
    'Target task',
    'Sender question',
    'Sender result',
    'Target task',
    'Sender failure',
  ]);
  assert.equal(new Set(hook.arrived.slice(0, 3).map(({ json }) => json.task_id)).size, 1);
});

test('bearer, static headers and HMAC over the very bytes', async () => {
  await setDelivery(gateway, target, webhook({ type: 'bearer', token: 'whsec_example' }));
  await say(gateway, sender, { to: target.address });
  assert.equal((await arrivals(1))[0]!.headers.authorization, 'Bearer whsec_example');

  await setDelivery(gateway, target, webhook({ type: 'headers', headers: { 'X-Api-Key': 'k', 'X-Team': 'a b' } }));
  await say(gateway, sender, { to: target.address });
  const { headers } = (await arrivals(2))[1]!;
  assert.deepEqual([headers['x-api-key'], headers['x-team']], ['k', 'a b']);

  await setDelivery(gateway, target, webhook({ type: 'hmac', secret: 'schlüssel' }));
  await say(gateway, sender, { to: target.address });
  const signed = (await arrivals(3))[2]!;
  const expected = createHmac('sha256', 'schlüssel').update(signed.body).digest('hex');
  assert.equal(signed.headers['x-replyslip-signature'], expected);
});

test('secrets are sealed at rest, and no read shows one', async () => {
  const secrets = ['whsec_0123456789', 'hunter2hunter2', 'hmac-key-of-mine', 'hooks-path-of-mine'];
  const [token, header, secret, path] = secrets as [string, string, string, string];
  const url = `http://localhost:9/${path}?k=${token}`;
  const auths = [
    { type: 'bearer', token },
    { type: 'headers', headers: { 'X-Key': header, 'X-Pin': '1234567' } },
    { type: 'hmac', secret },
  ];
  const shown: unknown[] = [];
  for (const auth of auths) {
    await setDelivery(gateway, target, { mode: 'webhook', webhook: { url, auth } });
    const read = await gateway.call('GET', `/api/v1/agents/${target.id}/delivery`);
    shown.push(read.json.webhook.auth);
    assert.deepEqual(
      { ...read.json.webhook, auth: null },
      { url: 'http://localhost:9', url_set: true, last4: 'mine', auth: null },
    );
    const all = await gateway.call('GET', '/api/v1/agents');
    const { rows } = await gateway.database.db.query<{ row: string }>(
      `select d::text || encode(d.sealed, 'escape') as row from agent_delivery d`,
    );
    for (const one of secrets) {
      assert.ok(![read.text, all.text, JSON.stringify(rows)].some((text) => text.includes(one)), one);
    }
  }
  assert.deepEqual(shown, [
    { type: 'bearer', token: { set: true, last4: '6789' } },
    { type: 'headers', headers: { 'X-Key': { set: true, last4: 'ter2' }, 'X-Pin': { set: true, last4: '' } } },
    { type: 'hmac', secret: { set: true, last4: 'mine' } },
  ]);
});

test('the modes, the form of before there were drivers, and who may change them', async () => {
  assert.deepEqual(await setDelivery(gateway, target, { mode: 'herdr', pane: 'left' }), {
    agent_id: target.id,
    mode: 'local',
    driver: 'herdr',
    target: 'left',
    wakes: { pending: 0, failed: 0, last_error: null },
  });
  const path = `/api/v1/agents/${target.id}/delivery`;
  const bodies: Array<[number, unknown]> = [
    [422, { mode: 'email' }],
    [422, {}],
    [422, { mode: 'local', driver: 'herdr' }],
    [422, { mode: 'local', driver: 'Rm -rf', target: 'x' }],
    [422, { mode: 'local', driver: 'tmux', target: 'x\ny' }],
    [422, { mode: 'webhook' }],
    [400, '{'],
  ];
  for (const [status, body] of bodies) {
    assert.equal((await gateway.call('PUT', path, { body })).status, status, JSON.stringify(body));
  }
  const ana = await person(gateway, 'ana');
  for (const [token, status] of [
    [target.key, 403],
    [ana.token, 403],
    [null, 401],
  ] as const) {
    assert.equal((await gateway.call('PUT', path, { token, body: { mode: 'none' } })).status, status);
    assert.equal((await gateway.call('GET', path, { token })).status, status);
  }
  assert.equal((await gateway.call('GET', path)).json.driver, 'herdr', 'nothing of it had an effect');
});

test('a failed POST is tried again after 30 s, doubling to an hour, 8 times in all; then it is failed', async () => {
  hook.answer = () => 503;
  await setDelivery(gateway, target, webhook());
  await say(gateway, sender, { to: target.address });
  const delays: number[] = [];
  for (let attempt = 1; attempt <= 7; attempt++) {
    await arrivals(attempt);
    await recorded('pending', attempt);
    const [wake] = await wakes();
    delays.push((wake!.due_at! - wake!.updated_at) / 1000);
    clock.advance(wake!.due_at! - clock.now() - 1);
    await gateway.call('POST', '/api/cron/wakes');
    assert.equal(hook.arrived.length, attempt, 'not before its time');
    clock.advance(1);
    await passing(1_000, attempt + 1);
  }
  assert.deepEqual(delays, [30, 60, 120, 240, 480, 960, 1920]);
  await arrivals(8);
  await recorded('failed', 8);
  clock.advance(3 * 3_600_000);
  assert.equal((await gateway.call('POST', '/api/cron/wakes')).json.due, 0);
  assert.equal(hook.arrived.length, 8);
  assert.equal(new Set(hook.arrived.map(({ json }) => json.id)).size, 1, 'one wake, one id');
  const { json } = await gateway.call('GET', `/api/v1/agents/${target.id}/delivery`);
  assert.deepEqual(json.wakes, { pending: 0, failed: 1, last_error: 'it answered 503' });
});

test('Retry-After is honoured; a redirect is a failed try that is not followed', async () => {
  hook.answer = (_, response) => void response.writeHead(429, { 'retry-after': '300' }).end();
  await setDelivery(gateway, target, webhook());
  await say(gateway, sender, { to: target.address });
  await recorded('pending', 1);
  assert.equal((await wakes())[0]!.due_at! - clock.now(), 300_000);

  clock.advance(1_000);
  hook.answer = ({ path }, response) => void response.writeHead(307, { location: `${path}/inside` }).end();
  await say(gateway, sender, { to: target.address });
  await eventually('the redirect', async () => (await wakes()).filter(({ due_at }) => due_at !== null).length === 2);
  assert.ok(hook.arrived.every(({ path }) => path === '/hook'));
  const { json } = await gateway.call('GET', `/api/v1/agents/${target.id}/delivery`);
  assert.deepEqual(json.wakes.pending, 2);
  assert.match(json.wakes.last_error, /307: redirects are not followed/);
});

test('an agent that nobody wakes has no wake; switching modes takes along what waits', async () => {
  await say(gateway, sender, { to: target.address });
  assert.deepEqual(await wakes(), []);

  await setDelivery(gateway, target, { mode: 'local', driver: 'tmux', target: 'work' });
  await say(gateway, sender, { to: target.address });
  assert.deepEqual(
    (await wakes()).map(({ state }) => state),
    ['pending'],
  );
  assert.equal(hook.arrived.length, 0);
  await setDelivery(gateway, target, webhook());
  await passing(1_000, 1);
  await recorded('done', 1);
});

test('a stream of words wakes once, until somebody looked', async () => {
  await setDelivery(gateway, sender, { mode: 'local', driver: 'tmux', target: 'work' });
  const id = await say(gateway, sender, { to: target.address });
  for (let i = 0; i < 5; i++) await say(gateway, target, { kind: 'progress', reply_to: id, to: undefined });
  assert.deepEqual(
    (await wakes()).map(({ reason }) => reason),
    ['message'],
  );
});
