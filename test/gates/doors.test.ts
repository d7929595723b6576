import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { Link } from '../../src/federation/types.ts';
import { bearer, bobDid, envelope, fromBob, globexLink, message, said, seal, seed, signed, World } from './world.ts';

let world: World;
beforeEach(() => {
  world = new World();
});

const missing = 'address address_not_found 404';
const rule = (more: Partial<Link>): void => {
  world.links = [{ ...globexLink, ...more }];
};

test('what was asked through a link is answered through it, in whichever of its names the peer signs', async () => {
  // The handle of a primary org is its domain, unless it chose another: then an address and a DID's address are one text.
  const askedAddr = 'globex.test/erp/bob/billing';
  world.askedOfBob({ askedAddr });
  const reply = { kind: 'reply' as const, reply_to: 'q1', from: `${bobDid}:erp:billing` };
  const asItself = async (more: object = {}): Promise<string> =>
    said(await world.gates.admit(message(await signed(world), fromBob({ ...reply, ...more }))));
  rule({ peerHandle: 'globex.test' });
  assert.equal(await asItself(), 'passed');
  rule({ peerHandle: 'globex.test', signedOnly: true });
  assert.equal(await asItself(), 'link policy_denied 403');
  const sealed = seal(fromBob(reply), seed('node of bob'), Math.floor(world.clock.now() / 1000));
  assert.equal(said(await world.gates.admit(message(await signed(world), sealed))), 'passed');
  rule({ peerHandle: 'globex.test', ips: ['203.0.113.99'] });
  assert.equal(await asItself(), 'link policy_denied 403');
  rule({ peerHandle: 'globex.test', state: 'revoked' });
  assert.equal(await asItself(), missing);
  // Nothing was asked through any link: then no link is asked for.
  world.links = [];
  assert.equal(await asItself(), 'passed');
});

test('no answer leaves through a link that has ended, unless the owner knows the asker as somebody of its own', async () => {
  const asker = { asker: 'p:1', askerAgent: null, askerOwner: null, askerVia: 'globex.test' };
  const asked = { askedAgent: 'a-joel-reviewer', askedAddr: 'acme/dev/joel/reviewer', asked: 'm:m-joel' };
  const answer = async (): Promise<string> => {
    const reply = envelope({ kind: 'reply', reply_to: 'q1', from: 'acme/dev/joel/reviewer' });
    return said(await world.gates.admit(message(bearer('ghn_joel'), reply)));
  };
  world.askedOfBob({ ...asker, ...asked, askerAddr: 'globex/erp/bob/billing' });
  assert.equal(await answer(), 'passed');
  for (const state of ['revoked', 'proposed'] as const) {
    rule({ state });
    assert.equal(await answer(), 'link exchange_closed 409', state);
  }
  // Who came as itself has no link to lose.
  world.exchanges.length = 0;
  world.askedOfBob({ ...asker, ...asked, askerAddr: 'did:web:stranger.test:agents:mal' });
  assert.equal(await answer(), 'passed');
  // One text for both doors: then the other door is tried as well.
  world.exchanges.length = 0;
  world.askedOfBob({ ...asker, ...asked, askerAddr: 'globex.test/erp/bob/billing' });
  rule({ state: 'revoked' });
  assert.equal(await answer(), 'link exchange_closed 409');
  world.contacts.push({ id: 'c', owner: 'm-joel', peerId: '1', peerDid: bobDid, blocked: false });
  assert.equal(await answer(), 'passed');
  world.contacts[0]!.blocked = true;
  assert.equal(await answer(), 'link exchange_closed 409');
});

test('an org of this instance that is called like a partner elsewhere is not that partner', async () => {
  world.links = [{ ...globexLink, peerHandle: 'sales', ours: [{ kind: 'agent', pattern: '*' }] }];
  world.agent('close').allow = ['org:sales'];
  const spoofed = envelope({ from: 'sales/field/sue/pitch' });
  assert.equal(said(await world.gates.admit(message(bearer('ghn_sue'), spoofed))), missing);
});

test('two names for the addressee: an outsider learns nothing from them, its own org what is wrong (FED-06)', async () => {
  const to = 'acme/finance/ana/close';
  for (const addressee of [world.agent('hidden'), null]) {
    const answer = await world.gates.admit(message(await signed(world), fromBob({ to }), { addressee }));
    assert.equal(said(answer), missing);
  }
  const own = message(bearer('ghn_joel'), envelope({ to }), { addressee: world.agent('hidden') });
  assert.equal(said(await world.gates.admit(own)), 'address invalid_field 422');
});
