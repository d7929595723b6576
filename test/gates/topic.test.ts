import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Admission } from '../../src/exchange/admitted.ts';
import type { Envelope } from '../../src/exchange/message.ts';
import type { HandedOn, Inbound } from '../../src/gates/inbound.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { bearer, envelope, fromBob, globexLink, message, said, seal, seed, signed, World } from './world.ts';

const instance = 'did:web:globex.test';
const open = { kind: 'pub' as const, pattern: 'finance/invoices' };
const event = (more: Partial<Envelope> = {}): Envelope =>
  envelope({ kind: 'event', to: 'topic:acme/finance/invoices', ...more });
const fromGlobex = (more: Partial<Envelope> = {}): Envelope => event({ from: fromBob().from, ...more });

function passed(outcome: unknown): Admission {
  if (outcome instanceof Refusal) assert.fail(`${outcome.gate} ${outcome.code}: ${outcome.words}`);
  return outcome as Admission;
}

async function handOn(world: World, sent: Envelope, more: Partial<HandedOn> = {}, inbound: Partial<Inbound> = {}) {
  const handedOn: HandedOn = {
    topic: 'topic:globex/erp/news',
    from: 'globex/erp/bob/billing',
    audience: [{ org: 'acme', rev: 7 }],
    ...more,
  };
  return world.gates.admit(message(await signed(world, { did: instance }), sent, { handedOn, ...inbound }));
}

test('a topic of one’s own org, in full or from the seat of who speaks', async () => {
  const world = new World();
  for (const to of ['topic:acme/dev/builds', 'topic:dev/builds', 'topic:builds', 'topic:acme.test/dev/builds']) {
    const { target } = passed(await world.gates.admit(message(bearer('ghn_joel'), event({ to }))));
    assert.deepEqual(target, {
      kind: 'event',
      address: 'topic:acme/dev/builds',
      team: 'dev',
      name: 'builds',
      spread: { to: 'own', orgId: 'o-acme', org: 'acme', checks: [], skip: 'a-joel-reviewer' },
    });
  }
});

test('another org publishes only through an active link whose `pub` names the topic, and is checked again when it is handed out', async () => {
  const world = new World();
  const send = async () => said(await world.gates.admit(message(await signed(world), fromGlobex())));
  const missing = 'address address_not_found 404';
  assert.equal(await send(), missing);
  for (const ours of [
    [{ ...open, kind: 'sub' as const }],
    [{ ...open, pattern: 'finance/invoices2' }],
    [{ ...open, pattern: 'dev/*' }],
  ]) {
    world.links = [{ ...globexLink, ours }];
    assert.equal(await send(), missing);
  }
  for (const pattern of ['finance/invoices', 'finance/*', '*']) {
    world.links = [{ ...globexLink, ours: [{ ...open, pattern }] }];
    const { target } = passed(await world.gates.admit(message(await signed(world), fromGlobex())));
    assert.ok(target.kind === 'event' && target.spread.to === 'own');
    assert.deepEqual(target.spread.checks, ['pub ours l-globex finance/invoices']);
  }
  world.links = [{ ...globexLink, ours: [open], state: 'revoked' }];
  assert.equal(await send(), missing);
  world.links = [{ ...globexLink, ours: [open] }];
  world.blockedDomains.add('o-acme globex.test');
  assert.equal(await send(), missing);
});

test('events meet a link’s signed_only and ips', async () => {
  const world = new World();
  world.links = [{ ...globexLink, ours: [open], signedOnly: true }];
  const send = async (sent: Envelope) => said(await world.gates.admit(message(await signed(world), sent)));
  assert.equal(await send(fromGlobex()), 'link policy_denied 403');
  assert.equal(await send(seal(fromGlobex(), seed('node of bob'), Math.floor(world.clock.now() / 1000))), 'passed');
  world.links = [{ ...globexLink, ours: [open], ips: ['203.0.113.0/24'] }];
  assert.equal(await send(fromGlobex()), 'link policy_denied 403');
});

test('a topic of a linked org is for its own gateway; every other org is not found', async () => {
  const world = new World();
  const { target } = passed(
    await world.gates.admit(message(bearer('ghn_joel'), event({ to: 'topic:globex.test/erp/news' }))),
  );
  assert.deepEqual(target, {
    kind: 'event',
    address: 'topic:globex/erp/news',
    team: 'erp',
    name: 'news',
    spread: { to: 'far', domain: 'globex.test', linkId: 'l-globex' },
  });
  const nowhere = await world.gates.admit(message(bearer('ghn_joel'), event({ to: 'topic:initech/erp/news' })));
  assert.equal(said(nowhere), 'address address_not_found 404');
});

test('only the gateway of a topic hands its events on, to the orgs that it names and that follow it', async () => {
  const world = new World();
  const sent = fromGlobex({ to: 'topic:news' });
  const { target, sender, senderKey } = passed(await handOn(world, sent));
  assert.deepEqual(target, {
    kind: 'event',
    address: 'topic:globex/erp/news',
    team: 'erp',
    name: 'news',
    spread: { to: 'behind', revs: { 'l-globex': 7 }, skip: null },
  });
  assert.equal(sender.kind, 'relay');
  // Ids are their publishers' own, whoever hands them on.
  assert.equal(senderKey, 'relay:globex.test globex/erp/bob/billing');
  const own = passed(await handOn(world, event(), { from: 'acme/dev/joel/reviewer' }));
  assert.ok(own.target.kind === 'event' && own.target.spread.to === 'behind');
  assert.equal(own.target.spread.skip, 'a-joel-reviewer');

  const missing = 'address address_not_found 404';
  assert.equal(said(await handOn(world, sent, { topic: 'topic:acme/finance/invoices' })), missing);
  assert.equal(said(await handOn(world, sent, { topic: 'topic:initech/erp/news' })), missing);
  assert.equal(said(await handOn(world, sent, { audience: [{ org: 'sales', rev: 1 }] })), missing);
  world.links = [{ ...globexLink, state: 'revoked' }];
  assert.equal(said(await handOn(world, sent)), missing);
});

test('an owner’s key hands nothing on: what it says about handing on is not read', async () => {
  const world = new World();
  const inbound = message(await signed(world), fromGlobex({ to: 'topic:globex/erp/news' }), {
    handedOn: { topic: 'topic:globex/erp/news', from: 'globex/erp/bob/billing', audience: [{ org: 'acme', rev: 7 }] },
  });
  assert.equal(said(await world.gates.admit(inbound)), 'address address_not_found 404');
});

test('what is handed on meets signed_only too: that its gateway signs the request does not stand for its publisher', async () => {
  const world = new World();
  world.links = [{ ...globexLink, signedOnly: true }];
  const sent = fromGlobex({ to: 'topic:news' });
  assert.equal(said(await handOn(world, sent)), 'link policy_denied 403');
  const sealed = seal(sent, seed('node of bob'), Math.floor(world.clock.now() / 1000));
  assert.equal(said(await handOn(world, sealed)), 'passed');
});
