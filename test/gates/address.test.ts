import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { Admitted } from '../../src/exchange/admitted.ts';
import type { Envelope } from '../../src/exchange/message.ts';
import type { Inbound } from '../../src/gates/inbound.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { bearer, bobDid, envelope, fromBob, message, type SignOptions, said, signed, World } from './world.ts';

let world: World;
beforeEach(() => {
  world = new World();
});

const asNode = (more: Partial<Envelope> = {}, token = 'ghn_joel', inbound: Partial<Inbound> = {}) =>
  world.gates.admit(message(bearer(token), envelope(more), inbound));
const asBob = async (more: Partial<Envelope> = {}, options: SignOptions = {}, inbound: Partial<Inbound> = {}) =>
  world.gates.admit(message(await signed(world, options), fromBob(more), inbound));

function passed(outcome: Admitted | Refusal): Admitted {
  assert.ok(!(outcome instanceof Refusal), outcome instanceof Refusal ? `${said(outcome)}: ${outcome.words}` : '');
  return outcome;
}

test('a node speaks as one of its own announced agents, in full or in short, with its own session', async () => {
  for (const from of [
    'acme/dev/joel/reviewer',
    'acme.test/dev/joel/reviewer',
    'reviewer',
    'joel/reviewer',
    'did:web:acme.test:agents:joel',
  ]) {
    const { sender, senderKey, envelope: sent } = passed(await asNode({ from }));
    assert.equal(sender.address, 'acme/dev/joel/reviewer', from);
    assert.equal(senderKey, 'm:m-joel');
    assert.equal(sent.from, from, 'what was written stays as it was written');
  }
  assert.equal(passed(await asNode({ from: 'acme/dev/joel/reviewer#s4' })).sender.address, 'acme/dev/joel/reviewer#s4');
});

test("somebody else's agent and a missing one are one refusal", async () => {
  const [other, missing] = [
    await asNode({ from: 'acme/finance/ana/close' }),
    await asNode({ from: 'acme/dev/joel/nobody' }),
  ];
  assert.equal(said(other), 'address sender_mismatch 403');
  assert.deepEqual(other, missing);
  assert.equal(said(await asNode({ from: 'Acme/x' })), 'address invalid_field 422');
  assert.deepEqual(world.writes, []);
});

test('a wire without `from` and `id` gets the default agent and a fresh id', async () => {
  const {
    sender,
    envelope: sent,
    askerHasInbox,
  } = passed(await asNode({ from: '', id: '' }, 'ghn_joel', { answers: 'poll' }));
  assert.equal(sender.kind === 'local' && sender.agent?.handle, 'reviewer');
  assert.equal(sent.from, 'acme/dev/joel/reviewer');
  assert.match(sent.id, /^[0-9A-Z]{26}$/);
  assert.equal(askerHasInbox, false);
  world.agents.splice(2, 1);
  assert.equal(
    passed(await asNode({ from: '' }, 'ghn_joel', { answers: 'poll' })).sender.address,
    'acme/agents/joel/agent',
  );
  assert.equal(said(await asNode({ from: '' })), 'address sender_mismatch 403');
});

test('`to` is an address, a short form, an alias or a DID; the URL rules and must agree', async () => {
  const tos = [
    'acme/finance/ana/close',
    'acme.test/finance/ana/close',
    'finance/ana/close',
    'did:web:acme.test:agents:ana',
    'did:web:acme.test:agents:ana:finance:close',
  ];
  for (const to of tos) {
    const { target } = passed(await asNode({ to }));
    assert.equal(target.kind === 'agent' && target.agent.handle, 'close', to);
  }
  const addressee = world.agent('close');
  const { to: _, ...without } = envelope();
  passed(await world.gates.admit(message(bearer('ghn_joel'), without, { addressee })));
  passed(await asNode({ to: 'finance/ana/close' }, 'ghn_joel', { addressee }));
  assert.equal(
    said(await asNode({ to: 'finance/ana/hidden' }, 'ghn_joel', { addressee })),
    'address invalid_field 422',
  );
  assert.equal(said(await world.gates.admit(message(bearer('ghn_joel'), without))), 'address invalid_field 422');
  assert.equal(said(await asNode({ to: 'acme/finance/ana/nobody' })), 'address address_not_found 404');
  assert.equal(said(await asNode({ kind: 'event' })), 'address invalid_field 422');
  assert.equal(said(await asNode({ to: 'topic:acme/finance/x' })), 'address invalid_field 422');
});

