import assert from 'node:assert/strict';
import { test } from 'node:test';
import { circuitDelay, itemDelay } from '../../src/outbox/circuit.ts';
import { delivered, down, office, rest, settle, until } from './fixture.ts';

const hour = 3_600_000;

test('FED-03 the pauses of a destination: at most 10 s first, at most 60 s within an hour, at most an hour ever', () => {
  for (const random of [() => 0, () => 0.5, () => 0.999_999]) {
    assert.ok(circuitDelay(1, 0, random) <= 10_000 && circuitDelay(1, 0, random) >= 5_000);
    for (let failures = 1; failures < 100; failures++) {
      assert.ok(circuitDelay(failures, hour - 1, random) <= 60_000);
      assert.ok(circuitDelay(failures, 72 * hour, random) <= hour);
    }
    assert.ok(circuitDelay(90, 72 * hour, random) > hour / 2);
    assert.ok(itemDelay(1, random) <= 10_000);
    assert.ok(itemDelay(40, random) <= hour);
  }
  assert.notEqual(
    circuitDelay(3, 0, () => 0),
    circuitDelay(3, 0, () => 0.9),
    'jitter',
  );
});

test('FED-03 a destination that is down is asked with one row at a time, on a schedule, and then gets all in order', async (t) => {
  const { outbox, owe, sender, clock, left } = await office(t);
  sender.answer = () => down;
  for (let i = 0; i < 12; i++) await owe({ lane: `lane ${i}` });
  outbox.start([sender]);
  await until(() => sender.tries.length === 8 && sender.under === 0);
  await rest();
  const start = clock.now();
  const retries: number[] = [];
  while (clock.now() < start + 4 * 60_000) {
    clock.advance(1_000);
    const tries = sender.tries.length;
    if (clock.now() % 4_000 === 0) await settle();
    if (sender.tries.length > tries) retries.push((clock.now() - start) / 1_000);
  }
  const probes = sender.tries.slice(8).map((each) => each.at - start);
  assert.ok(probes[0]! <= 10_000, `first retry after ${probes[0]} ms`);
  for (let i = 1; i < probes.length; i++) {
    const pause = probes[i]! - probes[i - 1]!;
    assert.ok(pause <= 60_000 + 4_000 && pause >= 8_000, `a pause of ${pause} ms`);
  }
  assert.ok(probes.length >= 5 && probes.length <= 10, `${probes.length} probes in four minutes`);
  sender.answer = () => delivered;
  clock.advance(60_000);
  await until(async () => (await left()) === 0);
  assert.deepEqual(await outbox.circuits(), []);
});

test('one destination that is down delays no other', async (t) => {
  const { outbox, owe, sender } = await office(t);
  sender.answer = (item) => (item.destination === 'dead.example' ? down : delivered);
  outbox.start([sender]);
  for (let i = 0; i < 20; i++) await owe({ destination: 'dead.example' });
  await until(() => sender.tries.length >= 1 && sender.under === 0);
  await rest();
  const tried = sender.tries.length;
  for (let i = 0; i < 20; i++) await owe({ destination: `well${i}.example` });
  await until(() => sender.delivered.length === 20);
  assert.equal(sender.tries.length, tried + 20, 'nothing more went to the dead one');
  const [circuit] = await outbox.circuits();
  assert.deepEqual(
    [circuit?.destination, circuit?.failures, circuit?.waiting, circuit?.alert],
    ['dead.example', 1, 20, null],
  );
});

test('replicas share a circuit', async (t) => {
  const { outbox, owe, sender, another, database } = await office(t);
  sender.answer = () => down;
  outbox.start([sender]);
  await owe();
  await until(() => sender.tries.length === 1 && sender.under === 0);
  await rest();
  const replica = await database.replica();
  another({ db: replica, notifier: replica.notifier }).start([sender]);
  await owe();
  await settle();
  assert.equal(sender.tries.length, 1);
});

