import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readdir, readFile, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client, nodeKeys } from '../../src/client/index.ts';
import { isPostmasterOf } from '../../src/db/postmaster.ts';
import type { Lifetime } from './database.ts';
import { freePort } from './gateway.ts';

export interface ProcessOptions {
  org: string;
  admin: string;
  /** Left out: the embedded database, in the data folder. */
  databaseUrl?: string;
  env?: Record<string, string>;
  /** Arguments for node itself. */
  node?: readonly string[];
}

/** A gateway as a process of its own (`gatehouse start`), which may be killed and started again on the same port, folder and database. */
export interface GatewayProcess {
  readonly url: string;
  /** `localhost:<port>` */
  readonly authority: string;
  readonly org: string;
  readonly data: string;
  readonly token: string;
  /** The admin, with node keys that are registered. It signs, does not seal, and repeats nothing by itself. */
  readonly admin: Client;
  readonly pid: number;
  /** Starts it again, and resolves when it is ready. */
  start(): Promise<void>;
  /** kill -9; resolves when the process is gone. */
  kill(): Promise<void>;
  /** SIGTERM; the exit code. */
  stop(): Promise<number | null>;
  /** The last of what it wrote, for the words of a failure. */
  output(): string;
}

const main = fileURLToPath(new URL('../../src/main.js', import.meta.url));
const readyWithin = 60_000;

/** Stopped, and its data folder removed, at the end of the lifetime. */
export async function gatewayProcess(lifetime: Lifetime, options: ProcessOptions): Promise<GatewayProcess> {
  const { org, admin, databaseUrl = '', env = {}, node = [] } = options;
  const data = await mkdtemp(join(tmpdir(), 'gatehouse-process-'));
  const port = await freePort();
  const url = `http://localhost:${port}`;
  let child: ChildProcess | undefined;
  let output = '';

  const start = async (): Promise<void> => {
    const started = spawn(process.execPath, [...node, main, 'start'], {
      env: {
        ...process.env,
        PORT: String(port),
        GATEHOUSE_URL: url,
        GATEHOUSE_DATA: data,
        GATEHOUSE_ORG: org,
        GATEHOUSE_ADMIN: admin,
        GATEHOUSE_RATE_PEER: '1000000',
        GATEHOUSE_RATE_IP: '1000000',
        DATABASE_URL: databaseUrl,
        LOG_LEVEL: 'error',
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child = started;
    const keep = (chunk: Buffer): void => {
      output = (output + chunk.toString()).slice(-8_000);
    };
    started.stdout.on('data', keep);
    started.stderr.on('data', keep);
    const end = Date.now() + readyWithin;
    for (;;) {
      if (started.exitCode !== null) throw new Error(`the gateway of ${org} ended by itself:\n${output}`);
      if (await isReady(url)) return;
      if (Date.now() > end) throw new Error(`the gateway of ${org} is not ready in time:\n${output}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  const signal = (name: NodeJS.Signals): Promise<number | null> =>
    new Promise((resolve) => {
      const running = child;
      if (!running || running.exitCode !== null || running.signalCode !== null) return resolve(null);
      running.once('exit', (code) => resolve(code));
      running.kill(name);
    });
  lifetime.after(async () => {
    await signal('SIGTERM');
    // Root's server lives in a folder of its own, which the data folder points to.
    const cluster = await realpath(join(data, 'postgres')).catch(() => data);
    for (const folder of [cluster, data]) await rm(folder, { recursive: true, force: true });
  });

  await start();
  const token = (await readFile(join(data, 'admin-token'), 'utf8')).trim();
  const client = new Client({ url, token, keys: nodeKeys(), seal: false, retries: { tries: 1 } });
  await client.registerKeys();
  return {
    url,
    authority: `localhost:${port}`,
    org,
    data,
    token,
    admin: client,
    get pid() {
      return child!.pid!;
    },
    start,
    kill: async () => void (await signal('SIGKILL')),
    stop: () => signal('SIGTERM'),
    output: () => output,
  };
}

async function isReady(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(2_000) })).ok;
  } catch {
    return false;
  }
}

/** The PostgreSQL servers that run on its data folder, without their backends and those that have ended. */
export async function serversOf({ data }: Pick<GatewayProcess, 'data'>): Promise<number[]> {
  const cluster = await realpath(join(data, 'postgres'));
  const servers: number[] = [];
  for (const pid of (await readdir('/proc')).map(Number).filter(Number.isInteger)) {
    if (!(await isPostmasterOf(pid, cluster))) continue;
    const status = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
    const parent = Number(status.split(') ')[1]?.split(' ')[1]);
    if (!(await isPostmasterOf(parent, cluster))) servers.push(pid);
  }
  return servers;
}
