import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createGateStore } from '../../src/gates/store.ts';
import { ManualClock } from '../../src/lib/clock.ts';
import { sha256 } from '../../src/lib/ids.ts';
import { freshDatabase } from '../support/database.ts';

test('a proof is taken once, within a batch and between replicas, until it is purged', async (t) => {
  const clock = new ManualClock();
  const database = await freshDatabase(t);
  const [one, other] = [createGateStore(database.db, clock), createGateStore(await database.replica(), clock)];
  const key = sha256('a');
  const until = clock.now() + 600_000;
  const takes = await Promise.all([
    ...Array.from({ length: 10 }, () => one.insertProof(key, until)),
    ...Array.from({ length: 10 }, () => other.insertProof(key, until)),
    one.insertProof(sha256('b'), until),
  ]);
  assert.equal(takes.slice(0, 20).filter(Boolean).length, 1);
  assert.equal(takes[20], true);
  assert.equal(await other.insertProof(key, until), false);

  clock.advance(600_000);
  assert.equal(await one.purge(), 0, 'the last millisecond still counts');
  clock.advance(1);
  assert.equal(await one.purge(), 2);
  assert.equal(await one.insertProof(key, clock.now() + 600_000), true);
});

test('a day is the sum of its shards, and no other day or org counts', async (t) => {
  const clock = new ManualClock();
  const { db } = await freshDatabase(t);
  for (const id of ['o1', 'o2']) {
    await db.query(
      `insert into orgs (id, handle, api_version, plan, created_at) values ($1, $1, '2026-09-25', 'free', 0)`,
      [id],
    );
  }
  await db.query(
    `insert into quota_days (org_id, day, shard, used) values ('o1', 20000, 0, 3), ('o1', 20000, 7, 4), ('o1', 20001, 0, 9), ('o2', 20000, 0, 1)`,
  );
  const store = createGateStore(db, clock);
  const used = await Promise.all([
    store.usedOn('o1', 20_000),
    store.usedOn('o1', 20_001),
    store.usedOn('o2', 20_000),
    store.usedOn('o2', 20_001),
  ]);
  assert.deepEqual(used, [7, 9, 1, 0]);
});