test('WEB-05 Retry-After is honoured, up to an hour', async (t) => {
  const { outbox, owe, sender, clock, db } = await office(t);
  sender.answer = () => ({ outcome: 'retry', reason: '429', retryAfterMs: 30_000, destinationDown: true });
  outbox.start([sender]);
  await owe();
  await until(() => sender.tries.length === 1 && sender.under === 0);
  await rest();
  clock.advance(29_999);
  await settle();
  assert.equal(sender.tries.length, 1);
  sender.answer = () => ({ outcome: 'retry', reason: '429', retryAfterMs: 30 * hour, destinationDown: true });
  clock.advance(1);
  await until(() => sender.tries.length === 2 && sender.under === 0);
  await rest();
  const { rows } = await db.query<{ open_until: number }>('select open_until from circuits');
  assert.equal(rows[0]!.open_until, clock.now() + hour);

  sender.answer = () => ({ outcome: 'retry', reason: 'busy', retryAfterMs: 45_000, destinationDown: false });
  await owe({ destination: 'other.example' });
  await until(() => sender.tries.length === 3 && sender.under === 0);
  await rest();
  sender.answer = () => delivered;
  clock.advance(44_999);
  await settle();
  assert.equal(sender.delivered.length, 0);
  clock.advance(1);
  await until(() => sender.delivered.length === 1);
});

test('a kind with its own schedule keeps to it while its destination is down', async (t) => {
  const { outbox, owe, sender, clock } = await office(t);
  const slow = Object.assign(sender, { retryDelay: (attempts: number) => 10_000 * 2 ** (attempts - 1) });
  sender.answer = () => down;
  outbox.start([slow]);
  await owe();
  await until(() => sender.tries.length === 1 && sender.under === 0);
  await rest();
  for (let i = 0; i < 75; i++) {
    clock.advance(1_000);
    if (i % 2 === 1) await settle();
  }
  const gaps = sender.tries.map((each) => each.at).map((at, i, all) => (i === 0 ? 0 : at - all[i - 1]!));
  assert.equal(sender.tries.length, 4);
  assert.ok(gaps[1]! >= 10_000 && gaps[2]! >= 20_000 && gaps[3]! >= 40_000, gaps.join());
});

test('the destination calls: its circuit closes on every replica and what waits is due at once', async (t) => {
  const { outbox, owe, sender, another, database, left } = await office(t);
  sender.answer = () => down;
  for (let i = 0; i < 3; i++) await owe();
  await outbox.heardFrom('acme.com');
  outbox.start([sender]);
  await until(() => sender.tries.length === 3 && sender.under === 0);
  await rest();
  const replica = await database.replica();
  const elsewhere = another({ db: replica, notifier: replica.notifier });
  sender.answer = () => delivered;
  await elsewhere.heardFrom('nobody.example');
  await settle();
  assert.equal(sender.delivered.length, 0);
  await elsewhere.heardFrom('acme.com');
  await until(async () => (await left()) === 0);
});

test('a destination that calls a hundred times a second costs one query', async (t) => {
  const { another, db, clock } = await office(t);
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
  await Promise.all(Array.from({ length: 100 }, () => outbox.heardFrom('acme.com')));
  assert.equal(asked, 1);
  clock.advance(2_000);
  await outbox.heardFrom('acme.com');
  assert.equal(asked, 2);
});

test('FED-03 a 401 stops the destination with an alert; an operator or the destination starts it again', async (t) => {
  const { outbox, owe, sender, clock, left } = await office(t);
  sender.answer = () => ({
    outcome: 'refused',
    code: 'signature_failed',
    words: 'who?',
    status: 401,
    stopDestination: true,
  });
  outbox.start([sender]);
  const refused = await owe({ lane: 'one' });
  await until(() => sender.givenUp.length === 1);
  for (let i = 0; i < 3; i++) await owe({ lane: 'one' });
  for (let i = 0; i < 5; i++) {
    clock.advance(20_000);
    await settle();
  }
  assert.equal(sender.tries.length, 1, 'no hot loop');
  assert.deepEqual(sender.givenUp, [{ id: refused, code: 'signature_failed', status: 401 }]);
  assert.equal((await outbox.circuits())[0]?.alert, '401: who?');

  await outbox.heardFrom('acme.com');
  await until(() => sender.givenUp.length === 2);
  await settle();
  assert.equal(sender.tries.length, 2, 'it is asked with one');

  sender.answer = () => delivered;
  assert.equal(await outbox.clearCircuit('acme.com'), true);
  assert.equal(await outbox.clearCircuit('acme.com'), false);
  await until(async () => (await left()) === 0);
});

test('times that a clock left far ahead hold nobody', async (t) => {
  const { outbox, owe, sender, clock, left, another } = await office(t);
  const now = clock.now();
  clock.jump(now + 24 * hour);
  sender.answer = () => down;
  outbox.start([sender]);
  await owe();
  await until(() => sender.tries.length === 1 && sender.under === 0);
  await rest();
  clock.jump(now);
  sender.answer = () => delivered;
  await outbox.stop();
  another().start([sender]);
  await settle();
  clock.advance(1_000);
  await until(async () => (await left()) === 0);
});
