import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freshDatabase, type Lifetime } from '../support/database.ts';
import { type GatewayProcess, gatewayProcess } from '../support/process.ts';
import type { Processes } from './cpu.ts';
import { word } from './table.ts';

const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url));

/** What was begun last ends first. */
export function lifetime(): Lifetime & { end(): Promise<void> } {
  const ends: Array<() => Promise<void>> = [];
  return {
    after: (fn) => void ends.push(fn),
    async end() {
      for (const fn of ends.splice(0).reverse()) await fn();
    },
  };
}

export interface Running extends Processes {
  port: number;
}

/** The SDK's server in a process of its own. */
export async function sdkServer(
  life: Lifetime,
  store: 'memory' | 'postgres',
  answer: 'message' | 'task',
): Promise<Running> {
  const databaseUrl = store === 'postgres' ? (await freshDatabase(life, { empty: true, max: 1 })).url : undefined;
  const env = { ...process.env, DATABASE_URL: databaseUrl };
  if (databaseUrl !== undefined) {
    const sdk = dirname(dirname(fileURLToPath(import.meta.resolve('@a2a-js/sdk'))));
    const { status, stderr } = spawnSync(
      process.execPath,
      [join(sdk, 'dist/cli/a2a_db.js'), 'upgrade', '--store', 'tasks'],
      { env, encoding: 'utf8' },
    );
    if (status !== 0) throw new Error(`a2a-db upgrade failed: ${stderr}`);
  }
  const child = spawn(process.execPath, [here('./sdk-server.js'), store, answer], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  life.after(() => ended(child));
  const port = await new Promise<number>((resolve, reject) => {
    child.stdout.once('data', (text: Buffer) => resolve(Number(/\d+/.exec(text.toString())?.[0])));
    child.once('exit', (code) => reject(new Error(`the SDK's server ended with ${code}`)));
  });
  return { port, pid: child.pid!, databaseUrl };
}

/** A gateway in a process of its own, on a database of its own. `--cpu-prof DIR` leaves its profile there. */
export async function gateway(life: Lifetime): Promise<GatewayProcess & { databaseUrl: string }> {
  const database = await freshDatabase(life, { max: 4 });
  const profiles = word('cpu-prof');
  const made = await gatewayProcess(life, {
    org: 'acme',
    admin: 'joel',
    databaseUrl: database.url,
    node: profiles === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profiles}`],
    env: { GATEHOUSE_RATE_PEER: '1000000000', GATEHOUSE_RATE_IP: '1000000000' },
  });
  return Object.assign(made, { databaseUrl: database.url });
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once('exit', () => resolve());
    child.kill('SIGTERM');
  });
}
