import assert from 'node:assert/strict';
import { after, before, beforeEach, it } from 'node:test';
import { ManualClock } from '../../src/lib/clock.ts';
import { eventually, person, team, testGateway } from '../support/gateway.ts';
import { envelope, type Identity, inA2a, rows, sendSigned, startPeer } from '../support/peer.ts';
import { ask, befriend, decide, outcome, pending, putPolicy, type Row, stateOf, taskId, time } from './support.ts';

const clock = new ManualClock();
time.now = () => clock.now();
const acme = await testGateway({ after }, { clock });
const peer = await startPeer({ after });
const reviewer = 'acme/dev/joel/reviewer';
let ana: Awaited<ReturnType<typeof person>>;
let count = 0;
/** A contact of joel's whom his policy does not know yet. */
let eve: Identity;
let contact: string;

/** All that waits, confirmed at once. */
const inbox = async () => {
  const path = '/redsyn/v1/inbox/acme/dev/joel/reviewer';
  const { items } = (await acme.call('GET', `${path}?max=50`)).json;
  if (items.length > 0) await acme.call('POST', `${path}/ack`, { body: { ids: items.map(({ id }: Row) => id) } });
  return items as Row[];
};
const texts = async () => (await inbox()).map(({ body }) => body.text);

before(async () => {
  await team(acme, 'dev', ['joel']);
  await acme.admin.announce(reviewer);
  ana = await person(acme, 'ana');
});
beforeEach(async () => {
  eve = peer.identity(`agents:eve${count++}`);
  await putPolicy(acme, '');
  contact = await befriend(acme, eve, 'Eve');
  await inbox();
});

const heldFor = async (who: Identity) => (await pending(acme)).filter((row) => row.peer_did === who.did);

it('a stranger waits: one request with its first message, nothing stored; allowed, it asks', async () => {
  const mallory = peer.identity(`agents:mallory${count}`);
  const before = await rows(acme);
  assert.equal(outcome(await ask(acme, mallory, 'First')), 'pending_connection');
  assert.equal(outcome(await ask(acme, mallory, 'Second')), 'pending_connection');
  const after = await rows(acme);
  assert.deepEqual({ ...after, requests: 0 }, { ...before, requests: 0 });
  assert.equal(after.requests! - before.requests!, 1);
  const [row] = await heldFor(mallory);
  assert.equal(row.level, 'L2');
  assert.equal(row.action, 'connect');
  assert.equal(row.scope.first_message, 'First');
  assert.equal(row.decision, 'pending');
  assert.ok(!Number.isNaN(Date.parse(row.requested_at)));

  assert.equal((await decide(acme, row.id, 'allow_once', { token: ana.token })).status, 404, 'not her request');
  assert.deepEqual((await decide(acme, row.id, 'allow_once', { scope: 'global' })).json, { ok: true });
  assert.equal(outcome(await ask(acme, mallory, 'Third')), 'TASK_STATE_SUBMITTED');
  const { json } = await acme.call('GET', '/api/v1/contacts');
  const made = json.contacts.find((each: Row) => each.peer.did === mallory.did);
  assert.equal(made.added_via, 'inbound_request');
  const other = peer.identity(`agents:other${count}`);
  assert.equal(outcome(await ask(acme, other, 'And I?')), 'pending_connection', 'global lets nobody else in');
});

it('FED-06: a missing agent of an owner who is here looks as a hidden one does; a missing owner is missing', async () => {
  const stranger = peer.identity(`agents:stranger${count}`);
  const of = async (to: string) => {
    const { status, json } = await ask(acme, stranger, 'Anybody?', { to });
    return { status, error: json.error };
  };
  const hidden = await of('joel:dev:reviewer');
  assert.deepEqual(await of('joel:dev:nobody'), hidden);
  assert.deepEqual(await of('joel:nowhere:nobody'), hidden);
  assert.equal((await heldFor(stranger)).length, 1);
  assert.equal(outcome(await ask(acme, stranger, 'x', { to: 'nobody:dev:reviewer' })), 'address_not_found');
  assert.equal(outcome(await ask(acme, eve, 'x', { to: 'joel:dev:nobody' })), 'address_not_found', 'a contact is told');
});

