import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, it } from 'node:test';
import { testGateway } from '../support/gateway.ts';
import { adminMachine, personMachine } from './support.ts';

const gateway = await testGateway({ after });
const [joel, ana] = await Promise.all([adminMachine({ after }, gateway), personMachine({ after }, gateway, 'ana')]);

it('listen and send --wait: sealed by default, the answer alone on stdout', async () => {
  const shout = ana.start([
    'agent',
    'listen',
    'shout',
    '--run',
    await ana.program('console.log(input.body.text.toUpperCase())'),
  ]);
  await shout.line(/listening as acme\/general\/ana\/shout/);

  const asked = await joel.ok(['agent', 'send', 'ana/shout', 'hello there', '--wait']);
  assert.equal(asked.stdout, 'HELLO THERE\n');
  assert.match(asked.stderr, /sent m\S+ → acme\/general\/ana\/shout#s1 \(signed, sealed\)/);
  assert.match(
    asked.stderr,
    /reply \S+ {2}acme\/general\/ana\/shout#s1 → acme\/general\/joel\/cli \(sealed, verified as acme\/ana\)/,
  );
  const { rows } = await gateway.database.db.query<{ envelope: string }>('select envelope from messages');
  for (const { envelope } of rows) assert.doesNotMatch(envelope, /hello|HELLO/);

  const plain = (await joel
    .ok(['agent', 'send', 'shout', '-', '--from', 'cli', '--json'], { input: 'x\n' })
    .catch((e) => e)) as Error;
  assert.match(plain.message, /address_not_found|No agent|no agent/, 'a short name is my own');
  const sent = (await joel.ok(['agent', 'send', 'ana/shout', '-', '--plain', '--json'], { input: 'from stdin\n' }))
    .json;
  assert.deepEqual([sent.signed, sent.sealed], [true, false]);
  assert.equal((await joel.ok(['agent', 'get', sent.id, '--wait'])).stdout, 'FROM STDIN\n');
  assert.equal((await joel.ok(['agent', 'get', sent.id])).stdout, 'FROM STDIN\n', 'asked again, it is there again');
  const follow = (await joel.ok(['agent', 'send', 'ana/shout', 'more', '--thread', sent.thread, '--wait', '--json']))
    .json;
  assert.equal(follow.thread, sent.thread);
  assert.equal(follow.body.text, 'MORE');

  const listed = (await joel.ok(['agent', 'ls', '--sessions', '--json'])).json.agents;
  const entry = listed.find((agent: { address: string }) => agent.address === 'acme/general/ana/shout');
  assert.equal(entry.online, true);
  assert.ok(entry.sessions.length >= 2);
  assert.match((await joel.ok(['agent', 'ls'])).stdout, /acme\/general\/ana\/shout +online/);
  assert.equal(await shout.end(), 0);
});

it("the document's complete agent, in plain HTTP, answers the command line", async () => {
  const me = 'acme/general/joel/shout';
  const headers = {
    authorization: `Bearer ${gateway.token}`,
    'content-type': 'application/json',
    'redsyn-version': '2026-09-25',
  };
  const relay = `${gateway.url}/redsyn/v1`;
  const call = (method: string, path: string, body?: object) =>
    fetch(relay + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  await call('PUT', `/agents/${me}`, { listening: true, description: 'answers in capitals' });
  let on = true;
  const agent = (async () => {
    while (on) {
      const { items } = (await (await call('GET', `/inbox/${me}?wait=1&lease=300`)).json()) as {
        items: Array<{ kind: string; id: string; body: { text: string } }>;
      };
      for (const e of items.filter(({ kind }) => kind === 'request')) {
        const reply = {
          v: 1,
          id: `r${e.id}`,
          kind: 'reply',
          from: me,
          reply_to: e.id,
          body: { type: 'text/plain', text: e.body.text.toUpperCase() },
        };
        await call('POST', '/messages', reply);
      }
      if (items.length > 0) await call('POST', `/inbox/${me}/ack`, { ids: items.map(({ id }) => id) });
    }
  })();
  const asked = await joel.ok(['agent', 'send', 'joel/shout', 'hello', '--plain', '--wait']);
  assert.equal(asked.stdout, 'HELLO\n');
  assert.match(asked.stderr, /acme\/general\/joel\/shout#s1 → acme\/general\/joel\/cli \(not signed\)/);
  on = false;
  await agent;
});

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

it('pub, sub, topics, unsub: an event runs the command, and nobody answers it', async () => {
  const out = join(ana.home, '..', 'events');
  const run = await ana.program(`
    import { appendFileSync } from 'node:fs';
    appendFileSync(${JSON.stringify(out)}, [process.env.GATEHOUSE_KIND, process.env.GATEHOUSE_TOPIC, input.body.text, input.verified].join(' ') + '\\n');
  `);
  const listener = ana.start(['agent', 'listen', 'ear', '--run', run]);
  await listener.line(/listening/);
  await ana.ok(['agent', 'sub', 'invoices', '--agent', 'ear']);
  const topics = (await joel.ok(['agent', 'topics', '--json'])).json.topics;
  assert.deepEqual([topics[0].topic, topics[0].agents], ['topic:acme/general/invoices', ['acme/general/ana/ear']]);
  assert.match((await joel.ok(['agent', 'topics'])).stdout, /topic:acme\/general\/invoices +acme\/general\/ana\/ear/);
  await joel.ok(['agent', 'pub', 'invoices', 'number 7 came']);
  await listener.line(/event \S+ from acme\/general\/joel\/cli/);
  await ana.ok(['agent', 'unsub', 'topic:acme/general/invoices', '--agent', 'ear']);
  await joel.ok(['agent', 'pub', 'general/invoices', 'nobody hears this']);
  assert.equal(await listener.end(), 0);
  assert.equal(await readFile(out, 'utf8'), 'event topic:acme/general/invoices number 7 came true\n');
});

it('cancel withdraws what nobody took; what was taken or is unknown is refused', async () => {
  await gateway.admin.announce('acme/general/joel/slow');
  const sent = (await joel.ok(['agent', 'send', 'slow', 'x', '--plain', '--json'])).json;
  await joel.ok(['agent', 'cancel', sent.id]);
  assert.deepEqual(await gateway.admin.take('acme/general/joel/slow'), []);
  assert.equal((await joel.run(['agent', 'cancel', 'no-such'])).code, 1);
  const late = await joel.run(['agent', 'get', sent.id]);
  assert.equal(late.code, 1);
});

it('webhook: the secret is shown once, --off goes back to the inbox', async () => {
  await gateway.call('PUT', '/redsyn/v1/agents/acme/general/joel/hook', { body: { listening: true } });
  const set = (await joel.ok(['agent', 'webhook', 'hook', 'http://localhost:9/x', '--json'])).json;
  assert.equal(set.agent, 'acme/general/joel/hook');
  assert.ok(set.secret.length >= 16);
  await joel.ok(['agent', 'webhook', 'hook', '--off']);
  assert.equal((await joel.run(['agent', 'webhook', 'hook'])).code, 2);
  assert.equal((await joel.run(['agent', 'webhook', 'hook', 'http://192.0.2.1/x'])).code, 1);
});
