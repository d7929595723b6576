import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { Refusal } from '../../src/lib/refusal.ts';
import { bearer, envelope, fromBob, message, said, signed, World } from './world.ts';

let world: World;
beforeEach(() => {
  world = new World();
});

const ask = (more = {}) => world.gates.admit(message(bearer('ghn_joel'), envelope(more)));

test("the sender's org pays by its plan; a used-up day is 429 with quota", async () => {
  for (const [plan, limit] of [
    ['free', 1000],
    ['pro', 50_000],
  ] as const) {
    world.plans.acme = plan;
    world.used = limit - 1;
    const last = await ask();
    assert.ok(!(last instanceof Refusal) && last.quotaOrgId === 'o-acme');
    world.used = limit;
    const refused = await ask();
    assert.equal(said(refused), 'quota quota_exceeded 429');
    assert.deepEqual((refused as Refusal).data, { quota: true });
  }
  world.plans.acme = 'enterprise';
  world.asked.length = 0;
  assert.equal(said(await ask()), 'passed');
  assert.ok(!world.asked.includes('usedOn'), 'no limit, no query');
});

test('a foreign message adds to nobody here, and is taken on a used-up day', async () => {
  world.plans.acme = 'free';
  world.used = 5000;
  const outcome = await world.gates.admit(message(await signed(world), fromBob()));
  assert.ok(!(outcome instanceof Refusal) && outcome.quotaOrgId === null);
});

test('a message waits a day, or what it asks for, capped by the plan', async () => {
  const waits = async (more = {}): Promise<number> => {
    const outcome = await ask(more);
    assert.ok(!(outcome instanceof Refusal));
    return (outcome.expiresAt - world.clock.now()) / 1000;
  };
  assert.equal(await waits(), 86_400);
  assert.equal(await waits({ ttl: 1 }), 1);
  assert.equal(await waits({ ttl: 90 * 86_400 }), 30 * 86_400);
  world.plans.acme = 'pro';
  assert.equal(await waits({ ttl: 90 * 86_400 }), 7 * 86_400);
  world.plans.acme = 'free';
  assert.equal(await waits({ ttl: 90 * 86_400 }), 86_400);
});
