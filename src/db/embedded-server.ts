import { type ChildProcess, spawn } from 'node:child_process';
import { open, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { sleep, systemClock } from '../lib/clock.ts';
import type { Log } from './connection.ts';
import {
  type Account,
  type Binaries,
  EmbeddedError,
  environment,
  give,
  nameOfSelf,
  socketFolder,
} from './embedded-files.ts';
import { readPidFile, removeSocketFolder, role, urlOf } from './postmaster.ts';

export interface EmbeddedOptions {
  /** The gateway's data folder; the cluster is its `postgres`. */
  data: string;
  log: Log;
  /** Settings of the server, over its defaults. */
  settings?: Readonly<Record<string, string>>;
  /** The server ended although nobody had called `stop`. */
  onExit?: (reason: EmbeddedError) => void;
}

export interface Embedded {
  readonly url: string;
  /** Ends the server in order (a fast shutdown). A second call waits for the first. */
  stop(): Promise<void>;
}

/** The database of the gateway on its own server. */
export const database = 'gatehouse';
/** The session that says: a live gateway uses this server. */
export const ownerName = 'gatehouse owner';
const startWithin = 120_000;
const stopWithin = 60_000;
const largestLog = 10_000_000;

/**
 * `exec` keeps the pid that we spawned. The watcher holds the other end of our pipe: when the gateway dies in whatever way, the pipe
 * closes and the watcher asks the server to shut down, unless the pid is no longer that of this cluster's server. It is nobody's child,
 * since a postmaster takes a child that it does not know for a crash.
 */
const supervisor = `
( ( read -r said <&3 && exit; read -r pid < "$0/postmaster.pid" && [ "$pid" = "$$" ] && kill -INT "$$" ) >/dev/null 2>&1 & )
exec "$@" 3<&-`;

/** Starts a server on a cluster that has none, and takes possession of it. */
export async function launch(
  cluster: string,
  binaries: Binaries,
  account: Account,
  options: EmbeddedOptions,
): Promise<Embedded> {
  const socket = await socketFolder(cluster, account);
  await writeAccess(cluster, account);
  const settings = {
    listen_addresses: '',
    unix_socket_directories: socket,
    unix_socket_permissions: '0700',
    port: '5432',
    max_connections: '100',
    timezone: 'UTC',
    log_timezone: 'UTC',
    log_checkpoints: 'off',
    ...options.settings,
  };
  const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const logFile = join(options.data, 'postgres.log');
  const until = systemClock.now() + startWithin;
  for (;;) {
    const tooLarge = (await stat(logFile).catch(() => undefined))?.size ?? 0;
    const out = await open(logFile, tooLarge > largestLog ? 'w' : 'a', 0o600);
    const from = (await out.stat()).size;
    const child = spawn('/bin/sh', ['-c', supervisor, cluster, binaries.postgres, '-D', cluster, ...args], {
      ...account.ids,
      detached: true,
      cwd: '/',
      env: environment(),
      stdio: ['ignore', out.fd, out.fd, 'pipe'],
    });
    const server = new Server(child, cluster, socket);
    await out.close();
    const ready = await server.ready(until);
    if (ready) return await server.own(options);
    await server.stop();
    const whole = await readFile(logFile).catch(() => Buffer.alloc(0));
    const said = whole.subarray(from).toString().trim();
    // Backends whose postmaster was killed are gone in a moment; until then the memory that they share is in use.
    if (!/pre-existing shared memory block/.test(said) || systemClock.now() > until) {
      throw new EmbeddedError(`PostgreSQL did not start on ${cluster}: ${said || `see ${logFile}`}`);
    }
    await sleep(systemClock, 250);
  }
}

class Server {
  #child: ChildProcess;
  #cluster: string;
  #socket: string;
  #owner: pg.Client | undefined;
  #ended: Promise<void>;
  #running = true;
  #stopping: Promise<void> | undefined;
  #onExit: ((reason: EmbeddedError) => void) | undefined;

  constructor(child: ChildProcess, cluster: string, socket: string) {
    this.#child = child;
    this.#cluster = cluster;
    this.#socket = socket;
    const pipe = child.stdio[3] as NodeJS.WritableStream | null | undefined;
    pipe?.on('error', () => undefined);
    this.#ended = new Promise((resolve) => {
      const over = (why: string): void => {
        if (!this.#running) return;
        this.#running = false;
        pipe?.end('ended\n'); // the pid is free from here on: the watcher must leave it alone
        if (!this.#stopping) this.#onExit?.(new EmbeddedError(`The embedded database ended by itself (${why}).`));
        resolve();
      };
      child.on('exit', (code, signal) => over(signal ?? `status ${code}`));
      child.on('error', (error) => over(error.message));
    });
  }

  /** Whether the server takes connections before `until`; false when it ended instead. */
  async ready(until: number): Promise<boolean> {
    while (this.#running && systemClock.now() < until) {
      const file = await readPidFile(this.#cluster);
      if (file?.pid === this.#child.pid && file?.status === 'ready') return true;
      await sleep(systemClock, 20);
    }
    return false;
  }

  /** Takes possession: the owner's session, and the database when it is not there yet. */
  async own(options: EmbeddedOptions): Promise<Embedded> {
    const owner = new pg.Client({ connectionString: urlOf(this.#socket, 'postgres'), application_name: ownerName });
    owner.on('error', () => undefined);
    try {
      await owner.connect();
      this.#owner = owner;
      const { rowCount } = await owner.query('select from pg_database where datname = $1', [database]);
      if (rowCount === 0) await owner.query(`create database ${database}`);
    } catch (error) {
      await this.stop();
      throw new EmbeddedError(`The embedded database started but cannot be used: ${(error as Error).message}`, {
        cause: error,
      });
    }
    this.#onExit = options.onExit ?? ((reason) => options.log.error({ err: reason }, reason.message));
    return { url: urlOf(this.#socket, database), stop: () => this.stop() };
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    await this.#owner?.end().catch(() => undefined);
    if (this.#running) this.#child.kill('SIGINT');
    const late = new AbortController();
    const forced = sleep(systemClock, stopWithin, late.signal).then(() => {
      if (!late.signal.aborted && this.#running) this.#child.kill('SIGQUIT');
    });
    await this.#ended;
    late.abort();
    await forced;
    await removeSocketFolder(this.#socket, this.#cluster);
  }
}

/** Who may connect: over the socket, the accounts that may enter its folder anyway, named by the kernel. */
async function writeAccess(cluster: string, account: Account): Promise<void> {
  const names = new Set([account.name, nameOfSelf(), 'root']);
  const files = {
    'pg_hba.conf': `# written at every start\nlocal all all peer map=${role}\n`,
    'pg_ident.conf': `# written at every start\n${[...names].map((name) => `${role} "${name}" ${role}\n`).join('')}`,
  };
  for (const [name, text] of Object.entries(files)) {
    const at = join(cluster, name);
    if ((await readFile(at, 'utf8').catch(() => '')) === text) continue;
    await writeFile(at, text, { mode: 0o600 });
    await give(at, account);
  }
}
