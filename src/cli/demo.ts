/**
 * `npm run demo`: two companies on one laptop. Two gateways as processes of their own, each with its own PostgreSQL; a link that both
 * sides agree to; an agent process that listens behind one of them; a sealed, signed question and its answer across both.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Client, type DeliveredEnvelope, nodeKeys, type Received } from '../client/index.ts';

const keep = process.argv.includes('--keep');
const coloured = process.stdout.isTTY && process.env.NO_COLOR === undefined;
const paint = (code: number) => (text: string) => (coloured ? `\x1b[${code}m${text}\x1b[0m` : text);
const [bold, dim, green, cyan] = [paint(1), paint(2), paint(32), paint(36)];
const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url));

interface Company {
  org: string;
  user: string;
  url: string;
  token: string;
  process: ChildProcess;
  client: Client;
}

const folder = await mkdtemp(join(tmpdir(), 'gatehouse-demo-'));
// Run by root, the databases belong to another account, which has to get through.
await chmod(folder, 0o711);
const children: ChildProcess[] = [];
let ended: Promise<void> | undefined;
process.on('SIGINT', () => void end().then(() => process.exit(130)));
process.on('SIGTERM', () => void end().then(() => process.exit(143)));

try {
  await demo();
  if (keep) await new Promise(() => setInterval(() => undefined, 60_000));
} finally {
  await end();
}

async function demo(): Promise<void> {
  step('Two companies start a gateway each, with a database each');
  const [acme, globex] = await Promise.all([company('acme', 'joel'), company('globex', 'bob')]);
  for (const { org, url } of [acme, globex]) {
    const did = (await (await fetch(`${url}/.well-known/did.json`)).json()) as { id: string };
    say(`${org.padEnd(7)} ${url}   ${dim(did.id)}`);
  }
  await acme.client.call('POST', '/orgs/acme/teams', { handle: 'dev' });
  await acme.client.call('POST', '/orgs/acme/teams/dev/members', { who: 'joel' });
  await globex.client.call('POST', '/orgs/globex/teams', { handle: 'erp' });
  await globex.client.call('POST', '/orgs/globex/teams/erp/members', { who: 'bob' });

  step('acme proposes a link; globex accepts it and exposes one agent');
  await acme.client.call('POST', '/orgs/acme/links', { other: new URL(globex.url).host });
  say(`acme sees:   ${await linkOf(acme)}`);
  await globex.client.call('POST', '/orgs/globex/links', { other: new URL(acme.url).host });
  await globex.client.call('PUT', '/orgs/globex/links/acme/expose', {
    kind: 'agent',
    pattern: 'erp/bob/billing',
    on: true,
  });
  say(`globex sees: ${await linkOf(globex)}`);
  await until(async () => (await linkOf(acme)).endsWith('is shown erp/bob/billing'));
  say(`acme sees:   ${await linkOf(acme)}`);

  step("globex's agent listens: a process that only calls out");
  await agent(globex, 'globex/erp/bob/billing');
  say('globex/erp/bob/billing is waiting for work');

  step("acme's agent asks: signed by its node, sealed for the other");
  const from = 'acme/dev/joel/reviewer';
  await acme.client.registerKeys();
  await acme.client.announce(from, { description: 'Reviews code' });
  const sent = await acme.client.send({
    from,
    to: 'globex/erp/bob/billing',
    text: 'Is invoice 123 paid?',
    refs: [{ url: 'https://git.acme.com/app', note: 'at 4f2c1d, look at src/billing' }],
  });
  say(`sent     ${bold(`“Is invoice 123 paid?”`)}  ${dim(`id ${sent.id} → ${sent.to}`)}`);
  if (sent.sealed) say(`         ${green("✓ sealed for the machine of globex's agent: neither gateway can read it")}`);

  const asked = { from, to: 'globex/erp/bob/billing', thread: sent.thread };
  show(await acme.client.waitFor(sent.id, asked, { timeout: 60, onProgress: show }));

  step('The thread, as each side has it');
  await thread(acme, sent.thread);
  const [theirs] = await threadIds(globex);
  if (theirs) await thread(globex, theirs);

  if (!keep) return;
  step('Both go on running (Ctrl-C ends them)');
  for (const { org, url, token } of [acme, globex]) say(`${org.padEnd(7)} ${url}   TOKEN=${token}`);
}

async function company(org: string, user: string): Promise<Company> {
  const port = await freePort();
  const data = join(folder, org);
  const url = `http://localhost:${port}`;
  const child = spawn(process.execPath, [here('../main.js'), 'start'], {
    env: {
      ...process.env,
      PORT: String(port),
      GATEHOUSE_URL: url,
      GATEHOUSE_DATA: data,
      GATEHOUSE_ORG: org,
      GATEHOUSE_ADMIN: user,
      LOG_LEVEL: process.env.LOG_LEVEL ?? 'error',
      DATABASE_URL: '',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  // What a gateway logs in a demo is trouble; its greeting is not.
  createInterface({ input: child.stdout }).on('line', (line) => line.startsWith('{') && console.error(line));
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`the gateway of ${org} ended by itself`);
    return (await fetch(`${url}/readyz`).catch(() => undefined))?.ok ?? false;
  });
  const token = (await readFile(join(data, 'admin-token'), 'utf8')).trim();
  const client = new Client({ url, token, keys: nodeKeys() });
  return { org, user, url, token, process: child, client };
}

/** Starts the answering agent with a token and keys of its own. */
async function agent(at: Company, address: string): Promise<void> {
  const { token } = await at.client.call<{ token: string }>('POST', '/nodes', { name: 'laptop behind NAT' });
  const child = spawn(process.execPath, [here('./demo-agent.js'), at.url, address], {
    env: { ...process.env, TOKEN: token },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  children.push(child);
  child.stdin.end(JSON.stringify(nodeKeys().secrets()));
  await new Promise<void>((resolve, reject) => {
    child.stdout.once('data', () => resolve());
    child.once('exit', (code) => reject(new Error(`the agent ended with ${code}`)));
  });
}

function show({ envelope, text, sealed, signer, verified, trouble }: Received): void {
  say(`${envelope.kind.padEnd(8)} ${bold(`“${text}”`)}  ${dim(`from ${envelope.from}`)}`);
  const key = `${signer?.fingerprint.slice(0, 19)}…`;
  say(
    verified
      ? `         ${green(`✓ ${sealed ? 'sealed, and ' : ''}signed by ${signer?.person}'s own key ${key}: checked here without trusting either gateway`)}`
      : `         not verified: ${trouble ?? 'not signed'}`,
  );
}

async function linkOf(at: Company): Promise<string> {
  const { links } = await at.client.call<{ links: Array<Record<string, unknown>> }>('GET', '/links');
  const link = links[0];
  if (!link) return 'no link';
  const patterns = (side: unknown): string =>
    (side as Array<{ pattern: string }>).map((one) => one.pattern).join(', ') || 'nothing';
  return `${link.other} ${link.state}, exposes ${patterns(link.exposes)}, is shown ${patterns(link.exposed)}`;
}

async function thread(at: Company, id: string): Promise<void> {
  const { messages } = await at.client.call<{ messages: DeliveredEnvelope[] }>(
    'GET',
    `/threads/${encodeURIComponent(id)}`,
  );
  say(`${cyan(at.org)} calls it ${id}`);
  for (const { kind, from, body } of messages)
    say(`  ${kind.padEnd(8)} ${from.padEnd(28)} ${body.text ?? dim('sealed')}`);
}

/** The conversations that globex's agent had, through its sessions. */
async function threadIds(at: Company): Promise<string[]> {
  const { sessions } = await at.client.call<{ sessions?: Array<{ thread?: string }> }>(
    'GET',
    '/agents/globex/erp/bob/billing',
  );
  return (sessions ?? []).flatMap((session) => (session.thread ? [session.thread] : []));
}

async function until(done: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + 60_000;
  while (!(await done())) {
    if (Date.now() > end) throw new Error('it took too long');
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
}

function step(words: string): void {
  console.log(`\n${bold(words)}`);
}

function say(words: string): void {
  console.log(`  ${words}`);
}

function end(): Promise<void> {
  ended ??= (async () => {
    await Promise.all(
      children.reverse().map(
        (child) =>
          new Promise<void>((resolve) => {
            if (child.exitCode !== null || child.signalCode !== null) return resolve();
            child.once('exit', () => resolve());
            child.kill('SIGTERM');
          }),
      ),
    );
    await rm(folder, { recursive: true, force: true });
  })();
  return ended;
}
