import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import { promisify } from 'node:util';
import { issueCapability, narrowCapability, parseCapability } from '../../src/identity/capability.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { team, testGateway } from '../support/gateway.ts';
import { sendSigned } from '../support/peer.ts';
import { befriend, conferPeer } from './peer.ts';

const globex = await testGateway({ after }, { org: 'globex', admin: 'bob' });
const zoe = await conferPeer({ after });
const other = await conferPeer({ after }, 'eve');
const to = `${globex.did}:agents:bob`;
const exp = Math.floor(Date.now() / 1000) + 600;
const whole = {
  iss: zoe.owner.did,
  sub: zoe.owner.did,
  aud: globex.did,
  scope: ['ask:technical', 'ask:product:X100'],
  exp,
  ctx: { thread_id: 't', delegation_depth: 1 },
};

before(async () => {
  await team(globex, 'erp', ['bob']);
  await globex.admin.announce('globex/erp/bob/billing');
  await befriend(globex, 'bob', zoe.owner.did);
  await befriend(globex, 'bob', other.owner.did);
});

async function ask(token: string, by = zoe, thread_id = 't'): Promise<[number, string | undefined]> {
  const body = JSON.stringify({ from: by.agent, to, thread_id, message: { type: 'question', content: '?' } });
  const sent = { path: '/a2a/v1/messages', body, headers: { authorization: `Capability ${token}` } };
  const { status, json } = await sendSigned(globex, sent, by.owner);
  return [status, json.error?.code];
}

const refused: [number, string] = [401, 'capability_invalid'];

it('a token that fits passes; each claim alone that does not is refused', async () => {
  const token = (change: object = {}, key = zoe.owner.key) => issueCapability({ ...whole, ...change }, key);
  assert.deepEqual(await ask(token()), [201, undefined]);
  for (const change of [
    { exp: exp - 1_200 },
    { aud: 'did:web:elsewhere.test' },
    { sub: other.owner.did },
    { iss: other.owner.did },
    { scope: ['read:docs'] },
    { ctx: { thread_id: 't', delegation_depth: 4 } },
    { ctx: { thread_id: 'another' } },
  ])
    assert.deepEqual(await ask(token(change)), refused, JSON.stringify(change));
  assert.deepEqual(await ask(token({}, other.owner.key)), refused);
});

it('who holds one can only narrow it, and shows what it was made of', async () => {
  const root = issueCapability({ ...whole, sub: other.owner.did }, zoe.owner.key);
  const narrow = (less: Parameters<typeof narrowCapability>[2], depth = root) =>
    narrowCapability(depth, other.owner.did, less, other.owner.key, { allowIp: true });
  const fits = narrow({ scope: ['ask:technical:rtu'] });
  assert.ok(typeof fits === 'string');
  assert.deepEqual(await ask(fits, other), [201, undefined]);
  for (const less of [
    { scope: ['ask'] },
    { scope: ['ask:personal'] },
    { exp: exp + 1 },
    { aud: 'did:web:elsewhere.test' },
    { threadId: 'x' },
  ])
    assert.ok(narrow(less) instanceof Refusal, JSON.stringify(less));
  // The same, by somebody who signs what the library would not.
  const forge = (change: object) => {
    const claim = parseCapability(fits, { allowIp: true });
    assert.ok(!(claim instanceof Refusal));
    const { iss, sub, aud, scope, ctx } = claim;
    return issueCapability({ iss, sub, aud, scope, exp, ctx: ctx!, prf: root, ...change }, other.owner.key);
  };
  assert.deepEqual(await ask(forge({}), other), [201, undefined]);
  for (const change of [
    { scope: ['ask'] },
    { exp: exp + 60 },
    { ctx: { thread_id: 't', delegation_depth: 1 } },
    { ctx: { delegation_depth: 2 } },
    { prf: issueCapability({ ...whole, sub: other.owner.did }, other.owner.key) },
    { prf: issueCapability(whole, zoe.owner.key) },
  ])
    assert.deepEqual(await ask(forge(change), other), refused, JSON.stringify(change));
  const [deeper, deepest] = [narrow({}, fits), narrow({}, narrow({}, fits) as string)];
  assert.ok(typeof deeper === 'string');
  assert.deepEqual(await ask(deeper, other), [201, undefined]);
  assert.ok(deepest instanceof Refusal, 'three times is the most');
});

it("the API issues and narrows with the owner's key, and the command does", async () => {
  const issue = (body: object, path = '') => globex.call('POST', `/api/v1/capabilities${path}`, { body });
  const issued = await issue({ aud: zoe.instance.did, scope: ['ask:technical'], thread_id: 't' });
  assert.equal(issued.status, 201, issued.text);
  const claim = parseCapability(issued.json.token, { allowIp: true });
  assert.ok(!(claim instanceof Refusal));
  assert.deepEqual(
    [claim.iss, claim.sub, claim.aud, claim.scope, claim.depth],
    [to, to, zoe.instance.did, ['ask:technical'], 0],
  );
  assert.equal((await issue({ token: issued.json.token, scope: ['ask:technical:x'] }, '/narrow')).status, 201);
  const wider = await issue({ token: issued.json.token, scope: ['ask'] }, '/narrow');
  assert.deepEqual([wider.status, wider.json.error.code], [401, 'capability_invalid']);
  for (const bad of [
    {},
    { aud: 'x', scope: ['ask'] },
    { aud: to, scope: [] },
    { aud: to, scope: ['ask'], expires_in: 0 },
    { aud: to, scope: ['ask'], sub: zoe.owner.did },
  ])
    assert.equal((await issue(bad)).status, 400, JSON.stringify(bad));
  assert.equal((await globex.call('POST', '/api/v1/capabilities', { token: null, body: {} })).status, 401);

  const home = await mkdtemp(join(tmpdir(), 'gatehouse-cli-'));
  after(() => rm(home, { recursive: true, force: true }));
  const run = (...args: string[]) =>
    promisify(execFile)(process.execPath, ['dist/src/main.js', ...args], {
      env: { ...process.env, GATEHOUSE_HOME: home, HOME: home },
    });
  const node = await globex.call('POST', '/redsyn/v1/nodes', { body: { name: 'cli' } });
  await run('login', globex.url, '--token', node.json.token);
  const { stdout } = await run(
    'capability',
    'issue',
    '--to',
    zoe.instance.did,
    '--scope',
    'ask:technical',
    '--expires',
    '15m',
  );
  const made = parseCapability(stdout.trim(), { allowIp: true });
  assert.ok(!(made instanceof Refusal) && made.iss === to, stdout);
});
