import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { eventually, person } from '../support/gateway.ts';
import { billing, reviewer, strangers } from '../support/pair.ts';
import { rows, sendSigned, startPeer } from '../support/peer.ts';
import { ask, befriend, decide, outcome, pending, type Row } from './support.ts';

const { acme, globex } = await strangers({ after });
const peer = await startPeer({ after });
const joel = `${acme.did}:agents:joel`;
const bobsAgent = `${globex.did}:agents:bob:erp:billing`;
let ana: Awaited<ReturnType<typeof person>>;

before(async () => {
  ana = await person(acme, 'ana');
  await ana.announce('acme/general/ana/notes');
});

const get = async (path: string, token?: string) =>
  acme.call('GET', `/api/v1${path}`, token === undefined ? {} : { token });
const lookUp = async (method: string, value: string): Promise<Row> =>
  (await acme.call('POST', '/api/v1/contacts/lookup', { body: { method, value } })).json;

it('approving a connection request makes the other Gatehouse deliver at once what it holds', async () => {
  const sent = await acme.admin.call<{ id: string }>('POST', '/messages', {
    v: 1,
    id: `held-${process.pid}`,
    kind: 'request',
    from: reviewer,
    to: bobsAgent,
    body: { type: 'text/plain', text: 'We have not met' },
  });
  assert.ok(sent.id);
  const request = await eventually('the request at globex', async () =>
    (await pending(globex)).find((row) => row.action === 'connect' && row.peer_did === joel),
  );
  assert.equal(request.scope.first_message, 'We have not met');
  assert.equal((await rows(globex)).messages, 0, 'nothing is stored');
  const started = Date.now();
  await decide(globex, request.id, 'allow_once');
  const taken = await eventually('the message at globex', async () => {
    const { items } = (await globex.call('GET', '/redsyn/v1/inbox/globex/erp/bob/billing?wait=5')).json;
    return items.length > 0 && items;
  });
  assert.equal(taken[0].body.text, 'We have not met');
  assert.ok(Date.now() - started < 8_000, 'far sooner than the minute after which it would be tried anyway');
  await globex.admin.call('POST', '/messages', {
    v: 1,
    id: `answer-${process.pid}`,
    kind: 'reply',
    from: billing,
    reply_to: taken[0].id,
    thread: taken[0].thread,
    body: { type: 'text/plain', text: 'Now we have' },
  });
  await eventually('the answer at acme', async () => {
    const { items } = (await acme.call('GET', '/redsyn/v1/inbox/acme/dev/joel/reviewer?wait=5')).json;
    return items.some((item: Row) => item.body.text === 'Now we have');
  });
});

it('only a gateway itself says that somebody was let in', async () => {
  const eve = peer.identity('agents:liar');
  const sent = { path: '/federation/v1/consent', body: JSON.stringify({ did: joel }) };
  assert.equal((await sendSigned(acme, sent, eve)).status, 403);
  assert.equal((await sendSigned(acme, sent, peer.instance)).status, 202);
  assert.equal((await acme.call('POST', '/federation/v1/consent', { token: null, body: {} })).status, 401);
});

it('contacts are added by a look-up, shown, changed and removed, each owner her own', async () => {
  const found = await lookUp('did', `${globex.did}:agents:bob`);
  assert.equal(found.candidates.length, 1, JSON.stringify(found));
  const [{ id, did }] = found.candidates;
  assert.equal(did, `${globex.did}:agents:bob`);
  const add = (body: object) => acme.call('POST', '/api/v1/contacts', { body });
  const made = await add({ peer_id: id, alias: 'Bob' });
  assert.equal(made.status, 201);
  assert.equal(made.json.contact.peer.id, id);
  assert.equal((await add({ peer_id: id })).status, 200);
  assert.equal((await add({ peer_id: '01JGHQ6Z4E8X2V5T9RB3KC7MDA' })).status, 404);
  assert.equal((await add({ peer_id: 'short' })).json.error.code, 'validation_error');

  const path = `/contacts/${made.json.contact.id}`;
  const changed = await acme.call('PATCH', `/api/v1${path}`, { body: { tags: ['erp'], pinned: true, alias: null } });
  assert.deepEqual(
    [changed.json.contact.tags, changed.json.contact.pinned, changed.json.contact.alias],
    [['erp'], true, null],
  );
  assert.equal((await acme.call('PATCH', `/api/v1${path}`, { body: { pinned: 'yes' } })).status, 400);
  assert.equal((await get('/contacts?limit=abc&offset=-1')).json.total, 1);
  assert.equal((await get('/contacts?limit=1&offset=1')).json.contacts.length, 0);
  for (const token of [ana.token]) {
    assert.equal((await get(path, token)).status, 404);
    assert.equal((await acme.call('PATCH', `/api/v1${path}`, { token, body: { muted: true } })).status, 404);
    assert.equal((await acme.call('DELETE', `/api/v1${path}`, { token })).status, 404);
    assert.equal((await get('/contacts', token)).json.total, 0);
  }
  assert.equal((await acme.call('GET', `/api/v1${path}`, { token: null })).status, 401);
  assert.deepEqual((await acme.call('DELETE', `/api/v1${path}`)).json, { ok: true });
  assert.equal((await get(path)).status, 404);
});

