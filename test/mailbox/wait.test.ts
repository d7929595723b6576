import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Refusal } from '../../src/lib/refusal.ts';
import { postOffice, until, waits } from './fixture.ts';

test('a held poll is woken by a message', async (t) => {
  const { post, ids, mailbox } = await postOffice(t);
  const poll = ids({ waitMs: 25_000 });
  assert.ok(await waits(poll));
  assert.equal(mailbox.stats().held, 1);
  const id = await post();
  assert.deepEqual(await poll, [id]);
  assert.deepEqual(mailbox.stats(), { agents: 0, held: 0, looking: 0 });
});

test('a held poll ends empty at its limit', async (t) => {
  const { ids, clock } = await postOffice(t);
  const poll = ids({ waitMs: 25_000 });
  await waits(poll);
  clock.advance(24_999);
  assert.ok(await waits(poll));
  clock.advance(1);
  assert.deepEqual(await poll, []);
});

test('no wake is lost: a message that arrives while the look is under way is found', async (t) => {
  const { post, ids, another, db } = await postOffice(t);
  let id: string | undefined;
  const slow = another({
    db: {
      tx: (work) => db.tx(work),
      async query(text, values) {
        const answer = await db.query<never>(text, values);
        // The look has seen an empty mailbox; the message is committed before its caller hears so.
        if (text.includes('take_deliveries')) id ??= await post();
        return answer;
      },
    },
  });
  const taken = await ids({ waitMs: 25_000 }, slow);
  assert.deepEqual(taken, [id]);
});

test('many messages while many wait: each is taken once, and nobody waits beside a message', async (t) => {
  const { post, ids, mailbox, clock } = await postOffice(t);
  const polls = Array.from({ length: 20 }, () => ids({ waitMs: 25_000, max: 1 }));
  const sent = await Promise.all(Array.from({ length: 20 }, () => post()));
  const taken = await Promise.all(polls);
  assert.deepEqual(taken.flat().sort(), sent.sort());
  assert.equal(mailbox.stats().held, 0);
  clock.advance(1);
});

test('one message wakes the poll that waited longest, and costs one look', async (t) => {
  const { post, ids, another, db } = await postOffice(t);
  let looks = 0;
  const counted = another({
    db: {
      tx: (work) => db.tx(work),
      query: (text, values) => {
        if (text.includes('take_deliveries')) looks++;
        return db.query(text, values);
      },
    },
  });
  const first = ids({ waitMs: 25_000 }, counted);
  const others = Array.from({ length: 5 }, () => ids({ waitMs: 25_000 }, counted));
  await waits(first);
  looks = 0;
  const id = await post();
  assert.deepEqual(await first, [id]);
  assert.ok(await waits(Promise.race(others)));
  // The wake comes twice: from this process and, harmlessly, never from our own NOTIFY.
  assert.equal(looks, 1);
  await counted.drain();
  assert.deepEqual((await Promise.all(others)).flat(), []);
});

test('who waits for one answer gets it, although another poll takes everything', async (t) => {
  const { post, ids, clock } = await postOffice(t);
  const all = ids({ waitMs: 25_000 });
  const one = ids({ waitMs: 25_000, replyTo: 'q1' });
  await waits(all);
  const answer = await post({ replyTo: 'q1' });
  assert.deepEqual(await one, [answer]);
  clock.advance(25_000);
  assert.deepEqual(await all, []);
});

test('a lease that ends wakes who waits, without anybody polling', async (t) => {
  const { post, ids, clock } = await postOffice(t);
  const id = await post();
  await ids({ leaseMs: 3_000 });
  const poll = ids({ waitMs: 25_000, nodeId: 'n2' });
  await waits(poll);
  clock.advance(2_999);
  assert.ok(await waits(poll));
  clock.advance(1);
  assert.deepEqual(await poll, [id]);
});

test('a session that becomes free wakes who waits: at once by an ack here, within a second by one elsewhere', async (t) => {
  const { post, ids, another, mailbox, clock, database } = await postOffice(t);
  const replica = await database.replica();
  const elsewhere = another({ db: replica, notifier: replica.notifier });
  const [a, b] = [await post({ session: 1 }), await post({ session: 1 })];
  assert.deepEqual(await ids({ max: 1 }), [a]);
  const poll = ids({ nodeId: 'n2', waitMs: 25_000, max: 1 });
  assert.ok(await waits(poll));
  await mailbox.ack({ agentId: 'billing', nodeId: 'n1', ids: [a] });
  assert.deepEqual(await poll, [b]);

  const c = await post({ session: 1 });
  const second = ids({ nodeId: 'n1', waitMs: 25_000 });
  assert.ok(await waits(second));
  await elsewhere.ack({ agentId: 'billing', nodeId: 'n2', ids: [b] });
  assert.ok(await waits(second));
  clock.advance(1_000);
  assert.deepEqual(await second, [c]);
});

