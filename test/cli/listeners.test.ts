import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, it } from 'node:test';
import { eventually, testGateway } from '../support/gateway.ts';
import { adminMachine, personMachine } from './support.ts';

const gateway = await testGateway({ after });
const [joel, ana] = await Promise.all([adminMachine({ after }, gateway), personMachine({ after }, gateway, 'ana')]);

it('kill -9 of a listener in the middle: the request comes back and is answered once', async () => {
  const slow = await ana.program("setTimeout(() => console.log('by the first'), 60_000)");
  const quick = await ana.program("console.log('by the second')");
  const first = ana.start(['agent', 'listen', 'killed', '--run', slow, '--lease', '2']);
  await first.line(/listening/);
  const sent = (await joel.ok(['agent', 'send', 'ana/killed', 'go', '--json'])).json;
  await first.line(/request/);
  await first.end('SIGKILL');
  await ana.start(['agent', 'listen', 'killed', '--run', quick, '--lease', '30']).line(/listening/);
  const got = await joel.ok(['agent', 'get', sent.id, '--wait', '--timeout', '30']);
  assert.equal(got.stdout, 'by the second\n');
  const { rows } = await gateway.database.db.query<{ kind: string }>('select kind from messages order by 1');
  assert.deepEqual(
    rows.map(({ kind }) => kind),
    ['reply', 'request'],
  );
});

it('two listeners at once: every request is answered, each once', async () => {
  const out = join(ana.home, '..', 'handled');
  const run = await ana.program(`
    import { appendFileSync } from 'node:fs';
    appendFileSync(${JSON.stringify(out)}, input.id + '\\n');
    console.log('answer to ' + input.body.text);
  `);
  const listen = ['agent', 'listen', 'both', '--run', run, '--concurrency', '2'];
  await Promise.all([ana.start(listen).line(/listening/), ana.start(listen).line(/listening/)]);
  const texts = Array.from({ length: 8 }, (_, i) => `q${i}`);
  const answers = await Promise.all(texts.map((text) => joel.ok(['agent', 'send', 'ana/both', text, '--wait'])));
  assert.deepEqual(
    answers.map(({ stdout }) => stdout),
    texts.map((text) => `answer to ${text}\n`),
  );
  const handled = (await readFile(out, 'utf8')).trim().split('\n');
  assert.equal(handled.length, texts.length);
  assert.equal(new Set(handled).size, texts.length);
});

it('SIGTERM lets the command finish, answers, and ends with 0', async () => {
  const run = await ana.program("setTimeout(() => console.log('finished'), 1_500)");
  const listener = ana.start(['agent', 'listen', 'stopped', '--run', run, '--json']);
  await listener.line(/"listening"/);
  const sent = (await joel.ok(['agent', 'send', 'ana/stopped', 'go', '--json'])).json;
  await listener.line(/"taken"/);
  assert.equal(await listener.end('SIGTERM'), 0);
  assert.equal((await joel.ok(['agent', 'get', sent.id])).stdout, 'finished\n');
  const events = listener.said.map((line) => JSON.parse(line).event);
  assert.deepEqual(events, ['listening', 'taken', 'stopping', 'answered', 'stopped']);
});

it('ends with 1, and says what to do, when its token is revoked', async () => {
  const listener = ana.start(['agent', 'listen', 'revoked', '--run', 'sleep 2']);
  await listener.line(/listening/);
  const { token } = JSON.parse(await readFile(join(ana.home, 'config.json'), 'utf8'));
  await gateway.admin.announce('acme/general/joel/cli');
  await gateway.admin.send({ from: 'acme/general/joel/cli', to: 'acme/general/ana/revoked', text: 'the last one' });
  await listener.line(/request/);
  const { json } = await gateway.call('GET', '/redsyn/v1/nodes', { token });
  await gateway.call('DELETE', `/redsyn/v1/nodes/${json.nodes[0].id}`, { token });
  assert.equal(await listener.end('SIGCONT'), 1);
  await eventually('it says what to do', async () => listener.said.some((line) => line.includes('gatehouse login')));
});
