import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ConfigError, isLoopback, loadConfig, variables } from '../../src/config.ts';
import { keep, loadSecret } from '../../src/db/data-folder.ts';

const secret = `${'A'.repeat(42)}E`;

async function temp(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-config-'));
  t.after(() => rm(folder, { recursive: true }));
  return folder;
}

test('an empty environment is a gateway on this machine', () => {
  const config = loadConfig({ GATEHOUSE_URL: '', PORT: ' ' });
  assert.deepEqual(config, {
    port: 8080,
    host: '127.0.0.1',
    url: 'http://localhost:8080',
    authority: 'localhost:8080',
    hostname: 'localhost',
    basePath: '',
    scheme: 'http',
    loopback: true,
    databaseUrl: undefined,
    data: resolve('.gatehouse'),
    org: 'localhost-8080',
    admin: 'admin',
    adminToken: undefined,
    secret: undefined,
    plan: 'enterprise',
    trustProxy: [],
    wakesCron: true,
    ratePeer: 100,
    rateIp: 600,
    logLevel: 'info',
  });
});

test('a public URL gives authority, org, base path and the address to listen on', () => {
  const { url, authority, org, basePath, host, loopback, scheme } = loadConfig({
    GATEHOUSE_URL: 'https://Acme.com/gate/',
  });
  assert.deepEqual(
    { url, authority, org, basePath, host, loopback, scheme },
    {
      url: 'https://acme.com/gate',
      authority: 'acme.com',
      org: 'acme.com',
      basePath: '/gate',
      host: '0.0.0.0',
      loopback: false,
      scheme: 'https',
    },
  );
  assert.equal(loadConfig({ PORT: '9000' }).url, 'http://localhost:9000');
  assert.equal(loadConfig({ GATEHOUSE_URL: 'https://acme.com:8443' }).org, 'acme.com-8443');
  assert.equal(loadConfig({ GATEHOUSE_URL: 'https://acme.com:443' }).authority, 'acme.com');
});

test('the configuration is frozen through and through', () => {
  const config = loadConfig({ GATEHOUSE_TRUST_PROXY: '10.0.0.0/8, ::1' });
  assert.deepEqual(config.trustProxy, ['10.0.0.0/8', '::1']);
  assert.ok(Object.isFrozen(config) && Object.isFrozen(config.trustProxy));
});

test('what is loopback', () => {
  for (const host of ['localhost', 'a.localhost', '127.0.0.1', '127.9.9.9', '[::1]', '::1'])
    assert.ok(isLoopback(host), host);
  for (const host of ['acme.com', 'localhost.com', '10.0.0.1', '0.0.0.0', '[::]', '127.0.0.1.nip.io']) {
    assert.ok(!isLoopback(host), host);
  }
});

const wrong: [string, Record<string, string>][] = [
  ['PORT', { PORT: '80a' }],
  ['PORT', { PORT: '65536' }],
  ['GATEHOUSE_URL', { PORT: '0' }],
  ['GATEHOUSE_URL', { GATEHOUSE_URL: 'acme.com' }],
  ['GATEHOUSE_URL', { GATEHOUSE_URL: 'ftp://acme.com' }],
  ['GATEHOUSE_URL', { GATEHOUSE_URL: 'https://acme.com/?a=1' }],
  ['GATEHOUSE_URL', { GATEHOUSE_URL: 'https://me:pw@acme.com' }],
  ['DATABASE_URL', { DATABASE_URL: 'mysql://db' }],
  ['GATEHOUSE_ORG', { GATEHOUSE_ORG: 'Acme' }],
  ['GATEHOUSE_ADMIN', { GATEHOUSE_ADMIN: 'a b' }],
  ['GATEHOUSE_ADMIN_TOKEN', { GATEHOUSE_ADMIN_TOKEN: 'two words' }],
  ['GATEHOUSE_ADMIN_TOKEN', { GATEHOUSE_ADMIN_TOKEN: 'short', GATEHOUSE_URL: 'https://acme.com' }],
  ['GATEHOUSE_SECRET', { GATEHOUSE_SECRET: 'tooshort' }],
  ['GATEHOUSE_SECRET', { DATABASE_URL: 'postgresql://db/x', GATEHOUSE_URL: 'https://acme.com' }],
  ['GATEHOUSE_SECRET_FILE', { GATEHOUSE_SECRET: secret, GATEHOUSE_SECRET_FILE: '/x' }],
  ['GATEHOUSE_SECRET_FILE', { GATEHOUSE_SECRET_FILE: '/no/such/file' }],
  ['GATEHOUSE_PLAN', { GATEHOUSE_PLAN: 'gold' }],
  ['GATEHOUSE_TRUST_PROXY', { GATEHOUSE_TRUST_PROXY: '10.0.0.0/8,proxy' }],
  ['GATEHOUSE_WAKES_CRON', { GATEHOUSE_WAKES_CRON: 'yes' }],
  ['GATEHOUSE_RATE_PEER', { GATEHOUSE_RATE_PEER: '0' }],
  ['GATEHOUSE_RATE_IP', { GATEHOUSE_RATE_IP: '1.5' }],
  ['LOG_LEVEL', { LOG_LEVEL: 'loud' }],
];

