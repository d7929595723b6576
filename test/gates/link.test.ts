import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { Envelope } from '../../src/exchange/message.ts';
import type { Link } from '../../src/federation/types.ts';
import {
  bearer,
  bobDid,
  envelope,
  fromBob,
  globexLink,
  message,
  type SignOptions,
  said,
  seal,
  seed,
  signed,
  World,
} from './world.ts';

let world: World;
beforeEach(() => {
  world = new World();
});

const rule = (more: Partial<Link>): void => {
  world.links = [{ ...globexLink, ...more }];
};
const asBob = async (more: Partial<Envelope> = {}, options: SignOptions = {}) =>
  said(await world.gates.admit(message(await signed(world, options), fromBob(more))));
const sealed = (more: Partial<Envelope> = {}) =>
  seal(fromBob(more), seed('node of bob'), Math.floor(world.clock.now() / 1000));
const missing = 'address address_not_found 404';

test('only an active link lets an org in, and only to what is exposed', async () => {
  assert.equal(await asBob(), 'passed');
  for (const state of ['proposed', 'revoked'] as const) {
    rule({ state });
    assert.equal(await asBob(), missing);
  }
  for (const pattern of ['*', 'finance/*', 'finance/ana/*', 'finance/ana/close']) {
    rule({ ours: [{ kind: 'agent', pattern }] });
    assert.equal(await asBob(), 'passed', pattern);
  }
  for (const ours of [
    [],
    [{ kind: 'agent', pattern: 'finance/ana/clos' }],
    [{ kind: 'pub', pattern: '*' }],
  ] as Link['ours'][]) {
    rule({ ours });
    assert.equal(await asBob(), missing);
  }
  assert.ok(!world.writes.some((entry) => entry.startsWith('request')));
});

test('signed_only takes a node signature, and ips an address or network of either family', async () => {
  rule({ signedOnly: true });
  assert.equal(await asBob(), 'link policy_denied 403');
  assert.equal(said(await world.gates.admit(message(await signed(world), sealed()))), 'passed');
  for (const [ip, taken] of [
    ['203.0.113.7', true],
    ['198.51.100.77', true],
    ['::ffff:203.0.113.7', true],
    ['2001:db8::5', true],
    ['203.0.113.8', false],
    ['2001:db9::5', false],
  ] as const) {
    rule({ ips: ['203.0.113.7', '198.51.100.64/26', '2001:db8::/32'] });
    assert.equal(await asBob({}, { ip }), taken ? 'passed' : 'link policy_denied 403', ip);
  }
});

test('a hidden agent stays missing whatever else the link would refuse', async () => {
  rule({ signedOnly: true, ips: ['203.0.113.7'], ours: [] });
  assert.equal(await asBob(), missing);
  assert.equal(await asBob({ to: 'acme/finance/ana/nobody' }), missing);
});

test('answers meet signed_only and ips but no exposure; notices of the other gateway need no node signature', async () => {
  world.askedOfBob();
  const reply = { kind: 'reply' as const, reply_to: 'q1' };
  rule({ ours: [] });
  assert.equal(await asBob(reply), 'passed');
  rule({ signedOnly: true });
  assert.equal(await asBob(reply), 'link policy_denied 403');
  assert.equal(said(await world.gates.admit(message(await signed(world), sealed(reply)))), 'passed');
  assert.equal(await asBob({ ...reply, error: true }, { did: 'did:web:globex.test' }), 'passed');
  rule({ ips: ['203.0.113.7'] });
  assert.equal(await asBob(reply), 'link policy_denied 403');
  rule({ state: 'revoked' });
  assert.equal(await asBob(reply), missing);
});

test('a blocked domain is a missing address for an org, and for an answer of who comes as itself', async () => {
  world.blockedDomains.add('o-acme globex.test');
  assert.equal(await asBob(), missing);
  world.askedOfBob({ askedAddr: 'globex.test/erp/bob/billing' });
  assert.equal(await asBob({ kind: 'reply', reply_to: 'q1', from: `${bobDid}:erp:billing` }), missing);
});

test('two orgs of one instance need a link like any other two', async () => {
  const toSales = () => world.gates.admit(message(bearer('ghn_joel'), envelope({ to: 'sales/field/sue/pitch' })));
  assert.equal(said(await toSales()), missing);
  world.links.push({
    ...globexLink,
    id: 'l-acme',
    orgId: 'o-sales',
    peerHandle: 'acme',
    peerDomain: null,
    peerOrgId: 'o-acme',
    ours: [{ kind: 'agent', pattern: '*' }],
  });
  world.agent('pitch').allow = ['org:acme'];
  assert.equal(said(await toSales()), 'passed');
  world.links[1]!.state = 'revoked';
  assert.equal(said(await toSales()), missing);
  assert.equal(
    said(await world.gates.admit(message(bearer('ghn_joel'), envelope()))),
    'passed',
    'within one org there is none',
  );
});
