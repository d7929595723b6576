import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { isMigrated, MigrationError, migrate, readMigrations } from '../../src/db/migrate.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { freshDatabase, silent } from '../support/database.ts';

const files = {
  '0001_things.sql': 'create table things (id int primary key); insert into things values (1);',
  '0002_more.sql': 'alter table things add column word text;',
  'fn_answer.sql': 'create or replace function answer() returns int language sql as $$ select 41 $$;',
};

async function folderWith(t: TestContext, content: Record<string, string>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-migrations-'));
  t.after(() => rm(folder, { recursive: true }));
  for (const [name, sql] of Object.entries(content)) await writeFile(join(folder, name), sql);
  return folder;
}

async function emptyDatabase(t: TestContext, content: Record<string, string> = files) {
  const folder = await folderWith(t, content);
  const fresh = await freshDatabase(t, { empty: true });
  const up = (from = folder) => migrate({ url: fresh.url, clock: systemClock, log: silent, folder: from });
  return { ...fresh, folder, up };
}

test('an empty database gets everything in order, and the second time nothing', async (t) => {
  const { db, folder, up } = await emptyDatabase(t);
  assert.deepEqual(await up(), ['0001_things.sql', '0002_more.sql', 'fn_answer.sql']);
  assert.deepEqual(await up(), []);
  assert.deepEqual((await db.query('select id, word, answer() from things')).rows, [{ id: 1, word: null, answer: 41 }]);
  assert.equal(await isMigrated(db, await readMigrations(folder)), true);
});

test('replicas that start at once take turns and each file is applied once', async (t) => {
  const { db, up } = await emptyDatabase(t, {
    ...files,
    '0003_slow.sql': 'select pg_sleep(0.1); insert into things values (2);',
  });
  const applied = await Promise.all([up(), up(), up(), up()]);
  assert.deepEqual(applied.flat().sort(), ['0001_things.sql', '0002_more.sql', '0003_slow.sql', 'fn_answer.sql']);
  assert.deepEqual((await db.query('select count(*) as n from things')).rows, [{ n: 2 }]);
});

test('a file that fails leaves nothing of itself, names itself, and is tried again', async (t) => {
  const broken = { ...files, '0002_more.sql': 'create table half (id int); select 1/0;' };
  const { db, up } = await emptyDatabase(t, broken);
  await assert.rejects(up(), /0002_more\.sql: division by zero/);
  assert.deepEqual((await db.query("select to_regclass('half') as half")).rows, [{ half: null }]);
  assert.deepEqual(await up(await folderWith(t, files)), ['0002_more.sql', 'fn_answer.sql']);
});

test('a database that is newer than the program is refused and left alone', async (t) => {
  const { db, folder, up } = await emptyDatabase(t);
  await up(await folderWith(t, { ...files, '0003_future.sql': 'create table future (id int);' }));
  await assert.rejects(up(), (error: Error) => {
    assert.ok(error instanceof MigrationError);
    return /newer than this program.*0003_future/.test(error.message);
  });
  assert.equal(await isMigrated(db, await readMigrations(folder)), false);
});

test('an applied file that was changed is refused', async (t) => {
  const { up } = await emptyDatabase(t);
  await up();
  const changed = await folderWith(t, { ...files, '0001_things.sql': 'create table things (id bigint primary key);' });
  await assert.rejects(up(changed), /0001_things\.sql was changed after it had been applied/);
});

test('line ends of another system are no change', async (t) => {
  const { up } = await emptyDatabase(t, { '0001_a.sql': 'create table a (\n id int\n);\n' });
  await up();
  assert.deepEqual(await up(await folderWith(t, { '0001_a.sql': 'create table a (\r\n id int\r\n);\r\n' })), []);
});

test('a file numbered below an applied one is refused', async (t) => {
  const { up } = await emptyDatabase(t, { '0001_a.sql': 'select 1;', '0003_c.sql': 'select 3;' });
  await up();
  const late = await folderWith(t, { '0001_a.sql': 'select 1;', '0002_b.sql': 'select 2;', '0003_c.sql': 'select 3;' });
  await assert.rejects(up(late), /0002_b\.sql comes before/);
});

test('functions are applied again when they change, and after every new numbered file', async (t) => {
  const { db, folder, up } = await emptyDatabase(t);
  await up();
  const better = { ...files, 'fn_answer.sql': files['fn_answer.sql'].replace('41', '42') };
  const next = await folderWith(t, better);
  assert.equal(await isMigrated(db, await readMigrations(next)), false);
  assert.deepEqual(await up(next), ['fn_answer.sql']);
  assert.deepEqual((await db.query('select answer()')).rows, [{ answer: 42 }]);
  const dropping = await folderWith(t, { ...better, '0003_drop.sql': 'drop function answer();' });
  assert.deepEqual(await up(dropping), ['0003_drop.sql', 'fn_answer.sql']);
  assert.deepEqual((await db.query('select answer()')).rows, [{ answer: 42 }]);
  assert.equal(await isMigrated(db, await readMigrations(folder)), false);
});

test('names that would be passed over in silence are refused', async (t) => {
  await assert.rejects(
    readMigrations(await folderWith(t, { '1_short.sql': '' })),
    /1_short\.sql: a migration is called/,
  );
  await assert.rejects(readMigrations(await folderWith(t, { '0001_a.sql': '', '0001_b.sql': '' })), /the number 1/);
});

test('the migrations of this installation are found and applied', async (t) => {
  const { db } = await freshDatabase(t);
  const migrations = await readMigrations();
  assert.ok(migrations.steps.length > 0);
  assert.equal(await isMigrated(db, migrations), true);
});
