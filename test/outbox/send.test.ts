import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { OutboxItem, SendResult } from '../../src/outbox/index.ts';
import { delivered, office, Recorder, rest, settle, until, waits } from './fixture.ts';

test('what is owed is sent once and removed with what its delivery means', async (t) => {
  const { outbox, owe, sender, left } = await office(t);
  outbox.start([sender]);
  outbox.start([sender]);
  const id = await owe({ body: 'hello' });
  await until(async () => (await left()) === 0);
  assert.deepEqual(
    sender.tries.map(({ id, body, attempts }) => ({ id, body, attempts })),
    [{ id, body: 'hello', attempts: 1 }],
  );
  assert.deepEqual(sender.delivered, [id]);
});

test('nothing goes out before the commit, and nothing at all after a rollback', async (t) => {
  const { outbox, db, sender, left, clock } = await office(t);
  outbox.start([sender]);
  await assert.rejects(
    db.tx(async (tx) => {
      await outbox.enqueue(tx, { kind: 'redsyn', destination: 'acme.com', lane: 'l', expiresAt: clock.now() + 1e6 });
      throw new Error('no');
    }),
  );
  clock.advance(60_000);
  await settle();
  assert.ok(!(sender.tries.length > 0));
  assert.equal(await left(), 0);
});

test('rows of one lane leave strictly in order, also over a retry and over two replicas', async (t) => {
  const { outbox, owe, sender, clock, another, database, left } = await office(t);
  const replica = await database.replica();
  const second = another({ db: replica, notifier: replica.notifier });
  let failed = false;
  sender.answer = async (item) => {
    await new Promise((resolve) => setTimeout(resolve, 3));
    if (item.body === '4' && !failed) {
      failed = true;
      return { outcome: 'retry', reason: 'busy', destinationDown: false };
    }
    return delivered;
  };
  outbox.start([sender]);
  second.start([sender]);
  for (let i = 0; i < 10; i++) await owe({ lane: 'one', body: String(i) });
  await until(() => failed && sender.under === 0);
  await rest();
  assert.equal(sender.tries.at(-1)?.body, '4', 'what comes behind waits');
  clock.advance(8_000);
  await until(async () => (await left()) === 0);
  assert.deepEqual(
    sender.tries.map((each) => each.body),
    ['0', '1', '2', '3', '4', '4', '5', '6', '7', '8', '9'],
  );
});

test('at most eight are under way to one destination, over all replicas, and one that hangs keeps nobody else', async (t) => {
  const { outbox, owe, sender, another, database, left } = await office(t);
  const replica = await database.replica();
  const second = another({ db: replica, notifier: replica.notifier });
  let hang: () => void = () => {};
  const hanging = new Promise<void>((resolve) => {
    hang = resolve;
  });
  let under = 0;
  let most = 0;
  sender.answer = async (item) => {
    if (item.destination === 'dead.example') {
      most = Math.max(most, ++under);
      await hanging;
    }
    return delivered;
  };
  for (let i = 0; i < 30; i++) await owe({ destination: 'dead.example' });
  outbox.start([sender]);
  second.start([sender]);
  await until(() => under === 8);
  const started = sender.tries.length;
  await owe({ destination: 'well.example' });
  await until(() => sender.delivered.length === 1);
  assert.equal(started, 8);
  assert.equal(most, 8);
  hang();
  await until(async () => (await left()) === 0);
  assert.equal(sender.tries.filter((each) => each.destination === 'dead.example').length, 30);
});

test('those with least under way come first when there is little room', async (t) => {
  const { owe, sender, another } = await office(t);
  const small = another({ maxInFlight: 4 });
  for (let i = 0; i < 20; i++) await owe({ destination: 'busy.example' });
  await owe({ destination: 'quiet.example' });
  sender.answer = () => new Promise(() => {});
  const order: string[] = [];
  sender.answer = async (item) => {
    order.push(item.destination);
    await new Promise((resolve) => setTimeout(resolve, 5));
    return delivered;
  };
  small.start([sender]);
  await until(() => sender.delivered.length === 21);
  assert.ok(order.indexOf('quiet.example') < 4, order.join());
  assert.equal(sender.most, 4);
});