it('ask_user: stored and shown, not delivered; allowed twice at once it is delivered once', async () => {
  await putPolicy(acme, 'peer.eve:\n  default: ask_user\n');
  const asked = await ask(acme, eve, 'May I know?');
  assert.equal(outcome(asked), 'TASK_STATE_AUTH_REQUIRED');
  assert.deepEqual(await texts(), []);
  const [row] = await heldFor(eve);
  assert.equal(row.action, 'ask');
  assert.equal(row.level, 'L2');
  assert.equal(row.scope.kind, 'a2a_question');
  assert.equal(row.scope.content, 'May I know?');
  const shown = await acme.call('GET', `/redsyn/v1/threads/${row.scope.conversation_id}`);
  assert.match(shown.text, /May I know\?/);

  const follow = await ask(acme, eve, 'And this?', { taskId: taskId(asked) });
  assert.ok(
    ['pending_approval', 'TASK_STATE_AUTH_REQUIRED'].includes(outcome(follow)),
    'nothing goes round the question',
  );
  assert.deepEqual(await texts(), []);
  const both = await Promise.all([decide(acme, row.id, 'allow_once'), decide(acme, row.id, 'deny')]);
  assert.deepEqual(
    both.map(({ json }) => json),
    [{ ok: true }, { ok: true }],
  );
  const { json } = await acme.call('GET', '/api/v1/permissions/history');
  const first = json.permissions.find((each: Row) => each.id === row.id);
  const state = await stateOf(acme, eve, taskId(asked));
  if (first.decision === 'allow_once')
    assert.deepEqual([await texts(), state], [['May I know?'], 'TASK_STATE_SUBMITTED']);
  else assert.deepEqual([await texts(), state], [[], 'TASK_STATE_REJECTED']);
  await decide(acme, row.id, 'allow_once');
  assert.ok((await texts()).length <= 1);
});

it('double approval delivers once; a denied one is rejected and the asker told', async () => {
  await putPolicy(acme, 'peer.eve:\n  require_human_in_loop: true\n');
  const allowed = taskId(await ask(acme, eve, 'Once'));
  const denied = taskId(await ask(acme, eve, 'Never'));
  const held = await heldFor(eve);
  const once = held.find((row) => row.scope.content === 'Once');
  const never = held.find((row) => row.scope.content === 'Never');
  await Promise.all([1, 2, 3].map(() => decide(acme, once.id, 'allow_once')));
  await decide(acme, never.id, 'deny');
  const got = await inbox();
  assert.deepEqual(
    got.map(({ body }) => body.text),
    ['Once'],
  );
  await acme.admin.call('POST', '/messages', {
    v: 1,
    id: `answer-${count}`,
    kind: 'reply',
    from: reviewer,
    reply_to: got[0].id,
    thread: got[0].thread,
    body: { type: 'text/plain', text: 'Yes' },
  });
  assert.equal(await stateOf(acme, eve, allowed), 'TASK_STATE_COMPLETED');
  assert.equal(await stateOf(acme, eve, denied), 'TASK_STATE_REJECTED');
});

it('somebody else decides nothing, nobody decides nothing, and the body is checked', async () => {
  await putPolicy(acme, 'peer.eve:\n  default: ask_user\n');
  await ask(acme, eve, 'Hm?');
  const [row] = await heldFor(eve);
  assert.equal((await decide(acme, row.id, 'allow_once', { token: ana.token })).status, 404);
  assert.equal((await decide(acme, '01JGHQ6Z4E8X2V5T9RB3KC7MDA', 'allow_once')).status, 404);
  assert.equal((await decide(acme, row.id, 'allow_once', { token: null })).status, 401);
  assert.equal((await decide(acme, row.id, 'maybe')).json.error.code, 'validation_error');
  assert.equal((await decide(acme, row.id, 'deny', { scope: 'world' })).status, 400);
  assert.equal((await pending(acme, ana.token)).length, 0);
  assert.equal((await heldFor(eve)).length, 1);
});

it('always leaves a rule with the narrow scope, which can be taken back', async () => {
  await putPolicy(acme, 'peer.*:\n  default: ask_user\n');
  const bob = peer.identity(`agents:bob${count}`);
  await befriend(acme, bob);
  await ask(acme, eve, 'One');
  await decide(acme, (await heldFor(eve))[0].id, 'allow_always');
  assert.equal(outcome(await ask(acme, eve, 'Two')), 'TASK_STATE_SUBMITTED');
  assert.equal(outcome(await ask(acme, bob, 'Two')), 'TASK_STATE_AUTH_REQUIRED', 'somebody else is still asked for');
  await decide(acme, (await heldFor(bob))[0].id, 'deny_always', { scope: 'peer' });
  assert.equal(outcome(await ask(acme, bob, 'Three')), 'policy_denied');
  const { rules } = (await acme.call('GET', '/api/v1/permissions/rules')).json;
  const own = rules.filter((rule: Row) => [eve.did, bob.did].includes(rule.peer_did));
  assert.deepEqual(
    own.map((rule: Row) => [rule.peer_did, rule.action, rule.decision]).sort(),
    [
      [bob.did, '*', 'deny'],
      [eve.did, 'ask', 'allow'],
    ].sort(),
  );
  const denied = own.find((rule: Row) => rule.decision === 'deny');
  assert.equal((await acme.call('DELETE', `/api/v1/permissions/rules/${denied.id}`, { token: ana.token })).status, 404);
  assert.equal((await acme.call('DELETE', `/api/v1/permissions/rules/${denied.id}`)).status, 200);
  assert.equal(outcome(await ask(acme, bob, 'Four')), 'TASK_STATE_AUTH_REQUIRED');
});

