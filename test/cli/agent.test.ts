import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
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
