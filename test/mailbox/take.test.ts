import assert from 'node:assert/strict';
import { test } from 'node:test';
import { postOffice, until } from './fixture.ts';

const minute = 60_000;

test('a take leases in order of arrival, renders what was sent, and leaves nothing for the next', async (t) => {
  const { post, take, clock } = await postOffice(t);
  const first = await post({ session: 4 });
  await post();
  const taken = await take({ leaseMs: minute });
  assert.equal(taken.length, 2);
  assert.deepEqual(
    { ...taken[0], deliveryId: 0, seq: 0 },
    {
      deliveryId: 0,
      seq: 0,
      id: first,
      kind: 'request',
      from: 'acme/dev/joel/reviewer',
      replyTo: null,
      envelope: JSON.stringify({ id: first, body: { text: 'Is it paid?' } }),
      sigPayload: null,
      sigNode: null,
      a2a: null,
      topic: null,
      createdAt: clock.now(),
      thread: 'thread',
      to: 'globex/erp/bob/billing#s4',
      session: 4,
      expiresAt: clock.now() + 86_400_000,
      attempts: 1,
      leaseUntil: clock.now() + minute,
    },
  );
  assert.deepEqual(await take(), []);
});

test('two takers at once get disjoint sets, on one replica and on two', async (t) => {
  const { post, ids, another, database } = await postOffice(t);
  const replica = await database.replica();
  const second = another({ db: replica, notifier: replica.notifier });
  const sent: string[] = [];
  for (let i = 0; i < 40; i++) sent.push(await post());
  const taken = await Promise.all([
    ids({ max: 10 }),
    ids({ max: 10, nodeId: 'n2' }),
    ids({ max: 10 }, second),
    ids({ max: 10, nodeId: 'n2' }, second),
  ]);
  assert.deepEqual(
    taken.map((some) => some.length),
    [10, 10, 10, 10],
  );
  assert.deepEqual(taken.flat().sort(), sent.sort());
});

test('one round trip serves takers of several agents, each with its own', async (t) => {
  const agents = ['a', 'b', 'c', 'd'];
  const { post, ids } = await postOffice(t, agents);
  const sent = await Promise.all(agents.map((agent) => post({ agent })));
  assert.deepEqual(
    await Promise.all(agents.map((agentId) => ids({ agentId }))),
    sent.map((id) => [id]),
  );
});

test('a lease that ends puts the message back, and counts the attempt', async (t) => {
  const { post, take, clock } = await postOffice(t);
  await post();
  await take({ leaseMs: 1_000 });
  clock.advance(999);
  assert.deepEqual(await take(), []);
  clock.advance(1);
  assert.equal((await take())[0]?.attempts, 2);
});

test('at most `max` messages and about 1 MiB are taken at once, but always one', async (t) => {
  const { post, take } = await postOffice(t);
  const text = 'x'.repeat(400 * 1024);
  for (let i = 0; i < 5; i++) await post({ text });
  await post({ text: 'x'.repeat(2 * 1024 * 1024) });
  await post();
  assert.equal((await take({ max: 1 })).length, 1);
  assert.equal((await take()).length, 2);
  assert.equal((await take()).length, 2);
  assert.equal((await take()).length, 1);
  assert.equal((await take()).length, 1);
  assert.equal((await take()).length, 0);
});

test('a later message of a session is not handed to another node while an earlier one is leased', async (t) => {
  const { post, ids, mailbox, clock } = await postOffice(t);
  const [a, b, c, other] = [
    await post({ session: 1 }),
    await post({ session: 1 }),
    await post({ session: 1 }),
    await post({ session: 2 }),
  ];
  assert.deepEqual(await ids({ max: 1 }), [a]);
  assert.deepEqual(await ids({ nodeId: 'n2' }), [other]);
  assert.deepEqual(await ids({ max: 1 }), [b], 'the same node may take further ones');
  await mailbox.ack({ agentId: 'billing', nodeId: 'n1', ids: [a] });
  assert.deepEqual(await ids({ nodeId: 'n2' }), [], 'its second is leased still');
  clock.advance(900_000);
  assert.deepEqual(await ids({ nodeId: 'n2' }), [b, c, other], 'the lease has ended');
});

