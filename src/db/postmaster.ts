import { lstat, readFile, readlink, rm, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import { basename, join } from 'node:path';
import { run } from './embedded-files.ts';

/** The role that everything belongs to, and the name of the map of accounts that may be it. */
export const role = 'gatehouse';

/** What a running server writes into `postmaster.pid` (PostgreSQL, miscadmin.h: LOCK_FILE_LINE_*). */
export interface PidFile {
  pid: number;
  /** The folder of its unix socket. */
  socket: string;
  status: 'starting' | 'ready' | 'stopping';
}

export async function readPidFile(cluster: string): Promise<PidFile | undefined> {
  const text = await readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  const lines = text.split('\n').map((line) => line.trim());
  const status = lines[7] === 'ready' || lines[7] === 'stopping' ? lines[7] : 'starting';
  return { pid: Number(lines[0]), socket: lines[4] || cluster, status };
}

/** Whether that process is a PostgreSQL which works in this very folder: a pid alone may be anybody's by now. */
export async function isPostmasterOf(pid: number, cluster: string): Promise<boolean> {
  if (!Number.isSafeInteger(pid) || pid <= 1) return false;
  if (process.platform === 'linux') {
    try {
      const [cwd, exe] = await Promise.all([readlink(`/proc/${pid}/cwd`), readlink(`/proc/${pid}/exe`)]);
      // A program replaced on disk (an upgrade, a removed checkout) reads `…/postgres (deleted)`.
      return cwd === cluster && basename(exe.replace(/ \(deleted\)$/, '')) === 'postgres';
    } catch {
      return false;
    }
  }
  const { stdout } = await run('ps', ['-ww', '-o', 'command=', '-p', String(pid)]).catch(() => ({ stdout: '' }));
  return /postgres/.test(stdout) && stdout.includes(`-D ${cluster}`);
}

/** Whether somebody listens on the socket in that folder. */
export function socketAnswers(folder: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path: join(folder, '.s.PGSQL.5432') });
    const done = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.once('connect', () => done(true));
    socket.once('error', () => done(false));
  });
}

/** A socket's folder that was made for the purpose; the check of the owner keeps root from following a forged path. */
export async function removeSocketFolder(socket: string, cluster: string): Promise<void> {
  if (socket === cluster || !/\/gatehouse-[A-Za-z0-9]{6}$/.test(socket)) return;
  const [folder, owner] = await Promise.all([lstat(socket).catch(() => undefined), stat(cluster)]);
  if (folder?.isDirectory() && folder.uid === owner.uid) await rm(socket, { recursive: true, force: true });
}

export function urlOf(socket: string, name: string): string {
  return `postgresql://${role}@localhost:5432/${name}?host=${encodeURIComponent(socket)}&sslmode=disable`;
}
