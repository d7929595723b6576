import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { Refusal } from '../../src/lib/refusal.ts';
import { bearer, envelope, fromBob, message, signed, World } from './world.ts';

let world: World;
beforeEach(() => {
  world = new World();
});

const ask = (more = {}) => world.gates.admit(message(bearer('ghn_joel'), envelope(more)));

test("the sender's org pays by its plan; whether its day is used up is asked where a repeat is known", async () => {
  for (const [plan, limit] of [
    ['free', 1000],
    ['pro', 50_000],
    ['enterprise', null],
  ] as const) {
    world.plans.acme = plan;
    const outcome = await ask();
    assert.ok(!(outcome instanceof Refusal));
    assert.deepEqual(outcome.quota, { orgId: 'o-acme', limit });
    assert.equal(outcome.files, null);
  }
});

test('a foreign message adds to nobody here', async () => {
  world.plans.acme = 'free';
  const outcome = await world.gates.admit(message(await signed(world), fromBob()));
  assert.ok(!(outcome instanceof Refusal) && outcome.quota === null);
});

test("files wait in the sender's space, those from elsewhere in a space of the org that gets them", async () => {
  world.plans.acme = 'free';
  const zip = Buffer.from('zip');
  const files = { bytes: 3, sha256: 'ab' };
  const own = await world.gates.admit({ ...message(bearer('ghn_joel'), envelope({ files })), zip });
  assert.ok(!(own instanceof Refusal));
  assert.deepEqual(own.files, { zip, sha256: 'ab', payer: 'out:o-acme', limit: 50 * 1024 * 1024 });
  const foreign = await world.gates.admit({ ...message(await signed(world), { ...fromBob(), files }), zip });
  assert.ok(!(foreign instanceof Refusal));
  assert.equal(foreign.files?.payer, 'in:o-acme');
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
