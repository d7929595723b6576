import assert from 'node:assert/strict';
import { it } from 'node:test';
import { testGateway } from '../support/gateway.ts';
import { adminMachine, machine, personMachine } from './support.ts';

it('a changed key stops the send until a person accepts it', async (t) => {
  const gateway = await testGateway(t);
  const [joel, ana] = await Promise.all([adminMachine(t, gateway), personMachine(t, gateway, 'ana')]);
  const echo = ['agent', 'listen', 'echo', '--run', await ana.program('console.log(input.body.text)')];
  const first = ana.start(echo);
  await first.line(/listening/);
  await joel.ok(['agent', 'send', 'ana/echo', 'pinned', '--wait']);
  await first.end();

  // ana's new laptop: another node, another key.
  const { json } = await gateway.call('POST', '/redsyn/v1/nodes', {
    token: await tokenOf(ana.home),
    body: { name: 'new laptop' },
  });
  const laptop = await machine(t);
  await laptop.ok(['login', gateway.url, '--token', json.token]);
  await laptop.start(['agent', 'listen', 'echo', '--run', 'cat > /dev/null; echo new']).line(/listening/);

  const stopped = await joel.run(['agent', 'send', 'ana/echo', 'to whom?', '--wait']);
  assert.equal(stopped.code, 1);
  assert.match(
    stopped.stderr,
    /the key of acme\/ana is not the one that was accepted.*gatehouse keys accept acme\/ana/s,
  );
  assert.equal(stopped.stdout, '');
  assert.deepEqual(
    (await gateway.database.db.query("select from messages where envelope like '%to whom%'")).rowCount,
    0,
  );
  assert.match((await joel.ok(['agent', 'keys'])).stdout, /acme\/ana +\S+ +NOT ACCEPTED/);
  const { own } = (await laptop.ok(['keys', 'list', '--json'])).json;
  assert.ok(stopped.stderr.includes(own.fingerprint));

  assert.equal((await joel.run(['keys', 'accept', 'acme/ana', 'ffff-0000'])).code, 1);
  await joel.ok(['keys', 'accept', 'acme/ana', own.fingerprint.slice(0, 9)]);
  assert.equal((await joel.ok(['agent', 'send', 'ana/echo', 'now', '--wait'])).stdout, 'new\n');
  assert.equal((await joel.run(['keys', 'accept', 'acme/ana'])).code, 1, 'nothing waits any more');
});

it('an agent with full trust takes only requests that are signed with a pinned key', async (t) => {
  const gateway = await testGateway(t);
  const [joel, ana] = await Promise.all([adminMachine(t, gateway), personMachine(t, gateway, 'ana')]);
  const refused = await ana.run(['agent', 'listen', 'root', '--run', 'true', '--trust', 'full']);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /allow/);
  const root = ana.start([
    'agent',
    'listen',
    'root',
    '--run',
    'cat > /dev/null; echo done',
    '--trust',
    'full',
    '--allow',
    'joel',
  ]);
  await root.line(/listening/);
  assert.equal((await joel.ok(['agent', 'send', 'ana/root', 'deploy', '--wait'])).stdout, 'done\n');

  const other = await adminMachine(t, gateway);
  const unknown = await other.run(['agent', 'send', 'ana/root', 'deploy', '--wait']);
  assert.equal(unknown.code, 1);
  assert.match(unknown.stdout, /not taken: .*gatehouse keys accept acme\/joel/s);
  await ana.ok(['keys', 'accept', 'acme/joel']);
  assert.equal((await other.ok(['agent', 'send', 'ana/root', 'deploy', '--wait'])).stdout, 'done\n');
});

async function tokenOf(home: string): Promise<string> {
  const { readFile } = await import('node:fs/promises');
  return (JSON.parse(await readFile(`${home}/config.json`, 'utf8')) as { token: string }).token;
}
