import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import pg from 'pg';
import type { Log } from '../../src/db/connection.ts';
import type { Db, Notifier } from '../../src/db/types.ts';
import { freshDatabase } from '../support/database.ts';

const { db, notifier, replica } = await freshDatabase({ after });
const other = await replica();
/** A database whose channel nobody else speaks on. */
const heard = await freshDatabase({ after });

/** Resolves at the next wake of `topic`. */
function woken(from: Notifier, topic: string): Promise<void> {
  return new Promise((resolve) => {
    const cancel = from.subscribe(topic, () => {
      cancel();
      resolve();
    });
  });
}

/** Everything that is said on the channel, in order, as a session outside of the gateway hears it. */
async function overhear(during: () => Promise<void>): Promise<string[]> {
  const client = new pg.Client({ connectionString: heard.url });
  const payloads: string[] = [];
  client.on('notification', (notice) => payloads.push(notice.payload ?? ''));
  await client.connect();
  await client.query('listen gatehouse');
  await during();
  await client.query('select 1');
  await client.end();
  return payloads;
}

async function killListeners(on: Db): Promise<number> {
  const { rowCount } = await on.query(
    `select pg_terminate_backend(pid, 5000) from pg_stat_activity
     where datname = current_database() and application_name = 'gatehouse listener'`,
  );
  return rowCount;
}

test('a committed notice wakes waiters here and on the other replica', async () => {
  const both = Promise.all([woken(notifier, 'agent:1'), woken(other.notifier, 'agent:1')]);
  await db.tx(async (tx) => tx.notify('agent:1'));
  await both;
});

test('a transaction that fails wakes nobody', async () => {
  let wakes = 0;
  const cancels = [notifier, other.notifier].map((each) => each.subscribe('agent:2', () => void wakes++));
  const attempt = db.tx(async (tx) => {
    tx.notify('agent:2');
    throw new Error('no');
  });
  await assert.rejects(attempt, /no/);
  const arrived = woken(other.notifier, 'after');
  await db.tx(async (tx) => tx.notify('after'));
  await arrived;
  assert.equal(wakes, 0);
  for (const cancel of cancels) cancel();
});

test('publish wakes both sides outside of a transaction', async () => {
  const both = Promise.all([woken(notifier, 'agent:3'), woken(other.notifier, 'agent:3')]);
  await notifier.publish(['agent:3']);
  await both;
});

test('one transaction says its topics once, in one notification', async () => {
  const payloads = await overhear(async () => {
    await heard.db.tx(async (tx) => {
      for (const topic of ['a', 'b', 'a', 'it\'s \\ "quoted"']) tx.notify(topic);
    });
  });
  const said = payloads.map((each) => JSON.parse(each) as { o: string; t: string[] }).filter(({ t }) => t.length > 0);
  assert.deepEqual(
    said.map(({ t }) => t),
    [['a', 'b', 'it\'s \\ "quoted"']],
  );
  assert.match(said[0]?.o ?? '', /^[\w-]{12}$/);
});

test('topics that do not fit into one payload take several, each within the limit', async () => {
  const topics = Array.from({ length: 700 }, (_, index) => `org/team/user/agent-${index}-é`);
  const payloads = await overhear(() => heard.db.tx(async (tx) => topics.forEach(tx.notify)));
  const said = payloads.filter((each) => (JSON.parse(each) as { t: string[] }).t.length > 0);
  assert.ok(said.length > 1);
  assert.ok(said.every((each) => Buffer.byteLength(each) <= 7_500));
  assert.deepEqual(
    said.flatMap((each) => (JSON.parse(each) as { t: string[] }).t),
    topics,
  );
});

test('its own notification comes back once, not twice', async () => {
  let wakes = 0;
  const cancel = notifier.subscribe('agent:4', () => void wakes++);
  const echoed = woken(other.notifier, 'agent:4');
  await db.tx(async (tx) => tx.notify('agent:4'));
  await echoed;
  const back = woken(notifier, 'echo');
  await other.tx(async (tx) => tx.notify('echo'));
  await back; // said later on the same channel, so the echo of the first has come before it
  cancel();
  assert.equal(wakes, 1);
});

test('a waiter that throws keeps nobody else asleep', async () => {
  const cancel = notifier.subscribe('agent:5', () => {
    throw new Error('a bad waiter');
  });
  const good = woken(notifier, 'agent:5');
  await db.tx(async (tx) => tx.notify('agent:5'));
  await good;
  cancel();
});

test('a topic that nobody waits for any more is forgotten', () => {
  const before = db.stats().topics;
  const cancels = [1, 2].map(() => notifier.subscribe('gone', () => undefined));
  assert.equal(db.stats().topics, before + 1);
  for (const cancel of cancels) cancel();
  cancels[0]?.();
  assert.equal(db.stats().topics, before);
});

test('REL-04: garbage on the channel is passed over and the next notification is heard', async () => {
  for (const payload of ['garbage', '', 'null', '{"t":7}', '{"t":[7,null,{}]}', '[]', '"x"', '{"o":"x"}']) {
    await db.query("select pg_notify('gatehouse', $1)", [payload]);
  }
  const good = woken(other.notifier, 'agent:6');
  await db.tx(async (tx) => tx.notify('agent:6'));
  await good;
});

test('REL-04: a listener that is killed comes back, and what was said meanwhile is caught up with', async (t) => {
  const said: string[] = [];
  const log: Log = {
    info: (_, words) => said.push(words),
    warn: (_, words) => said.push(words),
    error: () => undefined,
  };
  const fresh = await freshDatabase(t, { log });
  const waiter = woken(fresh.notifier, 'agent:7');
  assert.equal(await killListeners(db), 2, 'the listeners of the two replicas above');
  assert.equal(await killListeners(fresh.db), 1);
  // Nobody listens at this moment: this notification is lost.
  await fresh.db.query("select pg_notify('gatehouse', $1)", ['{"o":"elsewhere","t":["agent:7"]}']);
  await waiter;
  assert.ok(said.some((words) => words.includes('was lost')));
  assert.ok(said.some((words) => words.includes('again')));
  const second = woken(fresh.notifier, 'agent:8');
  await fresh.db.query("select pg_notify('gatehouse', $1)", ['{"o":"elsewhere","t":["agent:8"]}']);
  await second;
});
