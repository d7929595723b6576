import { randomBytes } from 'node:crypto';
import { unwatchFile, watchFile } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import pg from 'pg';
import { sleep, systemClock } from '../lib/clock.ts';
import type { Log } from './connection.ts';
import {
  type Account,
  accountFor,
  type Binaries,
  clusterFolder,
  EmbeddedError,
  environment,
  findBinaries,
  give,
  run,
  syncFolder,
} from './embedded-files.ts';
import { database, type Embedded, type EmbeddedOptions, launch, ownerName } from './embedded-server.ts';
import {
  isPostmasterOf,
  type PidFile,
  readPidFile,
  removeSocketFolder,
  role,
  socketAnswers,
  urlOf,
} from './postmaster.ts';

export { EmbeddedError } from './embedded-files.ts';
export type { Embedded, EmbeddedOptions } from './embedded-server.ts';

const stopWithin = 60_000;
const halfMadeAfter = 600_000;
/** A gateway that has just started its server has its owner's session within this time. */
const ownedWithin = 1_000;

/**
 * Starts the PostgreSQL of this data folder and makes it at first. The server listens on a unix socket alone, in a folder that only its
 * account may enter, and asks the kernel who is calling (peer), so there is neither a port to collide nor a password to keep. It runs in
 * a session of its own: a Ctrl-C at the terminal reaches the gateway, which then stops it in order.
 *
 * A server that a killed gateway left behind is stopped first; one that a live gateway uses is refused. Two servers on one cluster
 * cannot be: PostgreSQL's own lock decides.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  if (process.platform === 'win32')
    throw new EmbeddedError('The embedded database needs Linux or macOS. Set DATABASE_URL.');
  const account = await accountFor(join(options.data, 'postgres'));
  const binaries = await findBinaries(account);
  const cluster = await clusterFolder(options.data, account);
  // Keeps the process alive while it waits for a server that is not its child.
  const hold = (): void => undefined;
  watchFile(join(cluster, 'postmaster.pid'), { interval: 1_000 }, hold);
  try {
    await initialise(cluster, binaries, account, options.log);
    await clear(cluster, options);
    return await launch(cluster, binaries, account, options);
  } finally {
    unwatchFile(join(cluster, 'postmaster.pid'), hold);
  }
}

/** The URL of the server that runs on this data folder now, for a command beside the gateway. */
export async function findEmbedded(data: string): Promise<string | undefined> {
  const file = await readPidFile(join(data, 'postgres'));
  return file?.status === 'ready' && (await socketAnswers(file.socket)) ? urlOf(file.socket, database) : undefined;
}

/** Made under another name, so that a half-made cluster is never taken for one. */
async function initialise(cluster: string, binaries: Binaries, account: Account, log: Log): Promise<void> {
  const made = await readFile(join(cluster, 'PG_VERSION'), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw new EmbeddedError(
      `${cluster} cannot be read by this user (${error.code}). Start the gateway as the user who made it.`,
    );
  });
  const { stdout } = await run(binaries.postgres, ['--version'], account.ids);
  const version = /(\d+)\./.exec(stdout)?.[1];
  if (made !== undefined) {
    if (made.trim() === version) return;
    throw new EmbeddedError(
      `${cluster} was made by PostgreSQL ${made.trim()}; this is ${version}. Dump it with the release that made it and restore it here.`,
    );
  }
  const parent = dirname(cluster);
  await removeHalfMade(cluster);
  const part = `${cluster}.new-${randomBytes(6).toString('hex')}`;
  log.info({ cluster }, 'making the embedded database');
  const locale = ['--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'];
  const args = [`--pgdata=${part}`, `--username=${role}`, '--auth=peer', '--encoding=UTF8', ...locale];
  try {
    if (account.ids.uid !== undefined) {
      await mkdir(part, { mode: 0o700 });
      await give(part, account);
    }
    await run(binaries.initdb, args, { ...account.ids, cwd: '/', env: environment() });
  } catch (error) {
    const said = (error as { stderr?: string }).stderr?.trim() || (error as Error).message;
    throw new EmbeddedError(`initdb failed: ${said}`, { cause: error });
  }
  await rename(part, cluster).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
    await rm(part, { recursive: true }); // another gateway was first: `clear` finds out whether it runs
  });
  await syncFolder(parent);
}

/** What gateways that died in the middle of an initdb left behind; younger ones may still be at work. */
async function removeHalfMade(cluster: string): Promise<void> {
  const parent = dirname(cluster);
  for (const name of await readdir(parent)) {
    if (!name.startsWith(`${basename(cluster)}.new-`)) continue;
    const { mtimeMs } = await stat(join(parent, name));
    if (systemClock.now() - mtimeMs > halfMadeAfter) await rm(join(parent, name), { recursive: true, force: true });
  }
}

/** Leaves the cluster without a server and without a stale lock, or refuses. */
async function clear(cluster: string, { data, log }: EmbeddedOptions): Promise<void> {
  const until = systemClock.now() + stopWithin;
  let unowned: number | undefined;
  let asked = false;
  for (;;) {
    const file = await readPidFile(cluster);
    if (!file) return;
    if (!(await isPostmasterOf(file.pid, cluster))) {
      // A pid that is free, or that the system has given to somebody else since: PostgreSQL alone would wait for that one for ever.
      if (await socketAnswers(file.socket)) {
        throw new EmbeddedError(
          `The database in ${cluster} is in use from another container. One data folder serves one gateway.`,
        );
      }
      if ((await readPidFile(cluster))?.pid === file.pid) await rm(join(cluster, 'postmaster.pid'), { force: true });
      await removeSocketFolder(file.socket, cluster);
      return;
    }
    if (systemClock.now() > until) {
      throw new EmbeddedError(
        `The PostgreSQL with the process id ${file.pid} still runs on ${cluster} and does not stop. End it by hand.`,
      );
    }
    if (file.status === 'ready' && !asked) {
      if (await owned(file)) {
        throw new EmbeddedError(
          `Another gateway (or command) is running on ${data}. Stop it, or give this one its own GATEHOUSE_DATA.`,
        );
      }
      unowned ??= systemClock.now();
      if (systemClock.now() - unowned > ownedWithin && (await isPostmasterOf(file.pid, cluster))) {
        log.warn({ pid: file.pid, cluster }, 'stopping the database that a killed gateway left behind');
        process.kill(file.pid, 'SIGINT');
        asked = true;
      }
    }
    await sleep(systemClock, 50);
  }
}

async function owned(file: PidFile): Promise<boolean> {
  const client = new pg.Client({ connectionString: urlOf(file.socket, 'postgres'), connectionTimeoutMillis: 5_000 });
  client.on('error', () => undefined);
  try {
    await client.connect();
    const { rowCount } = await client.query('select from pg_stat_activity where application_name = $1', [ownerName]);
    return (rowCount ?? 0) > 0;
  } catch {
    return false; // shutting down: the next look tells
  } finally {
    await client.end().catch(() => undefined);
  }
}