test('an agent behind an active link is remote, under one spelling; every other org is not found', async () => {
  for (const to of [
    'globex/erp/bob/billing',
    'globex.test/erp/bob/billing#s3',
    'did:web:globex.test:agents:bob:erp:billing',
  ]) {
    assert.deepEqual(passed(await asNode({ to })).target, {
      kind: 'remote',
      address: 'globex/erp/bob/billing',
      domain: 'globex.test',
      linkId: 'l-globex',
      peerId: `peer-${bobDid}`,
    });
  }
  world.writes.length = 0;
  const missing = await asNode({ to: 'initech/a/b/c' });
  assert.equal(said(missing), 'address address_not_found 404');
  world.links[0]!.state = 'revoked';
  assert.deepEqual(await asNode({ to: 'globex/erp/bob/billing' }), missing);
  assert.deepEqual(world.writes, []);
});

test('a peer org speaks beneath its signer only', async () => {
  const { sender, senderKey, askerVia } = passed(await asBob());
  assert.deepEqual(sender, {
    kind: 'peer',
    did: bobDid,
    domain: 'globex.test',
    address: 'globex/erp/bob/billing',
    peerId: `peer-${bobDid}`,
    linkId: 'l-globex',
  });
  assert.equal(senderKey, `p:peer-${bobDid}`);
  assert.equal(askerVia, 'globex.test');
  assert.equal(
    passed(await asBob({ from: 'globex.test/erp/bob/billing#s2' })).sender.address,
    'globex/erp/bob/billing#s2',
  );

  world.writes.length = 0;
  const mismatches: [string, string][] = [
    ['globex/erp/eve/billing', bobDid],
    ['initech/erp/bob/billing', bobDid],
    ['acme/finance/ana/close', bobDid],
    ['globex/erp/bob/billing', 'did:web:globex.test'],
  ];
  for (const [from, did] of mismatches)
    assert.equal(said(await asBob({ from }, { did })), 'address sender_mismatch 403', from);
  const eve = 'did:web:globex.test:agents:eve';
  assert.equal(said(await asBob({ from: eve })), 'address sender_mismatch 403');
  assert.equal(said(await asBob({ from: bobDid }, {}, { claimedDid: eve })), 'address sender_mismatch 403');
  assert.equal(said(await asBob({ from: `${bobDid}x` })), 'address sender_mismatch 403');
  assert.deepEqual(world.writes, []);
});

test('who is not the primary org there signs with the DID of its org', async () => {
  world.links[0] = { ...world.links[0]!, peerHandle: 'sub', peerOrg: 'sub', peerIsPrimary: false };
  const subBob = 'did:web:globex.test:orgs:sub:agents:bob';
  world.publish(subBob);
  world.agent('close').allow = ['org:sub'];
  passed(await asBob({ from: 'sub/erp/bob/billing' }, { did: subBob }));
  assert.equal(said(await asBob({ from: 'sub/erp/bob/billing' })), 'address sender_mismatch 403');
  assert.equal(
    said(await asBob({ from: 'globex.test/erp/bob/billing' }, { did: subBob })),
    'address sender_mismatch 403',
  );
});