test('an earlier message that nobody holds does not keep a session, and a held session far ahead keeps nobody else', async (t) => {
  const { post, ids } = await postOffice(t);
  const held = await post({ session: 1 });
  assert.deepEqual(await ids(), [held]);
  for (let i = 0; i < 30; i++) await post({ session: 1 });
  const free = await post({ session: 2 });
  assert.deepEqual(await ids({ nodeId: 'n2', max: 2 }), [free]);
});

test('a take for one answer passes by the order of the session', async (t) => {
  const { post, ids } = await postOffice(t);
  const held = await post({ session: 1 });
  assert.deepEqual(await ids(), [held]);
  const answer = await post({ session: 1, replyTo: 'q1' });
  await post({ session: 1, replyTo: 'q2' });
  assert.deepEqual(await ids({ nodeId: 'n2', replyTo: 'q1' }), [answer]);
  assert.deepEqual(await ids({ nodeId: 'n2', replyTo: 'q1' }), []);
});

test('what is sealed for one node waits for that node', async (t) => {
  const { post, ids } = await postOffice(t);
  const sealed = await post({ reservedFor: 'n2' });
  assert.deepEqual(await ids(), []);
  assert.deepEqual(await ids({ nodeId: 'n2' }), [sealed]);
});

test('a peek leases nothing, counts nothing and is no heartbeat', async (t) => {
  const { post, mailbox, take, db } = await postOffice(t);
  const [first, answer] = [await post(), await post({ replyTo: 'q1' })];
  const peek = async (replyTo?: string): Promise<string[]> =>
    (await mailbox.peek({ agentId: 'billing', nodeId: 'n1', replyTo })).map((each) => each.id);
  assert.deepEqual(await peek(), [first, answer]);
  assert.deepEqual(await peek('q1'), [answer]);
  const { rows } = await db.query<{ last_seen: number }>('select last_seen from mailboxes');
  assert.equal(rows[0]?.last_seen, 0);
  assert.equal((await take())[0]?.attempts, 1);
  assert.deepEqual(await peek(), []);
});

test('a take is a heartbeat: written at once for another node, else every 5 s, and after a jump back', async (t) => {
  const { take, clock, db } = await postOffice(t);
  const seen = async (): Promise<unknown> => (await db.query('select last_seen, node_id from mailboxes')).rows[0];
  const start = clock.now();
  await take();
  assert.deepEqual(await seen(), { last_seen: start, node_id: 'n1' });
  clock.advance(4_000);
  await take();
  assert.deepEqual(await seen(), { last_seen: start, node_id: 'n1' });
  await take({ nodeId: 'n2' });
  assert.deepEqual(await seen(), { last_seen: start + 4_000, node_id: 'n2' });
  clock.advance(5_001);
  await take({ nodeId: 'n2' });
  assert.deepEqual(await seen(), { last_seen: start + 9_001, node_id: 'n2' });
  clock.jump(start - 3_600_000);
  await take({ nodeId: 'n2' });
  assert.deepEqual(await seen(), { last_seen: start - 3_600_000, node_id: 'n2' });
});

test('a clock that jumps back loses nothing: what is queued is there at once, a lease from the far future holds nobody', async (t) => {
  const { post, ids, clock } = await postOffice(t);
  const now = clock.now();
  clock.jump(now + 30 * 86_400_000);
  const leased = await post({ ttl: 86_400_000 });
  assert.deepEqual(await ids(), [leased]);
  clock.jump(now);
  const queued = await post();
  assert.deepEqual(await ids({ nodeId: 'n2' }), [leased, queued]);
});

test('an ack ends what its node took, once; another node cannot', async (t) => {
  const { post, ids, mailbox, clock } = await postOffice(t);
  const ack = (nodeId: string, ...some: string[]): Promise<string[]> =>
    mailbox.ack({ agentId: 'billing', nodeId, ids: some });
  const [a, b] = [await post(), await post()];
  assert.deepEqual(await ack('n1', a), [], 'nobody took it yet');
  assert.deepEqual(await ids({ leaseMs: 1_000 }), [a, b]);
  assert.deepEqual(await ack('n2', a, b), []);
  assert.deepEqual(await mailbox.ack({ agentId: 'other', nodeId: 'n1', ids: [a] }), []);
  assert.deepEqual(await ack('n1', a, 'unknown'), [a]);
  assert.deepEqual(await ack('n1', a), []);
  clock.advance(5_000);
  assert.deepEqual(await ack('n1', b), [b], 'the lease has ended, but nobody else took it');
  assert.deepEqual(await ids(), []);
});

