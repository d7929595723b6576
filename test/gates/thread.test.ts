import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { Admitted } from '../../src/exchange/admitted.ts';
import { derivedId } from '../../src/lib/ids.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { bearer, bobDid, envelope, fromBob, message, said, signed, World } from './world.ts';

let world: World;
beforeEach(() => {
  world = new World();
});

const ask = (more = {}, inbound = {}) => world.gates.admit(message(bearer('ghn_joel'), envelope(more), inbound));
const asBob = async (more = {}, inbound = {}) =>
  world.gates.admit(message(await signed(world), fromBob(more), inbound));

function thread(outcome: Admitted | Refusal) {
  assert.ok(!(outcome instanceof Refusal) && outcome.target.kind === 'agent');
  return { ...outcome.target.thread, told: outcome.envelope.thread };
}

test('a foreign thread is a request: it may not open under its own name, and is derived under the owner and the peer', async () => {
  const derived = derivedId(['a2a-thread', 'm-ana', `peer-${bobDid}`, 't1']);
  assert.deepEqual(thread(await asBob({ thread: 't1' })), { asked: 't1', derived, mayOpen: false, told: 't1' });
  assert.deepEqual(
    thread(await asBob({ thread: 't0' }, { thread: 't1' })).derived,
    derived,
    'the carrier rules over the envelope',
  );
});

test('a local sender may open the thread that it names, and derives under its own name', async () => {
  const derived = derivedId(['a2a-thread', 'm-ana', 'm-joel', 't1']);
  assert.deepEqual(thread(await ask({ thread: 't1' })), { asked: 't1', derived, mayOpen: true, told: 't1' });
});

test('a request without a thread opens one with its own id; an id that may come again opens a new one each time', async () => {
  assert.equal(thread(await ask()).told, 'm1');
  assert.equal(thread(await asBob()).asked, 'm1');
  const [one, two] = [thread(await asBob({}, { idempotent: false })), thread(await asBob({}, { idempotent: false }))];
  assert.equal(one.asked, null);
  assert.notEqual(one.derived, two.derived);
  assert.equal(one.told, one.derived);
});

test('a thread of more than 256 characters is refused', async () => {
  assert.equal(said(await ask({ thread: 'x'.repeat(257) })), 'thread invalid_field 422');
  assert.equal(said(await ask({}, { thread: 'x'.repeat(257) })), 'thread invalid_field 422');
  assert.equal(said(await ask({ thread: 'x'.repeat(256) })), 'passed');
});

test('a session is for who takes part in it', async () => {
  const to = 'acme/finance/ana/close#s4';
  assert.equal(said(await ask({ to })), 'thread address_not_found 404');
  world.sessions.set('a-ana-close 4 m:m-joel', 'open');
  const outcome = await ask({ to });
  assert.ok(!(outcome instanceof Refusal) && outcome.target.kind === 'agent' && outcome.target.session === 4);
  world.sessions.set('a-ana-close 4 m:m-joel', 'closed');
  assert.equal(said(await ask({ to })), 'thread session_closed 409');
  assert.equal(said(await asBob({ to })), 'thread address_not_found 404');
  const fresh = await ask({ to: 'acme/finance/ana/close#new' });
  assert.ok(!(fresh instanceof Refusal) && fresh.target.kind === 'agent' && fresh.target.session === 'new');
});
