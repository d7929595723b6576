import assert from 'node:assert/strict';
import { test } from 'node:test';
import { postOffice, until } from './fixture.ts';

test('REL-08 ten takes without an ack end the delivery', async (t) => {
  const { post, take, mailbox, clock, ended, ids } = await postOffice(t);
  await post();
  const last = await (async () => {
    for (let i = 1; i < 10; i++) {
      assert.equal((await take({ leaseMs: 1_000 }))[0]?.attempts, i);
      clock.advance(1_000);
    }
    return take({ leaseMs: 1_000 });
  })();
  assert.equal(last[0]?.attempts, 10);
  assert.equal(
    last[0]?.expiresAt,
    last[0]!.createdAt + 86_400_000,
    'what the agent is told of its expiry does not change',
  );
  assert.equal(await mailbox.sweep(), 0, 'the tenth lease holds');
  clock.advance(1_000);
  assert.deepEqual(await ids(), []);
  assert.equal(await mailbox.sweep(), 1);
  assert.equal(await mailbox.sweep(), 0);
  assert.deepEqual(
    ended.map(({ agentId, kind, reason, attempts }) => ({ agentId, kind, reason, attempts })),
    [{ agentId: 'billing', kind: 'request', reason: 'worn_out', attempts: 10 }],
  );
});

test('a tenth take whose answer was not written is undone like any other', async (t) => {
  const { post, take, mailbox, clock } = await postOffice(t);
  await post();
  for (let i = 1; i < 10; i++) {
    await take({ leaseMs: 1_000 });
    clock.advance(1_000);
  }
  const [tenth] = await take({ leaseMs: 1_000 });
  await mailbox.release([{ ...tenth!, nodeId: 'n1' }]);
  clock.advance(2_000);
  assert.equal(await mailbox.sweep(), 0);
  assert.equal((await take())[0]?.attempts, 10);
});

test('the tenth take may still be acked', async (t) => {
  const { post, take, mailbox, clock, ended } = await postOffice(t);
  const id = await post();
  for (let i = 1; i <= 10; i++) {
    await take({ leaseMs: 1_000 });
    clock.advance(1_000);
  }
  assert.deepEqual(await mailbox.ack({ agentId: 'billing', nodeId: 'n1', ids: [id] }), [id]);
  assert.equal(await mailbox.sweep(), 0);
  assert.deepEqual(ended, []);
});

test('what expires is not taken any more, and ends once; a live lease keeps it', async (t) => {
  const { post, ids, mailbox, clock, ended } = await postOffice(t);
  await post({ ttl: 2_000 });
  const held = await post({ ttl: 2_000 });
  await post({ ttl: 3_000 });
  await ids({ max: 1 });
  clock.advance(2_000);
  assert.deepEqual((await mailbox.peek({ agentId: 'billing', nodeId: 'n1' })).length, 1);
  assert.equal(await mailbox.sweep(), 1);
  assert.equal(ended[0]?.reason, 'expired');
  clock.advance(900_000);
  assert.equal(await mailbox.sweep(), 2);
  assert.equal(ended.length, 3);
  assert.ok(!held || ended.every((each) => each.reason === 'expired'));
});

test('within 5 s the loop ends it by itself, and two replicas end each once', async (t) => {
  const { post, another, mailbox, clock, ended, database } = await postOffice(t);
  const replica = await database.replica();
  const second = another({ db: replica, notifier: replica.notifier });
  for (let i = 0; i < 250; i++) await post({ ttl: 1_000 });
  mailbox.start();
  mailbox.start();
  second.start();
  clock.advance(5_000);
  await until(() => ended.length >= 250);
  await Promise.all([mailbox.stop(), second.stop(), mailbox.stop()]);
  assert.equal(new Set(ended.map((each) => each.deliveryId)).size, 250);
  assert.equal(ended.length, 250);
});

test('one that cannot be ended keeps nobody else, and is tried again', async (t) => {
  const { post, another, clock, db } = await postOffice(t);
  for (let i = 0; i < 5; i++) await post({ ttl: 1_000 });
  const { rows } = await db.query<{ id: number }>('select id from deliveries order by id');
  const poisoned = rows[2]?.id;
  let broken = true;
  const done: number[] = [];
  const mailbox = another({
    giveUp: async (_tx, some) => {
      if (broken && some.some((each) => each.deliveryId === poisoned)) throw new Error('no');
      done.push(...some.map((each) => each.deliveryId));
    },
  });
  clock.advance(1_000);
  assert.equal(await mailbox.sweep(), 4);
  broken = false;
  assert.equal(await mailbox.sweep(), 1);
  assert.equal(done.at(-1), poisoned);
});
