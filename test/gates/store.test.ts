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