test('REL-08 two replicas: a poll on one wakes for a message that came by the other', async (t) => {
  const { ids, post, another, database } = await postOffice(t);
  const replica = await database.replica();
  const there = another({ db: replica, notifier: replica.notifier });
  const poll = ids({ waitMs: 25_000 }, there);
  assert.ok(await waits(poll));
  const id = await post();
  assert.deepEqual(await poll, [id]);
});

test('REL-04 the listener is ended and comes back; what was sent meanwhile wakes the poll; garbage harms nobody', async (t) => {
  const { ids, post, another, database, db } = await postOffice(t);
  const replica = await database.replica();
  const there = another({ db: replica, notifier: replica.notifier });
  const poll = ids({ waitMs: 25_000 }, there);
  assert.ok(await waits(poll));
  await db.query(`notify gatehouse, 'garbage'`);
  await db.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'gatehouse listener'`,
  );
  const id = await post();
  assert.deepEqual(await poll, [id]);
});

test('REL-01 a caller that is gone takes nothing, and what was leased for it goes back uncounted', async (t) => {
  const { post, ids, take, another, db, mailbox } = await postOffice(t);
  const dead = new AbortController();
  const poll = ids({ waitMs: 25_000, gone: dead.signal });
  await waits(poll);
  dead.abort();
  assert.deepEqual(await poll, []);
  assert.equal(mailbox.stats().held, 0);
  await post();
  assert.equal((await take())[0]?.attempts, 1);
  assert.deepEqual(await ids({ waitMs: 25_000, gone: dead.signal }), []);

  // It goes away between the lease and the answer; the next in line is served at once.
  const leaving = new AbortController();
  const slow = another({
    db: {
      tx: (work) => db.tx(work),
      async query(text, values) {
        const answer = await db.query<never>(text, values);
        if (text.includes('take_deliveries') && answer.rows.some((row: { id?: number }) => row.id)) leaving.abort();
        return answer;
      },
    },
  });
  const first = ids({ waitMs: 25_000, gone: leaving.signal }, slow);
  const second = take({ waitMs: 25_000, leaseMs: 60_000 }, slow);
  await waits(first);
  const id = await post();
  assert.deepEqual(await first, []);
  const [got] = await second;
  assert.deepEqual([got?.id, got?.attempts], [id, 1]);
});

test('what a wire could not write is given back and wakes who waits', async (t) => {
  const { post, take, ids, mailbox } = await postOffice(t);
  await post();
  const [lost] = await take();
  const poll = take({ waitMs: 25_000, nodeId: 'n2' });
  assert.ok(await waits(poll));
  await mailbox.release([{ ...lost!, nodeId: 'n1' }]);
  assert.deepEqual(
    (await poll).map((each) => [each.id, each.attempts]),
    [[lost?.id, 1]],
  );
  assert.deepEqual(await ids(), []);
});

test('draining answers held polls with an empty list, and takes that come later too', async (t) => {
  const { post, ids, mailbox } = await postOffice(t);
  const polls = [ids({ waitMs: 25_000 }), ids({ waitMs: 25_000 }), ids({ waitMs: 25_000, nodeId: 'n2' })];
  await waits(polls[0]!);
  await Promise.all([mailbox.drain(), mailbox.drain()]);
  assert.deepEqual((await Promise.all(polls)).flat(), []);
  await post();
  assert.deepEqual(await ids({ waitMs: 25_000 }), []);
  assert.deepEqual(mailbox.stats(), { agents: 0, held: 0, looking: 0 });
});

test('an agent holds a bounded number of polls; the next is told to come back', async (t) => {
  const { another, ids } = await postOffice(t, ['billing', 'other']);
  const small = another({ maxHeld: 2 });
  const polls = [ids({ waitMs: 25_000 }, small), ids({ waitMs: 25_000 }, small)];
  const refused = await small.take({ agentId: 'billing', nodeId: 'n1', waitMs: 25_000 });
  assert.ok(refused instanceof Refusal);
  assert.equal(refused.code, 'rate_limited');
  assert.deepEqual(await ids({}, small), [], 'a call that does not wait is answered');
  const other = ids({ agentId: 'other', waitMs: 25_000 }, small);
  assert.ok(await waits(other));
  await small.drain();
  await Promise.all([...polls, other]);
});

test('a database that fails does not end a held poll', async (t) => {
  const { post, ids, another, db, clock } = await postOffice(t);
  let down = true;
  let looks = 0;
  const shaky = another({
    db: {
      tx: (work) => db.tx(work),
      query: (text, values) => {
        looks++;
        return down ? Promise.reject(new Error('the database is away')) : db.query(text, values);
      },
    },
  });
  const poll = ids({ waitMs: 25_000 }, shaky);
  await until(() => looks > 0);
  assert.ok(await waits(poll));
  await assert.rejects(ids({}, shaky));
  const id = await post();
  await waits(poll);
  down = false;
  clock.advance(1_000);
  assert.deepEqual(await poll, [id]);
});
