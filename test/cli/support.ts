import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Lifetime } from '../support/database.ts';
import type { TestGateway } from '../support/gateway.ts';

const main = fileURLToPath(new URL('../../src/main.js', import.meta.url));

export interface Ran {
  code: number | null;
  stdout: string;
  stderr: string;
  /** stdout as JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers
  readonly json: any;
}

export interface Running {
  child: ChildProcess;
  /** What it said so far, a line each. */
  said: string[];
  /** The first line that matches, now or within 20 s. */
  line(pattern: RegExp): Promise<string>;
  /** Sends a signal and resolves when it has ended. */
  end(signal?: NodeJS.Signals): Promise<number | null>;
}

/** A machine on which somebody uses the command line: a home of its own, and each command a process. */
export interface Machine {
  readonly home: string;
  run(args: string[], options?: { input?: string; env?: Record<string, string> }): Promise<Ran>;
  /** Expects exit code 0. */
  ok(args: string[], options?: { input?: string }): Promise<Ran>;
  start(args: string[]): Running;
  /** A program for `--run`, in JavaScript: `input` is the envelope. Answers the command that runs it. */
  program(source: string): Promise<string>;
}

export async function machine(lifetime: Lifetime): Promise<Machine> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-cli-'));
  const home = join(folder, 'home');
  const running: Running[] = [];
  lifetime.after(async () => {
    await Promise.all(running.map((each) => each.end('SIGKILL')));
    await rm(folder, { recursive: true, force: true });
  });
  const env = { ...process.env, HOME: folder, GATEHOUSE_HOME: home };
  const run: Machine['run'] = (args, options = {}) =>
    new Promise((resolve, reject) => {
      const child = spawn(process.execPath, [main, ...args], { cwd: folder, env: { ...env, ...options.env } });
      let [stdout, stderr] = ['', ''];
      child.stdout.on('data', (chunk) => {
        stdout += chunk;
      });
      child.stderr.on('data', (chunk) => {
        stderr += chunk;
      });
      child.on('error', reject);
      child.stdin.on('error', () => undefined);
      child.stdin.end(options.input ?? '');
      child.on('close', (code) =>
        resolve({
          code,
          stdout,
          stderr,
          get json() {
            return JSON.parse(stdout);
          },
        }),
      );
    });
  let programs = 0;
  return {
    home,
    run,
    async ok(args, options) {
      const ran = await run(args, options);
      if (ran.code !== 0) throw new Error(`gatehouse ${args.join(' ')} ended with ${ran.code}: ${ran.stderr}`);
      return ran;
    },
    start(args) {
      const started = watch(
        spawn(process.execPath, [main, ...args], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] }),
      );
      running.push(started);
      return started;
    },
    async program(source) {
      programs += 1;
      const path = join(folder, `program-${programs}.mjs`);
      const reading = `import { readFileSync } from 'node:fs';\nconst input = JSON.parse(readFileSync(0, 'utf8'));\n`;
      await writeFile(path, reading + source);
      return `"${process.execPath}" "${path}"`;
    },
  };
}

function watch(child: ChildProcess): Running {
  const said: string[] = [];
  const heard = new Set<() => void>();
  for (const stream of [child.stdout!, child.stderr!]) {
    createInterface({ input: stream }).on('line', (line) => {
      said.push(line);
      for (const hear of heard) hear();
    });
  }
  const exited = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
  return {
    child,
    said,
    line(pattern) {
      return new Promise((resolve, reject) => {
        const late = setTimeout(() => fail('in time'), 20_000);
        const fail = (why: string): void => reject(new Error(`no line ${pattern} ${why}:\n${said.join('\n')}`));
        const hear = (): void => {
          const found = said.find((line) => pattern.test(line));
          if (found === undefined) return;
          clearTimeout(late);
          heard.delete(hear);
          resolve(found);
        };
        heard.add(hear);
        hear();
        void exited.then(() => setTimeout(() => fail('before it ended'), 200));
      });
    },
    async end(signal = 'SIGTERM') {
      if (child.exitCode === null && child.signalCode === null) child.kill(signal);
      return exited;
    },
  };
}

/** The admin's machine, logged in with a node of its own. */
export async function adminMachine(lifetime: Lifetime, gateway: TestGateway): Promise<Machine> {
  const made = await machine(lifetime);
  const { json } = await gateway.call('POST', '/redsyn/v1/nodes', { body: { name: 'laptop' } });
  await made.ok(['login', gateway.url, '--token', '-'], { input: `${json.token}\n` });
  return made;
}

/** A machine of somebody who was invited, logged in and joined. */
export async function personMachine(lifetime: Lifetime, gateway: TestGateway, handle: string): Promise<Machine> {
  const made = await machine(lifetime);
  const email = `${handle}@${gateway.org}.test`;
  const { code } = await gateway.admin.call<{ code: string }>('POST', `/orgs/${gateway.org}/invites`, { email });
  await made.ok(['login', gateway.url, code, '--node', `${handle}'s laptop`]);
  await made.ok(['org', 'join', gateway.org, '--me', handle]);
  return made;
}
