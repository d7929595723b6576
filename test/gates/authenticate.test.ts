import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { Refusal } from '../../src/lib/refusal.ts';
import {
  bearer,
  bobDid,
  call,
  envelope,
  fromBob,
  message,
  request,
  type SignOptions,
  said,
  seed,
  signed,
  World,
} from './world.ts';

let world: World;
beforeEach(() => {
  world = new World();
});

const admitSigned = async (options: SignOptions = {}) =>
  world.gates.admit(message(await signed(world, options), fromBob()));

async function refusedEarly(http: Awaited<ReturnType<typeof signed>>, expected: string): Promise<Refusal> {
  const outcome = await world.gates.admit(message(http, fromBob()));
  assert.equal(said(outcome), expected);
  assert.deepEqual(world.writes, []);
  assert.deepEqual(world.asked, [], 'later gates were not reached');
  assert.ok(outcome instanceof Refusal);
  return outcome;
}

test('a node token is its node; an agent key its agent; a signature is its signer, an owner or an instance', async () => {
  const node = await world.gates.identify(call(bearer('ghn_joel')));
  assert.ok(!(node instanceof Refusal) && node.kind === 'node' && node.node.nodeId === 'n-joel');
  const agent = await world.gates.identify(call(bearer('rsk_reviewer')));
  assert.ok(!(agent instanceof Refusal) && agent.kind === 'agent' && agent.agent.id === 'a-joel-reviewer');
  const bob = await world.gates.identify(call(await signed(world, { method: 'GET', target: '/a2a/v1/tasks?x=1' })));
  assert.deepEqual(bob, {
    kind: 'signer',
    did: bobDid,
    domain: 'globex.test',
    keyId: `${bobDid}#key-1`,
    isInstance: false,
  });
  const instance = await world.gates.identify(call(await signed(world, { did: 'did:web:globex.test' }), 'instance'));
  assert.ok(!(instance instanceof Refusal) && instance.kind === 'signer' && instance.isInstance);
});

test('an agent that lives in this process answers, and does nothing else', async () => {
  const asked = await world.gates.identify(call(bearer('ghn_joel')));
  assert.ok(!(asked instanceof Refusal) && asked.kind === 'node');
  const resident = asked.node;
  for (const kind of ['request', 'event'] as const) {
    const outcome = await world.gates.admit({ ...message(request({}), envelope({ kind })), resident });
    assert.equal(said(outcome), 'authenticate unauthenticated 401', kind);
  }
  assert.equal(
    said(await world.gates.identify({ ...call(request({})), resident })),
    'authenticate unauthenticated 401',
  );
  const answer = await world.gates.admit({
    ...message(request({}), envelope({ kind: 'progress', from: 'acme/dev/nobody/helper', reply_to: 'x' })),
    resident,
  });
  assert.equal(said(answer), 'address sender_mismatch 403', 'as an agent of its owner, and nobody else');
});

test('a watcher key is a watcher, and nothing anywhere else; nothing else is a watcher', async () => {
  const watch = (authorization: string) => world.gates.watcher(call(bearer(authorization), 'watch'));
  assert.deepEqual(await watch('rsw_acme'), { keyId: 'w-acme', orgId: 'o-acme' });
  for (const token of ['rsw_other', 'rsk_reviewer', 'ghn_joel']) {
    assert.equal(said(await watch(token)), 'authenticate unauthenticated 401', token);
  }
  for (const outcome of [
    await world.gates.identify(call(bearer('rsw_acme'))),
    await world.gates.admit(message(bearer('rsw_acme'), envelope())),
  ]) {
    assert.equal(said(outcome), 'authenticate forbidden 403');
  }
  assert.deepEqual(world.writes, []);
});

test('bad tokens are 401, and a malformed or unknown scheme is not taken for nobody', async () => {
  for (const authorization of [
    'Bearer ghn_unknown',
    'Bearer rsk_1',
    'Bearer',
    'Bearer a b',
    'Basic eA==',
    'Bearer a, Bearer b',
  ]) {
    const outcome = await world.gates.admit(message(request({ headers: { authorization } }), envelope({ from: '' })));
    assert.equal(said(outcome), 'authenticate unauthenticated 401', authorization);
  }
  assert.deepEqual(world.writes, []);
});

test('a token beside a signature is refused: one proof per request', async () => {
  await refusedEarly(
    await signed(world, { headers: { authorization: 'Bearer ghn_joel' } }),
    'authenticate malformed_request 400',
  );
});

