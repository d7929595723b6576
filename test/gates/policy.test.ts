import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { AgentPolicy } from '../../src/directory/types.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { bearer, envelope, fromBob, message, said, seal, signed, World } from './world.ts';

let world: World;
beforeEach(() => {
  world = new World();
});

const take = (policy: Partial<AgentPolicy>): void => {
  Object.assign(world.agent('close'), policy);
};
const ask = (more = {}, token = 'ghn_joel') => world.gates.admit(message(bearer(token), envelope(more)));
const words = (outcome: unknown): string => (outcome instanceof Refusal ? outcome.words : 'passed');
const sealedBody = { type: 'application/redsyn+encrypted', enc: { v: 1 } };

test('allow names whom the agent takes requests from; empty is its own team', async () => {
  world.teams['m-joel'] = ['dev', 'ops'];
  for (const allow of [['joel'], ['org'], ['anyone'], ['team:ops'], ['team:x', 'team:dev'], ['org:acme']]) {
    take({ allow });
    assert.equal(said(await ask()), 'passed', allow.join());
  }
  for (const allow of [[], ['ana'], ['team:finance'], ['org:globex'], ['team:joel']]) {
    take({ allow });
    assert.equal(said(await ask()), 'policy policy_denied 403', allow.join());
  }
  world.teams['m-joel'] = ['finance'];
  take({ allow: [] });
  assert.equal(said(await ask()), 'passed');
  assert.deepEqual(world.writes, []);
});

test('the refusal says whom it takes requests from, in REDSYN words', async () => {
  take({ allow: ['team:ops'] });
  assert.equal(words(await ask()), 'acme/finance/ana/close takes requests only from team ops');
  take({ allow: ['ana', 'team:ops', 'org:globex'] });
  assert.equal(words(await ask()), 'acme/finance/ana/close takes requests only from ana, team ops, org globex');
  take({ allow: [] });
  assert.equal(words(await ask()), 'acme/finance/ana/close takes requests only from team finance');
});

test('an owner always reaches her own agents', async () => {
  take({ allow: ['joel'] });
  assert.equal(said(await ask({ from: 'acme/finance/ana/hidden' }, 'ghn_ana')), 'passed');
});

test('signed_only and full trust take signed requests only', async () => {
  const signedOne = seal(envelope(), world.nodeKey, Math.floor(world.clock.now() / 1000));
  for (const policy of [{ signedOnly: true }, { trust: 'full' as const }]) {
    world = new World();
    take(policy);
    assert.equal(said(await ask()), 'policy policy_denied 403');
    assert.equal(said(await world.gates.admit(message(bearer('ghn_joel'), signedOne))), 'passed');
    // The request signature of another gateway is not the node's.
    assert.equal(said(await world.gates.admit(message(await signed(world), fromBob()))), 'policy policy_denied 403');
  }
});

test('encrypted_only looks at the outside of the body', async () => {
  take({ encryptedOnly: true });
  assert.equal(said(await ask()), 'policy policy_denied 403');
  assert.equal(said(await ask({ body: { type: 'application/redsyn+encrypted' } })), 'policy policy_denied 403');
  assert.equal(said(await ask({ body: sealedBody })), 'passed');
});

test('answers are not subject to it', async () => {
  Object.assign(world.agent('reviewer'), { allow: ['nobody'], signedOnly: true, encryptedOnly: true });
  world.askedOfBob({ askedAgent: 'a-ana-close', requestId: 'q9' });
  const reply = envelope({ kind: 'reply', reply_to: 'q9', from: 'acme/finance/ana/close' });
  assert.equal(said(await world.gates.admit(message(bearer('ghn_ana'), reply))), 'passed');
});
