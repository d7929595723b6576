import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, it } from 'node:test';
import { testGateway } from '../support/gateway.ts';
import { adminMachine, personMachine } from './support.ts';

const gateway = await testGateway({ after });
const [joel, ana] = await Promise.all([adminMachine({ after }, gateway), personMachine({ after }, gateway, 'ana')]);

it('what a command gets, what it may answer, and how it fails', async () => {
  const run = await ana.program(`
    const [what, rest] = input.body.text.split(' ');
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => name.startsWith('GATEHOUSE_')));
    if (what === 'env') console.log(JSON.stringify({ body: { type: 'application/json', data: { env, input, argv: process.argv.slice(2) } } }));
    if (what === 'fail') { console.log('half'); console.error('line 1\\nno such invoice'); process.exit(3); }
    if (what === 'silent') process.exit(4);
    if (what === 'error') console.log(JSON.stringify({ body: { type: 'text/plain', text: 'sorry' }, error: true }));
    if (what === 'slow') setTimeout(() => undefined, 60_000);
    if (what === 'big') console.log('x'.repeat(70_000));
    if (what === 'progress') {
      console.log('::progress step 1');
      console.error('::progress step 2');
      console.log('done\\n\\nreally\\n');
    }
  `);
  const listener = ana.start(['agent', 'listen', 'work', '--run', run, '--timeout', '3']);
  await listener.line(/listening/);
  const ask = (text: string, ...more: string[]) => joel.run(['agent', 'send', 'ana/work', text, '--wait', ...more]);

  const seen = JSON.parse((await ask("env $(id) '; rm")).stdout);
  assert.deepEqual(seen.argv, []);
  assert.equal(seen.input.body.text, "env $(id) '; rm");
  assert.deepEqual([seen.input.sealed, seen.input.verified, seen.input.signer.person], [true, true, 'acme/joel']);
  const { env } = seen;
  assert.equal(env.GATEHOUSE_FROM, 'acme/general/joel/cli');
  assert.equal(env.GATEHOUSE_TO, 'acme/general/ana/work#s1');
  assert.equal(env.GATEHOUSE_SESSION, 's1');
  assert.deepEqual([env.GATEHOUSE_ID, env.GATEHOUSE_THREAD], [seen.input.id, seen.input.thread]);
  assert.deepEqual(
    [env.GATEHOUSE_KIND, env.GATEHOUSE_SEALED, env.GATEHOUSE_VERIFIED, env.GATEHOUSE_SIGNER],
    ['request', 'true', 'true', 'acme/joel'],
  );

  const progress = await ask('progress');
  assert.equal(progress.stdout, 'done\n\nreally\n');
  assert.match(progress.stderr, /progress acme\/general\/ana\/work#s\d: step 1\n[\s\S]*: step 2\n/);
  for (const [text, words] of [
    ['fail', 'line 1\nno such invoice\n'],
    ['silent', 'the command ended with code 4\n'],
    ['error', 'sorry\n'],
    ['slow', 'it took longer than 3 s\n'],
  ] as const) {
    const ran = await ask(text);
    assert.deepEqual([ran.code, ran.stdout], [1, words], text);
  }
  const big = await ask('big');
  assert.equal(big.code, 1);
  assert.match(big.stdout, /could not be sent: .*64 KB/);
  const asJson = await ask('fail', '--json');
  assert.equal(asJson.json.error, true);
});

it('--reply-json, and progress told by another command while it works', async () => {
  const run = await ana.program(`
    import { execFileSync } from 'node:child_process';
    execFileSync(process.execPath, [${JSON.stringify(new URL('../../src/main.js', import.meta.url).pathname)}, 'agent', 'progress', process.env.GATEHOUSE_ID, 'half way']);
    console.log('{"paid": true}');
  `);
  await ana.start(['agent', 'listen', 'ledger', '--run', run, '--reply-json']).line(/listening/);
  const ran = await joel.ok(['agent', 'send', 'ana/ledger', '--data', '{"invoice": 7}', '--wait', '--json']);
  assert.deepEqual(ran.json.body, { type: 'application/json', data: { paid: true } });
  const told = JSON.parse(ran.stderr);
  assert.deepEqual([told.kind, told.body.text, told.sealed], ['progress', 'half way', true]);
  const none = await joel.run(['agent', 'progress', 'no-such', 'x']);
  assert.equal(none.code, 1);
});

it('files: a folder is zipped, sealed, given to the command, and files of an answer can be fetched', async () => {
  const run = await ana.program(`
    const zip = readFileSync(process.env.GATEHOUSE_FILES);
    console.log([zip.subarray(0, 2), zip.includes('invoice.txt'), zip.length === input.files.bytes, input.files.path === process.env.GATEHOUSE_FILES].join(' '));
  `);
  await ana.start(['agent', 'listen', 'zips', '--run', run]).line(/listening/);
  const folder = join(joel.home, '..', 'data');
  await mkdir(join(folder, 'deep'), { recursive: true });
  await writeFile(join(folder, 'deep', 'invoice.txt'), 'a text that is deflated '.repeat(100));
  const plain = await joel.ok(['agent', 'send', 'ana/zips', 'look', '--file', folder, '--plain', '--wait']);
  assert.equal(plain.stdout, 'PK true true true\n');
  // Sealed, the zip travels 16 bytes longer.
  const sealed = await joel.ok(['agent', 'send', 'ana/zips', 'look', '--file', folder, '--wait']);
  assert.equal(sealed.stdout, 'PK true false true\n');
  const none = await joel.run(['agent', 'send', 'ana/zips', 'x', '--file', join(joel.home, 'config.json')]);
  assert.equal(none.code, 1);
  assert.match(none.stderr, /is no zip/);
});