test('two replicas send each row once', async (t) => {
  const { outbox, owe, sender, another, database, left } = await office(t);
  const replica = await database.replica();
  const second = another({ db: replica, notifier: replica.notifier });
  outbox.start([sender]);
  second.start([sender]);
  await Promise.all(Array.from({ length: 60 }, (_, i) => owe({ destination: `d${i % 5}.example` })));
  await until(async () => (await left()) === 0);
  assert.equal(sender.tries.length, 60);
  assert.equal(new Set(sender.delivered).size, 60);
});

test('a crash between sending and recording sends again when the lease ends', async (t) => {
  const { another, owe, sender, left, clock, db, database } = await office(t);
  // The process that sends first dies before it can record: its database is gone.
  let dead = false;
  const dying = another({
    db: {
      query: (text, values) => (dead ? Promise.reject(new Error('gone')) : db.query(text, values)),
      tx: (work) => {
        if (sender.tries.length === 0) return db.tx(work);
        dead = true;
        return Promise.reject(new Error('gone'));
      },
    },
  });
  dying.start([sender]);
  const id = await owe();
  await until(() => dead);
  await dying.stop();
  assert.equal(await left(), 1);
  const replica = await database.replica();
  const other = another({ db: replica, notifier: replica.notifier });
  other.start([sender]);
  await settle();
  assert.ok(!(sender.tries.length > 1));
  clock.advance(40_000);
  await until(async () => (await left()) === 0);
  assert.deepEqual(
    sender.tries.map((each) => [each.id, each.attempts]),
    [
      [id, 1],
      [id, 2],
    ],
  );
  assert.deepEqual(sender.delivered, [id]);
});

test('a try that never ends is given up, and its signal aborts', async (t) => {
  const { outbox, owe, clock, sender, db } = await office(t);
  let aborted = false;
  const hanging = {
    kind: 'hang',
    send: (_item: OutboxItem, signal: AbortSignal) =>
      new Promise<SendResult>(() => signal.addEventListener('abort', () => (aborted = true))),
  };
  outbox.start([sender, hanging]);
  await owe({ kind: 'hang' });
  await until(() => outbox.stats().inFlight === 1);
  clock.advance(25_000);
  await until(() => outbox.stats().inFlight === 0);
  assert.ok(aborted);
  const { rows } = await db.query('select last_error from outbox');
  assert.deepEqual(rows, [{ last_error: 'no answer in time' }]);
});

test('a sender that throws is tried again, and its destination stays open to others', async (t) => {
  const { outbox, owe, sender, clock, left } = await office(t);
  sender.answer = (item) => {
    if (item.attempts === 1 && item.body === 'bad') throw new Error('a bug');
    return delivered;
  };
  outbox.start([sender]);
  await owe({ body: 'bad' });
  await owe({ body: 'good' });
  await until(() => sender.delivered.length === 1);
  assert.deepEqual(await outbox.circuits(), []);
  await settle();
  clock.advance(8_000);
  await until(async () => (await left()) === 0);
});

test('what the other side will never take is given up with its reason; what expires too', async (t) => {
  const { outbox, owe, sender, clock, left } = await office(t);
  sender.answer = () => ({ outcome: 'refused', code: 'policy_denied', words: 'no', status: 403 });
  outbox.start([sender]);
  const refused = await owe();
  await until(() => sender.givenUp.length === 1);
  sender.answer = () => ({ outcome: 'retry', reason: 'busy', destinationDown: true });
  const expired = await owe({ ttl: 20_000 });
  await until(() => sender.tries.length === 2);
  await settle();
  clock.advance(19_999);
  await settle();
  assert.equal(sender.givenUp.length, 1);
  clock.advance(100);
  await until(() => sender.givenUp.length === 2);
  assert.deepEqual(sender.givenUp, [
    { id: refused, code: 'policy_denied', status: 403 },
    { id: expired, code: 'expired', status: undefined },
  ]);
  await until(async () => (await left()) === 0);
});

