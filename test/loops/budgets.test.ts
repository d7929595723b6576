import assert from 'node:assert/strict';
import { after, it } from 'node:test';
import { Limits } from '../../src/exchange/limits/index.ts';
import { ManualClock } from '../../src/lib/clock.ts';
import { adminMachine } from '../cli/support.ts';
import { ask, befriend, outcome, time } from '../owner/support.ts';
import { type Called, person, team, testGateway } from '../support/gateway.ts';
import { type Answered, type Identity, sendSigned, startPeer } from '../support/peer.ts';

const noon = Date.UTC(2026, 8, 21, 12);
const clock = new ManualClock(noon);
time.now = () => clock.now();
const acme = await testGateway({ after }, { clock });
const second = await acme.replica();
await team(acme, 'dev', ['joel']);
const reviewer = 'acme/dev/joel/reviewer';
await acme.admin.announce(reviewer, { allow: ['org'] });
const ana = await person(acme, 'ana');
await ana.announce('acme/general/ana/asker');
const peer = await startPeer({ after });
const eve = peer.identity('agents:eve');
const mallory = peer.identity('agents:mallory');
for (const each of [eve, mallory]) await befriend(acme, each);
const limits = new Limits({ db: acme.database.db, clock });

const choose = (body: object, token = acme.token): Promise<Called> =>
  acme.call('PUT', '/api/v1/limits', { token, body: { agent: reviewer, ...body } });
const resume = (body: object = {}, token = acme.token): Promise<Called> =>
  acme.call('POST', '/api/v1/limits/resume', { token, body: { agent: reviewer, ...body } });
const shown = async (peerName: string | null, token = acme.token): Promise<Called['json']> =>
  (await acme.call('GET', '/api/v1/limits', { token })).json.limits.find(
    (row: { agent: string; peer: string | null }) => row.agent === reviewer && row.peer === peerName,
  );
const conferSays = (by: Identity, content: string, headers: Record<string, string> = {}): Promise<Answered> =>
  sendSigned(
    acme,
    {
      path: '/a2a/v1/messages',
      body: JSON.stringify({
        from: by.did,
        to: `${acme.did}:agents:joel:dev:reviewer`,
        message: { type: 'question', content },
      }),
      headers,
    },
    by,
    { now: clock.now() },
  );
const colleague = (): Promise<Called> =>
  acme.call('POST', '/redsyn/v1/messages', {
    token: ana.token,
    body: {
      v: 1,
      kind: 'request',
      from: 'acme/general/ana/asker',
      to: reviewer,
      body: { type: 'text/plain', text: 'x' },
    },
  });

it('a peer is warned past four fifths, and paused until the owner lets it go on, whatever day it is', async () => {
  assert.equal((await choose({ peer: eve.did, messages: 5 })).status, 200);
  const said: Answered[] = [];
  for (let i = 0; i < 4; i++) said.push(await conferSays(eve, 'x'));
  assert.deepEqual(
    said.map(({ status, json }) => [status, json.warning ?? null]),
    Array(4).fill([201, null]),
  );
  assert.equal((await shown(eve.did)).state, 'warning');
  assert.deepEqual((await conferSays(eve, 'x')).json.warning, { of: 'messages', used: 5, limit: 5 });

  const over = await conferSays(eve, 'x');
  assert.deepEqual([over.status, over.json.error.code], [403, 'limit_paused']);
  assert.deepEqual([over.json.error.retryable, over.json.error.details], [false, { of: 'messages', limit: 5 }]);
  const row = await shown(eve.did);
  assert.deepEqual([row.state, row.paused_for, row.used.messages, row.yours], ['paused', 'messages', 5, true]);
  assert.equal(outcome(await ask(acme, eve, 'over A2A')), 'limit_paused');

  clock.advance(86_400_000);
  assert.equal(outcome(await ask(acme, eve, 'the next day')), 'limit_paused');
  assert.equal(outcome(await ask(acme, mallory, 'x')), 'TASK_STATE_SUBMITTED', 'others are not paused');
  assert.deepEqual((await resume({ peer: eve.did })).json, { ok: true, resumed: true });
  assert.deepEqual((await resume({ peer: eve.did })).json, { ok: true, resumed: false });
  for (let i = 0; i < 5; i++) assert.equal((await conferSays(eve, 'x')).status, 201);
  assert.equal((await conferSays(eve, 'x')).status, 403);
  await resume({ peer: eve.did });
  assert.equal((await conferSays(eve, 'x')).status, 201, 'the same day, and counted anew');
});

