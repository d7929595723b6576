import assert from 'node:assert/strict';
import { test } from 'node:test';
import { generateSeed } from '../../src/identity/keys.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { at, caller, first, house, listening, ok } from './fixture.ts';

const DAY = 86_400_000;

test('rotation: the new key is listed at once, signs after the cache time of peers, the old one stays 30 days', async (t) => {
  const { registry, start, clock, replica } = await house(t);
  const { admin } = await start();
  const { keyring } = registry;
  const holder = keyring.owner(admin);
  const old = await keyring.signer(holder);
  assert.equal(old.keyId, 'did:web:acme.example:agents:joel#key-1');

  const fresh = ok(await keyring.rotate(holder));
  assert.equal(fresh.id, 'did:web:acme.example:agents:joel#key-2');
  assert.deepEqual(
    (await keyring.published(holder)).map((k) => [k.id.split('#')[1], k.state]),
    [
      ['key-1', 'active'],
      ['key-2', 'pending'],
    ],
  );
  assert.equal((await keyring.signer(holder)).keyId, old.keyId);
  assert.equal((await keyring.rotate(holder)) instanceof Refusal, true, 'one rotation at a time');
  clock.advance(59_999);
  assert.equal((await keyring.signer(holder)).keyId, old.keyId);
  clock.advance(1);
  const other = await replica();
  const now = await Promise.all([keyring, other.keyring, keyring].map((k) => k.signer(holder)));
  assert.deepEqual(new Set(now.map((s) => s.keyId)), new Set([fresh.id]));
  assert.equal(now[0]!.pair.publicKeyMultibase, fresh.publicKeyMultibase);
  assert.deepEqual(
    (await keyring.published(holder)).map((k) => k.state),
    ['retired', 'active'],
  );
  clock.advance(30 * DAY);
  assert.deepEqual(
    (await keyring.published(holder)).map((k) => k.id),
    [fresh.id],
  );
  clock.advance(60_000);
  assert.equal(ok(await keyring.rotate(holder)).id.split('#')[1], 'key-3', 'a number is never given twice');
});

test('revoking takes a key out of the document at once; not the one that signs', async (t) => {
  const { registry, start, clock } = await house(t);
  await start();
  const { keyring } = registry;
  const holder = keyring.instance();
  const { keyId } = await keyring.signer(holder);
  ok(await keyring.rotate(holder));
  assert.equal((await keyring.revoke(holder, keyId))?.code, 'conflict');
  clock.advance(60_000);
  assert.equal((await keyring.signer(holder)).keyId, 'did:web:acme.example#key-2');
  assert.equal(await keyring.revoke(holder, keyId), undefined);
  assert.deepEqual(
    (await keyring.published(holder)).map((k) => k.id),
    ['did:web:acme.example#key-2'],
  );
  assert.equal((await keyring.revoke(holder, 'did:web:acme.example#key-9'))?.code, 'not_found');
});

test('a holder without a key gets one on first need, the same on every replica', async (t) => {
  const { registry, start, replica, database } = await house(t);
  const { admin } = await start();
  await database.db.query('delete from keys');
  const other = await replica();
  const holder = registry.keyring.owner(admin);
  const signers = await Promise.all([registry, other, registry, other].map((r) => r.keyring.signer(holder)));
  assert.equal(new Set(signers.map((s) => s.pair.publicKeyMultibase)).size, 1);
});

test('seeds are sealed, and a sealed seed that was moved to another holder does not open', async (t) => {
  const { start, replica, database } = await house(t);
  const ownerSeed = generateSeed();
  const { admin } = await start(undefined, { ownerSeed });
  const { rows } = await database.db.query<{ holder: string; sealed_seed: Buffer }>(
    'select holder, sealed_seed from keys',
  );
  for (const row of rows) assert.ok(!row.sealed_seed.includes(ownerSeed));
  await database.db.query(
    `update keys k set sealed_seed = o.sealed_seed, public_multibase = o.public_multibase from keys o
      where k.holder = 'instance' and o.holder = $1`,
    [`owner:${admin.id}`],
  );
  const other = await replica();
  await assert.rejects(other.keyring.signer(other.keyring.instance()), /does not open/);
});

test('facts of the documents: owner, alias, agent, and nobody', async (t) => {
  const { registry, start } = await house(t);
  await start();
  const joel = await caller(registry, first.adminToken!);
  const { facts, keyring } = registry;
  assert.equal(await facts.defaultAgent(null, 'joel'), null, 'no agent yet');
  const { agent } = ok(await registry.agents.announce(joel, at('acme', 'general', 'joel', 'close'), listening));
  const owner = (await facts.owner(null, 'joel'))!;
  assert.equal(owner.did, 'did:web:acme.example:agents:joel');
  assert.deepEqual(owner.alsoKnownAs, [`did:key:${owner.methods[0]!.publicKeyMultibase}`]);
  const alias = (await facts.defaultAgent(null, 'joel'))!;
  assert.equal(alias.did, 'did:web:acme.example:agents:joel:agent');
  assert.deepEqual(alias.methods, owner.methods);
  assert.deepEqual(alias.alsoKnownAs, [owner.did, keyring.agent(agent).did]);
  const own = (await facts.agent(null, { user: 'joel', team: 'general', agent: 'close' }))!;
  assert.notEqual(own.methods[0]!.publicKeyMultibase, owner.methods[0]!.publicKeyMultibase);
  assert.equal(own.isPublic, false);
  for (const org of ['acme', 'acme.example', 'nowhere']) assert.equal(await facts.owner(org, 'joel'), null, org);
  assert.equal(await facts.owner(null, 'nobody'), null);
});

test('the instance at another URL keeps its keys under its new name', async (t) => {
  const { registry, start, database } = await house(t);
  await start();
  const before = await registry.keyring.signer(registry.keyring.instance());
  const moved = { id: 'instance', did: 'did:web:new.example' };
  const [key] = await registry.keyring.published(moved);
  assert.equal(key!.id, 'did:web:new.example#key-1');
  assert.equal(key!.publicKeyMultibase, before.pair.publicKeyMultibase);
  const { rows } = await database.db.query("select method_id from keys where holder = 'instance'");
  assert.deepEqual(rows, [{ method_id: 'did:web:new.example#key-1' }]);
});
