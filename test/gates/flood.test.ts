import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { Refusal } from '../../src/lib/refusal.ts';
import { bearer, bobDid, call, envelope, fromBob, message, request, said, seed, signed, World } from './world.ts';

let world: World;
beforeEach(() => {
  world = new World();
  Object.assign(world.rates, { ip: 5, peer: 3 });
});

const knock = async (ip = '198.51.100.7') => world.gates.admit(message(request({ ip }), envelope({ from: '' })));

test('an address that asks too much meets 429 with Retry-After until the minute is over', async () => {
  for (let i = 0; i < 5; i++) assert.match(said(await knock()), /^authenticate/);
  const refused = await knock();
  assert.equal(said(refused), 'flood rate_limited 429');
  assert.ok(refused instanceof Refusal && refused.retryAfter! > 0 && refused.retryAfter! <= 60);
  assert.match(said(await knock('198.51.100.8')), /^authenticate/);
  world.clock.advance(60_000);
  assert.match(said(await knock()), /^authenticate/);
});

test('addresses of one IPv6 /64 count as one', async () => {
  for (let i = 1; i <= 5; i++) await knock(`2001:db8::${i}`);
  assert.equal(said(await knock('2001:db8:0:0:9::1')), 'flood rate_limited 429');
  assert.match(said(await knock('2001:db8:0:1::1')), /^authenticate/);
});

test('a valid token is not limited, even where strangers at its address are; bad tokens are', async () => {
  for (let i = 0; i < 9; i++) await knock();
  for (let i = 0; i < 9; i++) assert.equal(said(await world.gates.identify(call(bearer('ghn_joel')))), 'passed');
  for (let i = 0; i < 5; i++) {
    assert.equal(said(await world.gates.identify(call(bearer(`ghn_guess${i}`)))), 'authenticate unauthenticated 401');
  }
  const looked = world.asked.length;
  assert.equal(said(await world.gates.identify(call(bearer('ghn_guess9')))), 'flood rate_limited 429');
  assert.equal(world.asked.length, looked, 'a refused guess costs no query');
  assert.equal(said(await world.gates.identify(call(bearer('ghn_joel')))), 'passed');
});

test('a domain is limited by what it proved to have sent, whatever addresses it uses, before a DID is fetched', async () => {
  for (let i = 0; i < 3; i++) {
    const http = await signed(world, { ip: `198.51.100.${i}` });
    assert.equal(said(await world.gates.admit(message(http, fromBob()))), 'passed');
  }
  const before = world.fetched.length;
  const eve = 'did:web:globex.test:agents:eve';
  const http = await signed(world, { ip: '203.0.113.1', did: eve });
  assert.equal(said(await world.gates.admit(message(http, fromBob()))), 'flood rate_limited 429');
  assert.equal(world.fetched.length, before);
  // Reads have a budget of their own.
  assert.equal(
    said(await world.gates.identify(call(await signed(world, { method: 'GET', ip: '203.0.113.2' })))),
    'passed',
  );
});

test('a stranger who claims a name does not use up its budget, nor make us fetch without end', async () => {
  Object.assign(world.rates, { ip: 1000, peer: 3 });
  assert.equal(said(await world.gates.admit(message(await signed(world), fromBob()))), 'passed');
  for (let i = 0; i < 10; i++) {
    const did = `did:web:globex.test:agents:nobody${i}`;
    await world.gates.admit(message(await signed(world, { did }), fromBob()));
  }
  assert.equal(world.fetched.filter((did) => did.includes('nobody')).length, 3);
  // The same address, but a key that has proved itself; and another address with a key that has not.
  assert.equal(said(await world.gates.admit(message(await signed(world), fromBob()))), 'passed');
  const eve = await signed(world, { did: 'did:web:globex.test:agents:eve', ip: '203.0.113.9' });
  assert.equal(said(await world.gates.admit(message(eve, fromBob({ from: 'globex/erp/eve/x' })))), 'passed');
});

test('forged signatures in a known name do not lock its owner out', async () => {
  Object.assign(world.rates, { ip: 1000, peer: 3 });
  await world.gates.admit(message(await signed(world), fromBob()));
  for (let i = 0; i < 10; i++) {
    const forged = await signed(world, { key: seed('forger') });
    assert.notEqual(said(await world.gates.admit(message(forged, fromBob()))), 'passed');
  }
  assert.equal(said(await world.gates.admit(message(await signed(world, { did: bobDid }), fromBob()))), 'passed');
});

test('what a domain sends all at once is counted too', async () => {
  Object.assign(world.rates, { ip: 1000, peer: 3 });
  const all = await Promise.all(Array.from({ length: 10 }, () => signed(world)));
  const outcomes = await Promise.all(all.map((http) => world.gates.admit(message(http, fromBob()))));
  assert.equal(outcomes.map(said).filter((word) => word === 'passed').length, 3);
});
