import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { Envelope } from '../../src/exchange/message.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import {
  bearer,
  bobDid,
  envelope,
  fromBob,
  globexLink,
  message,
  request,
  type SignOptions,
  said,
  signed,
  World,
} from './world.ts';

const mal = 'did:web:stranger.test:agents:mal';
let world: World;
beforeEach(() => {
  world = new World();
  world.agent('close').allow = [];
});

const asMal = async (more: Partial<Envelope> = {}, options: SignOptions = {}) =>
  world.gates.admit(message(await signed(world, { did: mal, ...options }), fromBob({ from: mal, ...more })));
const asBob = async () => world.gates.admit(message(await signed(world), fromBob()));
const contact = (peerDid: string, blocked = false): void => {
  world.contacts = [{ id: 'c1', owner: 'm-ana', peerId: 'p1', peerDid, blocked }];
};
const pending = 'consent pending_connection 202';

test('a stranger leaves one connection request however often and by whatever name it knocks', async () => {
  assert.equal(said(await asMal()), pending);
  assert.equal(said(await asMal({ from: `${mal}:agent`, id: 'm2' })), pending);
  assert.equal(said(await asMal({ from: `${mal}:x:y`, id: 'm3', to: 'acme/finance/ana/hidden' })), pending);
  assert.deepEqual(world.writes, [`request m-ana ${mal}`]);
  assert.ok(!world.asked.includes('teamsOf'), 'later gates were not reached');
});

test('a contact by its agent or by its signer passes, whatever allow says', async () => {
  contact(mal);
  assert.equal(said(await asMal({ from: `${mal}:agent` })), 'passed');
  contact(`${mal}:agent`);
  assert.equal(said(await asMal({ from: `${mal}:agent` })), 'passed');
  assert.equal(said(await asMal({ from: `${mal}:other` })), pending);
});

test('blocked looks like pending, and leaves nothing', async () => {
  const stranger = await asMal();
  world.writes.length = 0;
  contact(mal, true);
  world.agent('close').allow = ['anyone'];
  assert.deepEqual(await asMal(), stranger);
  world.contacts = [];
  world.blockedDomains.add('o-acme stranger.test');
  assert.deepEqual(await asMal(), stranger);
  assert.deepEqual(world.writes, []);
});

test('a linked org passes where allow names it by handle or authority, anyone, or its agent is a contact', async () => {
  assert.equal(said(await asBob()), pending);
  assert.deepEqual(world.writes, [`request m-ana ${bobDid}`]);
  for (const word of ['org:globex', 'org:globex.test', 'anyone']) {
    world.agent('close').allow = [word];
    assert.equal(said(await asBob()), 'passed', word);
  }
  world.agent('close').allow = ['org:initech', 'globex', 'team:globex', 'org'];
  assert.equal(said(await asBob()), pending);
  contact(`${bobDid}:erp:billing`);
  assert.equal(said(await asBob()), 'passed');
});

test('nobody in particular reaches who takes anyone; elsewhere it cannot tell closed from missing', async () => {
  const knock = (to: string) => world.gates.admit(message(request(), envelope({ from: '', to })));
  const closed = await knock('acme/finance/ana/close');
  assert.equal(said(closed), 'authenticate unauthenticated 401');
  assert.deepEqual(await knock('acme/finance/ana/nobody'), closed);
  assert.deepEqual(await knock('nowhere/a/b/c'), closed);
  world.agent('close').allow = ['anyone'];
  const open = await knock('acme/finance/ana/close');
  assert.ok(!(open instanceof Refusal) && open.senderKey.startsWith('anonymous:'));
  assert.equal(open.envelope.from, 'anonymous');
  assert.deepEqual(world.writes, []);
});

test('another org of this instance asks for consent in the name of its owner', async () => {
  const link = { ...globexLink, orgId: 'o-sales', peerHandle: 'acme', peerDomain: null, peerOrgId: 'o-acme' };
  world.links = [{ ...link, ours: [{ kind: 'agent', pattern: '*' }] }];
  const send = () => world.gates.admit(message(bearer('ghn_joel'), envelope({ to: 'sales/field/sue/pitch' })));
  assert.equal(said(await send()), pending);
  assert.deepEqual(world.writes, ['request m-sue did:web:acme.test:agents:joel']);
});
test('a room takes what its members write, whatever its `allow` says, and nothing of anybody else', async () => {
  world.agent('close').profile = { room: {} };
  world.agent('close').allow = ['anyone', 'org'];
  const joel = () => world.gates.admit(message(bearer('ghn_joel'), envelope()));
  assert.equal(said(await joel()), 'consent policy_denied 403');
  assert.equal(said(await asMal()), pending, 'strangers are told what they are told of every agent');
  assert.equal(
    said(await world.gates.admit(message(request(), envelope({ from: '' })))),
    'authenticate unauthenticated 401',
  );
  assert.deepEqual(world.writes, [], 'it asks its owner nothing: only a did:key may ask to join');
  const { id } = world.agent('close');
  world.roomMembers.add(`${id} a-joel-reviewer`);
  world.roomMembers.add(`${id} ${mal}`);
  world.agent('close').allow = [];
  assert.equal(said(await joel()), 'passed');
  assert.equal(said(await asMal()), 'passed');
  contact(mal, true);
  assert.equal(said(await asMal()), pending, 'who is blocked writes nowhere');
});