it('a clock that jumps back finds the counts of that day as they were', async () => {
  const today = clock.now();
  await choose({ peer: eve.did, messages: 5 });
  clock.jump(noon);
  assert.equal((await shown(eve.did)).used.messages, 5);
  assert.equal((await conferSays(eve, 'x')).json.error.code, 'limit_paused');
  clock.jump(today);
  await resume({ peer: eve.did });
  assert.equal((await conferSays(eve, 'x')).status, 201);
});

it('exhausted at the same instant on two replicas: exactly what is left is taken', async () => {
  await choose({ peer: mallory.did, messages: 13 });
  const before = (await shown(mallory.did)).used.messages;
  const body = (n: number): string =>
    JSON.stringify({
      from: mallory.did,
      to: `${acme.did}:agents:joel:dev:reviewer`,
      message: { type: 'question', content: `${n}` },
    });
  const { port } = new URL(second.base);
  const outcomes = await Promise.all(
    Array.from({ length: 40 }, async (_, i) => {
      const there = i % 2 === 0 ? acme : { url: acme.url, authority: `localhost:${port}` };
      const sent = { path: '/a2a/v1/messages', body: body(i), headers: { host: acme.authority } };
      return (await sendSigned(there, sent, mallory, { now: clock.now() })).status;
    }),
  );
  const taken = outcomes.filter((status) => status === 201).length;
  assert.equal(taken, 13 - before, JSON.stringify(outcomes));
  assert.equal(outcomes.filter((status) => status === 403).length, 40 - taken);
  assert.equal((await shown(mallory.did)).used.messages, 13);
  await choose({ peer: mallory.did, messages: null });
  await resume({ peer: mallory.did });
});

it('a repeat of what was taken costs nothing and is answered while paused', async () => {
  const first = await conferSays(eve, 'once', { 'idempotency-key': 'k1' });
  assert.equal(first.status, 201);
  const used = (await shown(eve.did)).used.messages;
  const again = await conferSays(eve, 'once', { 'idempotency-key': 'k1' });
  assert.deepEqual([again.status, again.json.message_id], [201, first.json.message_id]);
  assert.equal((await shown(eve.did)).used.messages, used);
});

it('bytes count too, those of all peers together, and those of colleagues once the owner limits them', async () => {
  const all = (await shown(null)).used;
  await choose({ bytes: all.bytes + 20_000 });
  assert.equal((await conferSays(eve, 'x'.repeat(30_000))).json.error.code, 'limit_paused');
  assert.equal((await shown(null)).paused_for, 'bytes');
  assert.equal((await conferSays(mallory, 'x')).json.error.code, 'limit_paused', 'all of them');
  assert.equal((await colleague()).json.code, 'limit_paused');
  await choose({ bytes: null });
  assert.equal((await resume()).json.resumed, true);
  assert.equal((await colleague()).status, 201);
  assert.equal((await shown('acme/ana')).used.messages, 1);
  const hers = await shown('acme/ana', ana.token);
  assert.deepEqual([hers.yours, hers.chosen], [false, undefined], 'the peer sees what it used');

  await choose({ peer: 'acme/ana', messages: 2 });
  assert.equal((await colleague()).status, 201);
  const { status, json } = await colleague();
  assert.deepEqual([status, json.code, json.gate, json.of, json.limit], [403, 'limit_paused', 'limits', 'messages', 2]);
  assert.equal((await shown('acme/ana', ana.token)).state, 'paused');
});