it('look-ups that find nobody say why, and find by username here', async () => {
  assert.deepEqual(
    (await lookUp('username', 'ana')).candidates.map((c: Row) => c.did),
    [`${acme.did}:agents:ana`],
  );
  for (const [method, value] of [
    ['username', 'nobody'],
    ['did', 'did:web:localhost%3A1:agents:x'],
    ['domain', 'not a domain'],
    ['phone', '+34 600 000 000'],
    ['qr_code', 'x'],
  ] as const) {
    const { candidates, error } = await lookUp(method, value);
    assert.deepEqual(candidates, [], method);
    assert.ok(error.length > 0, method);
  }
  const bad = await acme.call('POST', '/api/v1/contacts/lookup', { body: { method: 'guess', value: 'x' } });
  assert.equal(bad.status, 400);
});

it('a blocked contact and a blocked domain look as an unanswered request, and leave nothing', async () => {
  const eve = peer.identity('agents:eve');
  const id = await befriend(acme, eve);
  const stranger = peer.identity('agents:mallory');
  const unanswered = (await ask(acme, stranger, 'x')).json.error;
  await acme.call('PATCH', `/api/v1/contacts/${id}`, { body: { blocked: true } });
  const count = await rows(acme);
  assert.deepEqual((await ask(acme, eve, 'x')).json.error, unanswered);
  await acme.call('PATCH', `/api/v1/contacts/${id}`, { body: { blocked: false } });
  assert.equal(outcome(await ask(acme, eve, 'x')), 'TASK_STATE_SUBMITTED');

  const before = await rows(acme);
  assert.equal(before.requests, count.requests);
  const block = await acme.call('POST', '/api/v1/contacts/blocks', { body: { domain: peer.authority } });
  assert.deepEqual([block.status, block.json.scope], [201, 'organisation']);
  assert.deepEqual((await ask(acme, eve, 'x')).json.error, unanswered);
  assert.deepEqual((await ask(acme, peer.identity('agents:new'), 'x')).json.error, unanswered);
  assert.deepEqual(await rows(acme), before);
  assert.equal((await get('/contacts/blocks')).json.blocks[0].domain, peer.authority);
  const path = `/api/v1/contacts/blocks/${encodeURIComponent(peer.authority)}`;
  assert.equal((await acme.call('DELETE', path, { token: ana.token })).status, 404);
  assert.equal((await acme.call('DELETE', path)).status, 200);
  assert.equal(outcome(await ask(acme, eve, 'x')), 'TASK_STATE_SUBMITTED');
  assert.equal((await acme.call('POST', '/api/v1/contacts/blocks', { body: { domain: 'a/b' } })).status, 400);
});

it("a member's block is her own", async () => {
  const eve = peer.identity('agents:eva');
  await befriend(acme, eve);
  const block = await acme.call('POST', '/api/v1/contacts/blocks', {
    token: ana.token,
    body: { domain: peer.authority },
  });
  assert.equal(block.json.scope, 'own');
  const before = await rows(acme);
  assert.equal(outcome(await ask(acme, eve, 'x', { to: 'ana:general:notes' })), 'pending_connection');
  assert.deepEqual(await rows(acme), before);
  assert.equal(outcome(await ask(acme, eve, 'x')), 'TASK_STATE_SUBMITTED');
});
