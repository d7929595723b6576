import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { it } from 'node:test';
import { testGateway } from '../support/gateway.ts';
import { adminMachine, machine, personMachine } from './support.ts';

async function modes(folder: string): Promise<string[]> {
  const names = await readdir(folder, { recursive: true });
  const all = await Promise.all(['', ...names].map(async (name) => ({ name, found: await stat(join(folder, name)) })));
  return all
    .filter(({ found }) => (found.mode & 0o777) !== (found.isDirectory() ? 0o700 : 0o600))
    .map(({ name, found }) => `${name} ${(found.mode & 0o777).toString(8)}`);
}

it('an invitation, a login, a seat: and all that lies on the disk is for its owner alone', async (t) => {
  const gateway = await testGateway(t);
  const ana = await personMachine(t, gateway, 'ana');
  const me = (await ana.ok(['me', '--json'])).json;
  assert.deepEqual(me.seat, { org: 'acme', team: 'general', user: 'ana' });
  assert.equal(me.node.name, "ana's laptop");
  assert.match(me.fingerprint, /^([0-9a-f]{4}-){7}[0-9a-f]{4}$/);
  const keys = (await ana.ok(['keys', 'list', '--json'])).json;
  assert.equal(me.node.public_key, keys.own.public_key, 'the key is registered');

  await ana.ok(['agent', 'send', 'joel/nobody', 'hi', '--plain']).catch(() => undefined);
  await ana.run(['agent', 'send', 'ana/cli', 'to myself']);
  assert.deepEqual(await modes(ana.home), []);
  const config = await readFile(join(ana.home, 'config.json'), 'utf8');
  assert.match(config, /ghn_/);
});

it('refused is 1 and says what to do, misunderstood is 2; with --json the fault is JSON', async (t) => {
  const gateway = await testGateway(t);
  const fresh = await machine(t);
  const notIn = await fresh.run(['agent', 'ls']);
  assert.equal(notIn.code, 1);
  assert.match(notIn.stderr, /not logged in\n {2}→ gatehouse login/);
  const wrong = await fresh.run(['login', gateway.url, 'no-such-code', '--json']);
  assert.equal(wrong.code, 1);
  const told = JSON.parse(wrong.stderr);
  assert.ok(told.error && told.code && told.status >= 400, wrong.stderr);
  assert.equal((await fresh.run(['login', gateway.url])).code, 2);
  assert.equal((await fresh.run(['login', 'acme', 'code'])).code, 2);
  assert.equal((await fresh.run(['agent', 'send'])).code, 2);
  assert.equal((await fresh.run(['agent', 'send', 'x', '--timeout', 'soon'])).code, 2);
  assert.equal((await fresh.run(['no-such-command'])).code, 2);
  assert.equal((await fresh.run(['--help'])).code, 0);
  assert.equal((await fresh.run(['agent', 'listen', '--help'])).code, 0);
  assert.match((await fresh.run(['--version'])).stdout, /^\d+\.\d+\.\d+\n$/);
  const away = await fresh.run(['login', 'http://127.0.0.1:9', 'code']);
  assert.equal(away.code, 1);
  assert.match(away.stderr, /no answer from http:\/\/127\.0\.0\.1:9/);
});

it('a home that others may read is not used', async (t) => {
  const open = await machine(t);
  await mkdir(open.home);
  await chmod(open.home, 0o755);
  const ran = await open.run(['keys', 'list']);
  assert.equal(ran.code, 1);
  assert.match(ran.stderr, /chmod 700/);
  await chmod(open.home, 0o700);
  assert.equal((await open.run(['keys', 'list'])).code, 0);
});

it('keys rotate: the gateway has the new one, what was sealed for the old one still opens', async (t) => {
  const gateway = await testGateway(t);
  const joel = await adminMachine(t, gateway);
  await joel.ok(['agent', 'send', 'cli', 'to myself', '--plain']);
  const before = (await joel.ok(['keys', 'list', '--json'])).json.own;
  await joel.ok(['keys', 'rotate']);
  const after = (await joel.ok(['keys', 'list', '--json'])).json.own;
  assert.notEqual(before.fingerprint, after.fingerprint);
  assert.equal((await joel.ok(['me', '--json'])).json.node.public_key, after.public_key);
  assert.equal(
    (await joel.ok(['agent', 'send', 'cli', 'signed with the new one', '--plain', '--json'])).json.signed,
    true,
  );
  assert.deepEqual(await modes(joel.home), []);
  const kept = JSON.parse(await readFile(join(joel.home, 'keys.json'), 'utf8'));
  assert.equal(kept.previous.length, 1);
});