test('FED-06: for a linked org hidden, missing and unlinked are the same, whatever it claims to be; nothing is written', async () => {
  const hidden = await asBob({ to: 'acme/finance/ana/hidden' });
  assert.equal(said(hidden), 'address address_not_found 404');
  const asked = [...world.asked];
  world.asked.length = 0;
  const missing = await asBob({ to: 'acme/finance/ana/nobody' });
  assert.deepEqual(missing, hidden);
  assert.deepEqual(world.asked, asked, 'as many look-ups');
  assert.deepEqual(await asBob({ to: 'nowhere/finance/ana/close' }), hidden);
  assert.deepEqual(await asBob({ to: 'sales/field/sue/pitch' }), hidden, 'an org here that is not linked');
  assert.deepEqual(await asBob({ to: 'globex/erp/bob/other' }), hidden, 'nothing is passed on');
  const false_ = { from: 'globex/erp/eve/x' };
  assert.deepEqual(
    await asBob({ ...false_, to: 'acme/finance/ana/hidden' }),
    await asBob({ ...false_, to: 'acme/finance/ana/nobody' }),
  );

  world.links = [];
  for (const to of ['acme/finance/ana/close', 'acme/finance/ana/hidden', 'acme/finance/ana/nobody', 'nowhere/a/b/c']) {
    assert.deepEqual(await asBob({ to }), hidden, to);
  }
  assert.deepEqual(world.writes, []);
});

test('only the asked agent answers, through any node of its person', async () => {
  world.exchanges.push({
    id: 'e2',
    requestId: 'q2',
    asker: 'm:m-joel',
    askerAgent: 'a-joel-reviewer',
    askerOwner: 'm-joel',
    askerAddr: 'acme/dev/joel/reviewer',
    askerVia: null,
    asked: 'm:m-ana',
    askedAgent: 'a-ana-close',
    askedAddr: 'acme/finance/ana/close',
    ended: false,
  });
  const answer = { kind: 'reply' as const, reply_to: 'q2', from: 'acme/finance/ana/close' };
  const { to: _, ...sent } = envelope(answer);
  assert.deepEqual(passed(await world.gates.admit(message(bearer('ghn_ana'), sent))).target, {
    kind: 'asker',
    exchangeId: 'e2',
  });
  assert.equal(said(await world.gates.admit(message(bearer('ghn_joel'), sent))), 'address sender_mismatch 403');
  assert.equal(said(await asNode({ ...answer, from: 'acme/finance/ana/hidden' }, 'ghn_ana')), 'address not_found 404');
  assert.equal(said(await asNode({ ...answer, reply_to: null }, 'ghn_ana')), 'address invalid_field 422');
});

test('a linked gateway answers for the agent that was asked there; its instance tells only what failed', async () => {
  world.askedOfBob();
  const reply = { kind: 'reply' as const, reply_to: 'q1', to: 'acme/dev/joel/reviewer' };
  assert.deepEqual(passed(await asBob(reply)).target, { kind: 'asker', exchangeId: 'e1' });
  passed(await asBob({ ...reply, from: 'globex.test/erp/bob/billing#s7' }));
  assert.equal(said(await asBob({ ...reply, from: 'globex/erp/bob/other' })), 'address not_found 404');
  const eve = { did: 'did:web:globex.test:agents:eve' };
  assert.equal(said(await asBob(reply, eve)), 'address sender_mismatch 403');

  const instance = { did: 'did:web:globex.test' };
  const notice = passed(await asBob({ ...reply, error: true }, instance));
  assert.equal(notice.sender.kind, 'relay');
  assert.equal(notice.senderKey, 'relay:globex.test');
  assert.equal(notice.askerVia, null);
  assert.equal(said(await asBob(reply, instance)), 'address sender_mismatch 403');
});

test('REL-07: ids of two senders never meet, not even of two that nobody knows', async () => {
  world.agent('close').allow = ['anyone'];
  const mal = 'did:web:stranger.test:agents:mal';
  const keys = [
    passed(await asNode()).senderKey,
    passed(await asBob()).senderKey,
    passed(await asBob({ from: mal }, { did: mal })).senderKey,
  ];
  assert.equal(new Set(keys).size, 3);
});