it('who is no contact any more is not answered on approval', async () => {
  await putPolicy(acme, 'peer.eve:\n  default: ask_user\n');
  const task = taskId(await ask(acme, eve, 'Late'));
  const [row] = await heldFor(eve);
  assert.equal((await acme.call('DELETE', `/api/v1/contacts/${contact}`)).status, 200);
  assert.deepEqual((await decide(acme, row.id, 'allow_once')).json, { ok: true });
  assert.deepEqual(await texts(), []);
  assert.equal(await stateOf(acme, eve, task), 'TASK_STATE_REJECTED');
});

it('what nobody decides in time ends, and what its asker withdraws is decided by nobody', async () => {
  await putPolicy(acme, 'peer.eve:\n  default: ask_user\n');
  const withdrawn = taskId(await ask(acme, eve, 'Never mind'));
  const [gone] = await heldFor(eve);
  const notice = { v: 1, id: 'n', kind: 'progress', body: { type: 'text/plain', text: '' } };
  await acme.database.db.query('select * from cancel_task($1, $2, $3, $4, $5, $6)', [
    withdrawn,
    `notice-${count}`,
    JSON.stringify(notice),
    clock.now() + 1_000_000,
    '',
    clock.now(),
  ]);
  assert.equal(await stateOf(acme, eve, withdrawn), 'TASK_STATE_CANCELED');
  await decide(acme, gone.id, 'allow_once');
  assert.deepEqual(await inbox(), [], 'not even a notice of something that the agent never saw');

  const late = taskId(await ask(acme, eve, 'Soon'));
  const [row] = await heldFor(eve);
  clock.advance(86_400_001);
  assert.deepEqual(await heldFor(eve), []);
  const after = await decide(acme, row.id, 'allow_once');
  assert.ok(after.status === 410 || after.json.ok === true);
  assert.deepEqual(await texts(), []);
  await eventually('the end of it', async () => {
    clock.advance(5_000);
    return (await stateOf(acme, eve, late).catch(() => '')) !== 'TASK_STATE_AUTH_REQUIRED';
  });
});

it('L3 is asked every time, names each effect, and is decided by nobody before its countdown has run', async () => {
  await putPolicy(acme, 'peer.eve:\n  allow:\n    - payment: "**"\n    - ask: "**"\n');
  const pay = async (action: string) => {
    const of = envelope({ from: eve.did, to: reviewer, action }, { sealed: false, now: clock.now() });
    const sent = { path: '/a2a/v1', body: inA2a(of), headers: { 'a2a-version': '1.0' } };
    return outcome(await sendSigned(acme, sent, eve, { now: clock.now() }));
  };
  assert.equal(await pay('ask:technical'), 'TASK_STATE_SUBMITTED');
  assert.equal(await pay('payment:order 17, 300 EUR'), 'TASK_STATE_AUTH_REQUIRED');
  const [row] = await heldFor(eve);
  assert.deepEqual(
    [row.level, row.effects, row.remaining],
    ['L3', ['Money is paid in your name: order 17, 300 EUR'], 10],
  );
  for (const decision of ['allow_once', 'allow_always', 'deny']) {
    const early = await decide(acme, row.id, decision);
    assert.deepEqual([early.status, early.json.error.code, early.json.error.details.remaining], [409, 'conflict', 10]);
    assert.equal(early.headers.get('retry-after'), '10');
  }
  clock.advance(9_001);
  assert.equal((await decide(acme, row.id, 'allow_once')).json.error.details.remaining, 1);
  clock.advance(999);
  assert.deepEqual((await decide(acme, row.id, 'allow_always')).json, { ok: true });
  assert.equal((await inbox()).length, 2);
  assert.equal(await pay('payment:order 18'), 'TASK_STATE_AUTH_REQUIRED', 'always does not cover L3');
  assert.equal(await pay('two\nlines'), 'invalid_field');
});
