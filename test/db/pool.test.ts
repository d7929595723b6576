import assert from 'node:assert/strict';
import { connect, createServer, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { openPool } from '../../src/db/pool.ts';
import { ManualClock, systemClock } from '../../src/lib/clock.ts';
import { freshDatabase, silent } from '../support/database.ts';

const { db, url, replica } = await freshDatabase({ after });
await db.query('create table counter (id int primary key, n bigint not null)');
await db.query('insert into counter values (1, 0), (2, 0)');

test('bigint columns, counts and arrays arrive as numbers', async () => {
  const { rows, rowCount } = await db.query(
    'select count(*) as count, 9007199254740991::bigint as top, array[1, null, 3]::bigint[] as list, null::bigint as nothing from counter',
  );
  assert.deepEqual(rows, [{ count: 2, top: 9_007_199_254_740_991, list: [1, null, 3], nothing: null }]);
  assert.equal(rowCount, 1);
});

test('the timeouts and the name travel with the connection', async () => {
  const { rows } = await db.query(
    `select current_setting('statement_timeout') as statement, current_setting('application_name') as name,
            current_setting('idle_in_transaction_session_timeout') as idle`,
  );
  assert.deepEqual(rows, [{ statement: '30s', name: 'gatehouse', idle: '15s' }]);
  const hasty = await replica({ statementTimeout: 50 });
  await assert.rejects(hasty.query('select pg_sleep(5)'), /statement timeout/);
});

test('a transaction that throws leaves nothing and gives its connection back', async () => {
  const fault = new Error('no');
  const attempt = db.tx(async (tx) => {
    await tx.query('update counter set n = 100 where id = 1');
    throw fault;
  });
  await assert.rejects(attempt, fault);
  assert.deepEqual((await db.query('select n from counter where id = 1')).rows, [{ n: 0 }]);
  assert.equal(db.stats().busy, 0);
});

test('a transaction whose failure was swallowed does not pass for committed', async () => {
  const attempt = db.tx(async (tx) => {
    await tx.query('update counter set n = 100 where id = 1');
    await tx.query('select 1/0').catch(() => undefined);
  });
  await assert.rejects(attempt, /was rolled back/);
  assert.deepEqual((await db.query('select n from counter where id = 1')).rows, [{ n: 0 }]);
});

test('a prepared look-up goes on, unprepared, when a pooler forgets it', async () => {
  const one = await replica({ max: 1 });
  const look = () => one.query('select n from counter where id = any($1)', [[1]], { prepare: true });
  const kept = async () => (await one.query('select from pg_prepared_statements')).rowCount;
  assert.deepEqual((await look()).rows, [{ n: 0 }]);
  assert.equal(await kept(), 1);
  await one.query('deallocate all');
  assert.deepEqual((await look()).rows, [{ n: 0 }]);
  assert.deepEqual((await look()).rows, [{ n: 0 }]);
  assert.equal(await kept(), 0);
});

test('a query after the end of its transaction is refused', async () => {
  const escaped = await db.tx(async (tx) => tx);
  await assert.rejects(escaped.query('select 1'), /await/);
});

test('a deadlock is tried again and both transactions happen', async () => {
  let meet: () => void = () => undefined;
  const met = new Promise<void>((resolve) => {
    meet = resolve;
  });
  let tries = 0;
  let locked = 0;
  const crossing = (first: number, second: number): Promise<void> =>
    db.tx(async (tx) => {
      tries += 1;
      await tx.query('update counter set n = n + 1 where id = $1', [first]);
      locked += 1;
      if (locked === 2) meet();
      await met;
      await tx.query('update counter set n = n + 1 where id = $1', [second]);
    });
  await Promise.all([crossing(1, 2), crossing(2, 1)]);
  assert.ok(tries > 2, 'there was a deadlock');
  assert.deepEqual((await db.query('select n from counter order by id')).rows, [{ n: 2 }, { n: 2 }]);
});

test('a serialisation failure that does not end is given up after four tries', async () => {
  let tries = 0;
  const attempt = db.tx(async (tx) => {
    tries += 1;
    await tx.query(`do $$ begin raise exception 'again' using errcode = '40001'; end $$`);
  });
  await assert.rejects(attempt, /again/);
  assert.equal(tries, 4);
});

test('a connection that dies in a transaction fails that transaction alone', async () => {
  const lone = await replica({ max: 1 });
  const attempt = lone.tx(async (tx) => {
    const { rows } = await tx.query<{ pid: number }>('select pg_backend_pid() as pid');
    await db.query('select pg_terminate_backend($1, 5000)', [rows[0]?.pid]);
    await tx.query('select 1');
  });
  await assert.rejects(attempt);
  assert.deepEqual((await lone.query('select 1 as one')).rows, [{ one: 1 }]);
});

test('an idle connection that dies does no harm', async () => {
  const lone = await replica({ max: 1 });
  const { rows } = await lone.query<{ pid: number }>('select pg_backend_pid() as pid');
  await db.query('select pg_terminate_backend($1, 5000)', [rows[0]?.pid]);
  // Either it was noticed before, or this very query finds out.
  await lone.query('select 1').catch(() => undefined);
  assert.deepEqual((await lone.query('select 1 as one')).rows, [{ one: 1 }]);
});

test('a database that is not there is named at the start', async () => {
  const wrong = new URL(url);
  wrong.pathname = '/no_such_database';
  await assert.rejects(openPool({ url: wrong.href, clock: systemClock, log: silent }), /no_such_database/);
});

test('a pooler that refuses start-up parameters still gets transactions with timeouts', async (t) => {
  const pooler = await startStrictPooler(url);
  t.after(() => pooler.close());
  const pool = await openPool({ url: pooler.url, clock: new ManualClock(), log: silent, max: 2 });
  t.after(() => pool.close());
  const inside = await pool.tx(async (tx) => (await tx.query("select current_setting('statement_timeout') as t")).rows);
  assert.deepEqual(inside, [{ t: '30s' }]);
  assert.deepEqual((await pool.query("select current_setting('statement_timeout') as t")).rows, [{ t: '0' }]);
});

/** Stands before the server and refuses what a pgbouncer refuses: start-up parameters that it does not know (its error, its SQLSTATE). */
async function startStrictPooler(behind: string): Promise<{ url: string; close(): Promise<void> }> {
  const target = new URL(behind);
  const folder = target.searchParams.get('host');
  const there = { host: target.hostname, port: Number(target.port || 5432) };
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    sockets.add(client);
    client.on('error', () => undefined);
    client.once('data', (startup: Buffer) => {
      if (startup.includes('statement_timeout')) {
        const fields = 'SFATAL\0C08P01\0Munsupported startup parameter: statement_timeout\0\0';
        const head = Buffer.alloc(5);
        head.write('E');
        head.writeInt32BE(Buffer.byteLength(fields) + 4, 1);
        client.end(Buffer.concat([head, Buffer.from(fields)]));
        return;
      }
      const upstream = folder ? connect(`${folder}/.s.PGSQL.${there.port}`) : connect(there);
      sockets.add(upstream);
      upstream.on('error', () => client.destroy());
      upstream.write(startup);
      client.pipe(upstream).pipe(client);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  target.hostname = '127.0.0.1';
  target.port = String((server.address() as { port: number }).port);
  target.searchParams.delete('host');
  return {
    url: target.href,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