test('without a proof: who names a sender, answers or reads is told how to qualify', async () => {
  const unsigned = request();
  const outcomes = [
    await world.gates.admit(message(unsigned, fromBob())),
    await world.gates.admit(message(unsigned, envelope({ from: '', kind: 'reply', reply_to: 'q1' }))),
    await world.gates.identify(call(unsigned)),
    await world.gates.identify(call(unsigned, 'instance')),
  ];
  for (const outcome of outcomes) {
    assert.equal(said(outcome), 'authenticate unauthenticated 401');
    assert.match(String((outcome as Refusal).data?.accept_signature), /"@authority".*keyid/);
  }
  const did = await world.gates.admit(message(unsigned, envelope({ from: '' }), { claimedDid: bobDid }));
  assert.equal(said(did), 'authenticate signature_missing 401');
});

test('SIG-03: a signature for another authority is 401, and says which authority is expected', async () => {
  const refusal = await refusedEarly(
    await signed(world, { authority: 'evil.test' }),
    'authenticate signature_invalid 401',
  );
  assert.deepEqual(refusal.data, { authority: 'acme.test' });
  assert.match(refusal.words, /acme\.test/);
  assert.doesNotMatch(refusal.words, /evil/);
  assert.deepEqual(world.fetched, []);
  assert.equal(said(await admitSigned({ authority: 'www.acme.test' })), 'passed');
  // Honest Host, but the signature was made for somebody else.
  assert.equal(said(await admitSigned({ signedFor: 'evil.test' })), 'authenticate signature_failed 401');
});

test('SIG-08: repeats, unquoted texts and unknown component parameters are malformed, before any document is fetched', async () => {
  const good = await signed(world);
  const input = good.headers.get('signature-input')!;
  const value = good.headers.get('signature')!;
  const bad = [
    `${input}, ${input}`,
    `${input};created=1`,
    input.replace('("@method"', '("@method" "@method"'),
    input.replace(/keyid="[^"]*"/, 'keyid=did:web:x#k'),
    input.replace('"@method"', '"@method";zz'),
    input.replace('"date"', '"date";tr'),
  ];
  for (const text of bad) {
    const headers = { ...Object.fromEntries(good.headers.raw), 'Signature-Input': text, Signature: value };
    const http = { ...request({ ...good, headers, body: good.body.toString() }) };
    await refusedEarly(http, 'authenticate signature_malformed 400');
  }
  assert.deepEqual(world.fetched, []);
});

test('what does not cover what is required, or is stale, costs no document', async () => {
  const good = await signed(world, { target: '/a2a/v1?x=1' });
  const headers = Object.fromEntries(good.headers.raw);
  for (const [name, bare] of [
    ['@query', ' "@query"'],
    ['@authority', ' "@authority"'],
    ['content-digest', ' "content-digest"'],
    ['date', ' "date"'],
  ] as const) {
    const http = request({
      target: '/a2a/v1?x=1',
      body: good.body.toString(),
      headers: { ...headers, 'Signature-Input': headers['Signature-Input']!.replace(bare, '') },
    });
    const refusal = await refusedEarly(http, 'authenticate signature_invalid 401');
    assert.match(refusal.words, new RegExp(name));
  }
  for (const offset of [-301_000, 301_000]) {
    const stale = await signed(world, { now: world.clock.now() + offset });
    await refusedEarly(stale, 'integrity signature_stale 401');
  }
  await refusedEarly(
    await signed(world, { keyId: 'did:key:z6MkfMo6gxqdBhaHMNnmfhgZFBjpCDTkmJMJLoypsBZS9PwD#z6Mk' }),
    'authenticate signature_invalid 401',
  );
  await refusedEarly(await signed(world, { keyId: 'did:web:127.0.0.1%2Fx#k' }), 'authenticate invalid_did 401');
  assert.deepEqual(world.fetched, []);
});

test('an unknown key, the key of another DID, a forged signature, a tampered path and a dead document', async () => {
  assert.equal(said(await admitSigned({ keyId: `${bobDid}#key-2` })), 'authenticate key_not_found 401');
  assert.equal(
    said(await admitSigned({ key: seed('did:web:globex.test:agents:eve') })),
    'authenticate signature_failed 401',
  );
  assert.equal(
    said(await admitSigned({ did: 'did:web:nowhere.test:agents:x' })),
    'authenticate did_resolution_failed 401',
  );
  const http = await signed(world);
  assert.equal(
    said(await world.gates.admit(message({ ...http, target: '/a2a/v2', path: '/a2a/v2' }, fromBob()))),
    'authenticate signature_failed 401',
  );
  assert.deepEqual(world.writes, []);
});

test('one document is fetched for a signed message, and none while it is fresh', async () => {
  assert.equal(said(await admitSigned()), 'passed');
  assert.equal(said(await admitSigned()), 'passed');
  assert.deepEqual(world.fetched, [bobDid]);
});
