import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, nodeKeys } from '../../src/client/index.ts';
import { loadConfig } from '../../src/config.ts';
import { type Gateway, type Overrides, startGateway } from '../../src/gateway.ts';
import { createLog, type Log } from '../../src/lib/log.ts';
import { type FreshDatabase, freshDatabase, type Lifetime } from './database.ts';

export interface TestGateway {
  readonly url: string;
  /** `localhost:<port>` */
  readonly authority: string;
  readonly did: string;
  readonly org: string;
  readonly token: string;
  readonly database: FreshDatabase;
  /** The admin, with node keys that are registered. Sends signed but not sealed: tests look at what travels. */
  readonly admin: Client;
  /** A call of anybody or with a token; the answer with its JSON. */
  call(method: string, path: string, options?: CallOptions): Promise<Called>;
  /** Another gateway process on the same database and port-less: a second replica, at a port of its own. */
  replica(): Promise<Gateway & { base: string }>;
  stop(): Promise<void>;
  /** Stops, and starts again with the same settings at the same place. */
  restart(): Promise<void>;
}

export interface CallOptions {
  token?: string | null;
  body?: unknown;
  headers?: Record<string, string>;
}

export interface Called {
  status: number;
  headers: Headers;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers
  json: any;
}

export interface TestGatewayOptions extends Overrides {
  org?: string;
  admin?: string;
  env?: Record<string, string>;
}

/** A gateway as an operator runs it, on a database of its own and a free port. Stopped, checked for leaks and dropped at the end. */
export async function testGateway(lifetime: Lifetime, options: TestGatewayOptions = {}): Promise<TestGateway> {
  const { org = 'acme', admin = 'joel', env = {}, ...overrides } = options;
  const ends: Array<() => Promise<void>> = [];
  lifetime.after(async () => {
    for (const end of ends.reverse()) await end();
  });
  const database = await freshDatabase({ after: (fn) => void ends.push(fn) });
  const data = await mkdtemp(join(tmpdir(), 'gatehouse-test-'));
  ends.push(() => rm(data, { recursive: true, force: true }));

  const port = await freePort();
  const url = `http://localhost:${port}`;
  const settings = {
    PORT: String(port),
    GATEHOUSE_URL: url,
    GATEHOUSE_DATA: data,
    GATEHOUSE_ORG: org,
    GATEHOUSE_ADMIN: admin,
    DATABASE_URL: database.url,
    GATEHOUSE_RATE_PEER: '100000',
    GATEHOUSE_RATE_IP: '100000',
    ...env,
  };
  let gateway = await startGateway(loadConfig(settings), { log: quiet, ...overrides });
  ends.push(() => gateway.stop());
  const token = gateway.admin.newToken ?? env.GATEHOUSE_ADMIN_TOKEN ?? '';
  const client = new Client({ url, token, keys: nodeKeys(), seal: false });
  await client.registerKeys();

  return {
    url,
    authority: `localhost:${port}`,
    did: gateway.did,
    org,
    token,
    database,
    admin: client,
    call: (method, path, more) => call(url, token, method, path, more),
    async replica() {
      const second = await freePort();
      const other = await startGateway(loadConfig({ ...settings, PORT: String(second), HOST: '127.0.0.1' }), {
        log: quiet,
        ...overrides,
      });
      ends.push(() => other.stop());
      return { ...other, stop: () => other.stop(), base: `http://localhost:${second}` };
    },
    stop: () => gateway.stop(),
    async restart() {
      await gateway.stop();
      gateway = await startGateway(loadConfig(settings), { log: quiet, ...overrides });
    },
  };
}

/** Trouble is shown, everything else is not. LOG_LEVEL in the environment of the tests shows more. */
const quiet: Log = createLog({ level: (process.env.LOG_LEVEL as 'error' | undefined) ?? 'fatal' });

async function call(
  base: string,
  ownToken: string,
  method: string,
  path: string,
  { token = ownToken, body, headers = {} }: CallOptions = {},
): Promise<Called> {
  const response = await fetch(base + path, {
    method,
    headers: {
      ...(token !== null && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, json: parsed(text) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A person who was invited, logged in on a node of hers and joined. */
export async function person(
  gateway: TestGateway,
  handle: string,
  team = 'general',
): Promise<Client & { token: string }> {
  const email = `${handle}@${gateway.org}.test`;
  const { code } = await gateway.admin.call<{ code: string }>('POST', `/orgs/${gateway.org}/invites`, { email, team });
  const { json } = await gateway.call('POST', '/redsyn/v1/login', {
    token: null,
    body: { code, node: `${handle}'s laptop` },
  });
  const client = new Client({ url: gateway.url, token: json.token, keys: nodeKeys(), seal: false });
  await client.call('POST', `/orgs/${gateway.org}/join`, { me: handle });
  await client.registerKeys();
  return Object.assign(client, { token: json.token as string });
}

/** A team of the org with these members. */
export async function team(gateway: TestGateway, handle: string, members: readonly string[]): Promise<void> {
  await gateway.admin.call('POST', `/orgs/${gateway.org}/teams`, { handle });
  for (const who of members) await gateway.admin.call('POST', `/orgs/${gateway.org}/teams/${handle}/members`, { who });
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
}

/** Polls for what another process or a background worker brings about. Fails with `what` after ten seconds. */
export async function eventually<T>(what: string, look: () => Promise<T | undefined | false | null>): Promise<T> {
  const end = Date.now() + 10_000;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not within ten seconds: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