for (const [variable, env] of wrong) {
  test(`${JSON.stringify(env)} is refused by the name of ${variable}`, () => {
    assert.throws(
      () => loadConfig(env),
      (error: Error) =>
        error instanceof ConfigError && error.variable === variable && error.message.startsWith(`${variable}: `),
    );
  });
}

test('the value of a secret is not in the error', () => {
  for (const name of ['GATEHOUSE_SECRET', 'GATEHOUSE_ADMIN_TOKEN', 'DATABASE_URL']) {
    assert.throws(
      () => loadConfig({ [name]: 'hush hush' }),
      (error: Error) => !error.message.includes('hush'),
    );
  }
});

test('secrets come from files, as Docker gives them', async (t) => {
  const folder = await temp(t);
  const file = (name: string) => join(folder, name);
  await writeFile(file('secret'), `${secret}\n`);
  await writeFile(file('token'), 'ghn_0123456789abcdef\n');
  await writeFile(file('db'), 'postgresql://u:p@db/x\n');
  await writeFile(file('empty'), '\n');
  const config = loadConfig({
    GATEHOUSE_URL: 'https://acme.com',
    GATEHOUSE_SECRET_FILE: file('secret'),
    GATEHOUSE_ADMIN_TOKEN_FILE: file('token'),
    DATABASE_URL_FILE: file('db'),
  });
  assert.equal(config.secret, secret);
  assert.equal(config.adminToken, 'ghn_0123456789abcdef');
  assert.equal(config.databaseUrl, 'postgresql://u:p@db/x');
  assert.throws(() => loadConfig({ DATABASE_URL_FILE: file('empty') }), /DATABASE_URL_FILE: .*empty/);
});

test('a secret is made once, kept for its owner alone, and the same for two who ask at once', async (t) => {
  const data = join(await temp(t), 'data');
  const [one, two] = await Promise.all([
    loadSecret({ data, secret: undefined }),
    loadSecret({ data, secret: undefined }),
  ]);
  assert.equal(one.length, 32);
  assert.deepEqual(one, two);
  assert.deepEqual(await loadSecret({ data, secret: undefined }), one);
  assert.equal((await stat(join(data, 'secret'))).mode & 0o777, 0o600);
  assert.deepEqual(await loadSecret({ data, secret }), Buffer.from(secret, 'base64url'));
  await writeFile(join(data, 'secret'), 'cut off');
  await assert.rejects(loadSecret({ data, secret: undefined }), /GATEHOUSE_SECRET: .*backup/);
});

test('a file that is kept is not made again', async (t) => {
  const data = await temp(t);
  assert.equal(await keep(data, 'admin-token', () => 'first'), 'first');
  assert.equal(await keep(data, 'admin-token', () => 'second'), 'first');
  assert.equal(await readFile(join(data, 'admin-token'), 'utf8'), 'first\n');
});

test('every variable has a row with a meaning, a default and an example', () => {
  for (const row of variables) assert.ok(row.meaning && row.default && row.example, row.name);
  assert.equal(new Set(variables.map((row) => row.name)).size, variables.length);
});