test('an ack after somebody else took the message is refused', async (t) => {
  const { post, ids, mailbox, clock } = await postOffice(t);
  const a = await post();
  await ids({ leaseMs: 1_000 });
  clock.advance(1_000);
  assert.deepEqual(await ids({ nodeId: 'n2' }), [a]);
  assert.deepEqual(await mailbox.ack({ agentId: 'billing', nodeId: 'n1', ids: [a] }), []);
  assert.deepEqual(await mailbox.ack({ agentId: 'billing', nodeId: 'n2', ids: [a] }), [a]);
});

test('a release undoes its own lease and no later one', async (t) => {
  const { post, take, mailbox, clock } = await postOffice(t);
  await post();
  const [first] = await take({ leaseMs: 1_000 });
  const lease = { ...first!, nodeId: 'n1' };
  await mailbox.release([lease]);
  await mailbox.release([lease]);
  const [second] = await take({ leaseMs: 2_000 });
  assert.equal(second?.attempts, 1, 'the lease that was released did not count');
  await mailbox.release([lease]);
  assert.deepEqual(await take(), [], 'the second lease stands');
  clock.advance(2_000);
  assert.equal((await take())[0]?.attempts, 2);
});

test('a lease is prolonged by who holds it, and by nobody once another took; the tenth too', async (t) => {
  const { post, take, mailbox, clock } = await postOffice(t);
  await post();
  const [first] = await take({ leaseMs: 1_000 });
  const lease = { ...first!, nodeId: 'n1' };
  clock.advance(900);
  const until = await mailbox.extend(lease, 5_000);
  assert.equal(until, clock.now() + 5_000);
  clock.advance(4_900);
  assert.deepEqual(await take(), [], 'still held');
  clock.advance(200);
  const [second] = await take({ nodeId: 'n2', leaseMs: 1_000 });
  assert.equal(second?.attempts, 2);
  assert.equal(await mailbox.extend({ ...lease, leaseUntil: until as number }, 5_000), false);
  for (let attempt = 3; attempt <= 10; attempt++) {
    clock.advance(1_100);
    const [again] = await take({ nodeId: 'n2', leaseMs: 1_000 });
    assert.equal(again?.attempts, attempt);
    if (attempt === 10) assert.ok(await mailbox.extend({ ...again!, nodeId: 'n2' }, 5_000));
  }
  clock.advance(4_000);
  assert.equal(await mailbox.sweep(), 0, 'its holder is at work');
  clock.advance(2_000);
  assert.equal(await mailbox.sweep(), 1);
});

test('an ack of many ids by two callers at once neither deadlocks nor acks twice', async (t) => {
  const { post, ids, mailbox } = await postOffice(t);
  for (let i = 0; i < 60; i++) await post();
  const taken = await ids({ max: 100 });
  const acked = await Promise.all([
    mailbox.ack({ agentId: 'billing', nodeId: 'n1', ids: taken }),
    mailbox.ack({ agentId: 'billing', nodeId: 'n1', ids: [...taken].reverse() }),
  ]);
  assert.deepEqual(acked.flat().sort(), taken.sort());
});

test('events that may no longer pass are removed as a take meets them, and hide nothing behind them, however many they are', async (t) => {
  const { post, take, ids, database, clock } = await postOffice(t);
  await post();
  // Their link is not there at all. One look removes 5,000 at most.
  await database.db.query(
    `insert into deliveries (agent_id, message_seq, message_id, thread, to_addr, expires_at, checks)
      select agent_id, message_seq, 'dropped-' || n, thread, to_addr, expires_at, array['sub ours gone a/b']
        from deliveries, generate_series(1, 12000) n`,
  );
  await database.db.query(`delete from deliveries where checks is null`);
  const last = await post();
  assert.deepEqual(await take({ waitMs: 0 }), []);
  // One that waits looks again at once.
  let got: string[] | undefined;
  void ids({ waitMs: 25_000 }).then((found) => {
    got = found;
  });
  await until(() => {
    clock.advance(20);
    return got !== undefined;
  });
  assert.deepEqual(got, [last]);
  const { rows } = await database.db.query('select count(*)::int as n from deliveries');
  assert.deepEqual(rows, [{ n: 1 }]);
});