test('items of a kind that nobody sends are left alone', async (t) => {
  const { outbox, owe, sender, left, clock } = await office(t);
  outbox.start([sender]);
  await owe({ kind: 'webhook', ttl: 1_000 });
  await owe();
  await until(() => sender.delivered.length === 1);
  clock.advance(120_000);
  await settle();
  assert.equal(await left(), 1);
});

test('sendNow and firstTry: who asks before the commit or after the try hears the outcome', async (t) => {
  const { outbox, db, sender, clock, owe } = await office(t);
  outbox.start([sender]);
  sender.answer = () => ({ outcome: 'delivered', note: 'globex/erp/bob/billing#s7' });
  let first: Promise<SendResult | null> | undefined;
  const id = await db.tx(async (tx) => {
    const id = await outbox.enqueue(tx, {
      kind: 'redsyn',
      destination: 'acme.com',
      lane: 'x',
      expiresAt: clock.now() + 1e6,
    });
    first = outbox.firstTry(id, 5_000);
    return id;
  });
  outbox.sendNow([id]);
  const expected = { outcome: 'delivered', note: 'globex/erp/bob/billing#s7' };
  assert.deepEqual(await first, expected);
  assert.deepEqual(await outbox.firstTry(id, 5_000), expected, 'it was tried a moment ago');

  sender.answer = () => new Promise(() => {});
  const slow = await owe();
  const none = outbox.firstTry(slow, 5_000);
  await until(() => sender.tries.length === 2);
  clock.advance(5_000);
  assert.equal(await none, null);
  clock.advance(20_000);
});

test('sendNow alone is enough: it looks at the rows it names', async (t) => {
  const { db, clock, sender, another } = await office(t);
  const outbox = another();
  outbox.start([sender]);
  await settle();
  const { rows } = await db.query<{ id: number }>(
    `insert into outbox (kind, destination, lane, due_at, expires_at, created_at) values ('redsyn', 'acme.com', 'l', $1, $2, $1) returning id`,
    [clock.now(), clock.now() + 1e6],
  );
  outbox.sendNow([rows[0]!.id]);
  await until(() => sender.delivered.length === 1);
});

test('stopping waits for what is under way and leaves the rest to others', async (t) => {
  const { outbox, owe, sender, another, database, left } = await office(t);
  let finish: () => void = () => {};
  sender.answer = () =>
    new Promise((resolve) => {
      finish = () => resolve(delivered);
    });
  outbox.start([sender]);
  await owe({ lane: 'one', body: 'a' });
  await owe({ lane: 'one', body: 'b' });
  await until(() => sender.under === 1);
  const replica = await database.replica();
  const second = another({ db: replica, notifier: replica.notifier });
  const other = new Recorder({ now: () => 0 } as never);
  second.start([other]);
  const stopped = Promise.all([outbox.stop(), outbox.stop()]);
  assert.ok(await waits(stopped));
  finish();
  await stopped;
  await until(async () => (await left()) === 0);
  assert.equal(sender.tries.length, 1);
  assert.deepEqual(
    other.tries.map((each) => each.body),
    ['b'],
  );
});

test('an idle worker asks the database nothing between its wakes', async (t) => {
  const { another, db, sender, clock } = await office(t);
  let asked = 0;
  const outbox = another({
    db: {
      tx: (work) => db.tx(work),
      query: (text, values) => {
        asked++;
        return db.query(text, values);
      },
    },
  });
  outbox.start([sender]);
  await settle();
  asked = 0;
  clock.advance(59_000);
  await settle();
  assert.equal(asked, 0);
});