it('tokens: whoever spends the last of a budget pauses it', async () => {
  await choose({ peer: eve.did, messages: null, tokens: 100 });
  await resume({ peer: eve.did });
  const { rows } = await acme.database.db.query<{ agent: string; peer: string }>(
    `select a.id as agent, (select 'p:' || p.id from peers p where p.did = $1) as peer from agents a where a.handle = 'reviewer'`,
    [eve.did],
  );
  const who = { agentId: rows[0]!.agent, senderKey: rows[0]!.peer, abroad: true };
  assert.deepEqual(await limits.spend({ ...who, tokens: 60 }), { pausedFor: null, tokensLeft: 40 });
  assert.equal((await conferSays(eve, 'x')).status, 201);
  const both = await Promise.all([limits.spend({ ...who, tokens: 30 }), limits.spend({ ...who, tokens: 30 })]);
  assert.ok(both.some(({ pausedFor }) => pausedFor === 'tokens'));
  assert.equal((await limits.budget(who)).tokensLeft, -20);
  const over = await conferSays(eve, 'x');
  assert.deepEqual(over.json.error.details, { of: 'tokens' });
  assert.equal((await shown(eve.did)).used.tokens, 120);
});

it('only the owner sees, chooses and resumes; nobody else learns whether there is such an agent', async () => {
  for (const body of [
    { agent: reviewer, peer: eve.did },
    { agent: 'acme/dev/joel/nobody', peer: eve.did },
  ]) {
    const answer = await resume(body, ana.token);
    assert.deepEqual([answer.status, answer.json.error.message], [404, 'You have no agent by that name.']);
    assert.equal((await choose({ ...body, messages: 1_000_000 }, ana.token)).status, 404);
  }
  assert.equal((await shown(eve.did)).state, 'paused', 'and nothing went on');
  const { limits: hers } = (await acme.call('GET', '/api/v1/limits', { token: ana.token })).json;
  assert.ok(hers.every((row: { peer: string }) => row.peer === 'acme/ana'));
  const asEve = await sendSigned(acme, { method: 'GET', path: '/api/v1/limits' }, eve, { now: clock.now() });
  assert.equal(asEve.status, 401);
  for (const [body, status] of [
    [{ messages: -1 }, 400],
    [{ messages: 1.5 }, 400],
    [{ turns: 0 }, 400],
    [{ peer: 'did:web:nobody.test', messages: 1 }, 404],
    [{ agent: 'x y' }, 400],
  ] as const) {
    assert.equal((await choose(body)).status, status, JSON.stringify(body));
  }
});

it('explained, and on the command line', async () => {
  const query = new URLSearchParams({ from: eve.did, to: reviewer });
  const { json } = await acme.call('GET', `/api/v1/explain?${query}`);
  assert.deepEqual([json.outcome, json.stopped_by, json.code], ['refused', 'limits', 'limit_paused']);
  const laptop = await adminMachine({ after }, acme);
  const { stdout } = await laptop.ok(['limits']);
  assert.match(stdout, /PAUSED \(tokens\) +acme\/dev\/joel\/reviewer +did:web:.*:eve .*120 of 100 tokens/);
  await laptop.ok(['limits', 'set', reviewer, '--peer', eve.did, '--tokens', 'usual']);
  assert.match((await laptop.ok(['limits', 'resume', reviewer, '--peer', eve.did])).stdout, /they go on/);
  assert.equal(
    (await laptop.ok(['limits', '--json'])).json.limits.find((row: { peer: string }) => row.peer === eve.did).state,
    'ok',
  );
  assert.equal((await laptop.run(['limits', 'set', reviewer])).code, 2);
  assert.equal((await conferSays(eve, 'x')).status, 201);
});
