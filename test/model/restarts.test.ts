import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, it } from 'node:test';
import { freshDatabase } from '../support/database.ts';
import { eventually, testGateway } from '../support/gateway.ts';
import { gatewayProcess } from '../support/process.ts';
import { type Asked, say, standIn } from './stand-in.ts';
import { answerTo, modelAgent, request } from './support.ts';

const model = await standIn({ after });
const from = 'acme/general/joel/mine';

/** The model thinks; what it then says is for the test to say. */
function thinks(): { asked: Promise<void>; answer(text: string): void } {
  let held: [ServerResponse, Asked] | undefined;
  let came = (): void => {};
  const asked = new Promise<void>((resolve) => {
    came = resolve;
  });
  model.next((response, one) => {
    held = [response, one];
    came();
  });
  return { asked, answer: (text) => held && !held[0].destroyed && say(held[0], held[1], { text }) };
}

it('a replica that takes over answers once, and the first one’s late answer is not heard', async (t) => {
  const acme = await testGateway(t);
  await acme.admin.announce(from);
  const to = await modelAgent(acme, 'slow', { base_url: model.url });
  const first = thinks();
  const id = await request(acme, { from, to, text: 'Who answers?' });
  await first.asked;
  await acme.replica();
  // As if its process had stood still for a minute.
  const over = await acme.database.db.query('update deliveries set lease_until = 1 where message_id = $1', [id]);
  assert.equal(over.rowCount, 1);
  model.next({ text: 'The second.' });
  await acme.database.db.query(`select pg_notify('gatehouse', 'x')`);
  const { reply } = await answerTo(acme, id, { from });
  assert.equal(reply.body.text, 'The second.');
  first.answer('The first.');
  await eventually('the late answer was given up', async () => {
    const { rows } = await acme.database.db.query('select from deliveries');
    return rows.length === 0;
  });
  const replies = await acme.database.db.query(`select from messages where kind = 'reply' and reply_to = $1`, [id]);
  assert.equal(replies.rowCount, 1);
});

it('two replicas share sixteen questions of one thread and of many, and answer each once, each session in order', async (t) => {
  const acme = await testGateway(t);
  await acme.admin.announce(from);
  const to = await modelAgent(acme, 'shared', { base_url: model.url });
  await acme.replica();
  const before = model.asked.length;
  const ids: string[] = [];
  for (let i = 0; i < 16; i++)
    ids.push(await request(acme, { from, to, text: `question ${i}`, thread: i % 2 ? 'one' : `own-${i}` }));
  const answers = await Promise.all(ids.map((id) => answerTo(acme, id, { from })));
  for (const [i, { all, reply }] of answers.entries()) {
    assert.equal(reply.body.text, `You asked: question ${i}`);
    assert.equal(all.filter(({ kind }) => kind === 'reply').length, 1);
  }
  const asked = model.asked.slice(before).map(({ body }) => body.messages as Array<{ role: string; content: string }>);
  assert.equal(asked.length, 16);
  const ofOne = asked.filter((messages) => Number(messages.at(-1)!.content.split(' ')[1]) % 2 === 1);
  // Each knew all that was said before it, its answer too.
  assert.deepEqual(
    ofOne.map((messages) => messages.filter(({ role }) => role !== 'system').length),
    ofOne.map((_, i) => Math.min(2 * i, 20) + 1),
  );
});

it('stopped in the middle it gives the question back; killed in the middle it is answered after the next start, once', async (t) => {
  // The process ends before its database is dropped.
  const ends: Array<() => Promise<void>> = [];
  t.after(async () => {
    for (const end of ends.reverse()) await end();
  });
  const lifetime = { after: (end: () => Promise<void>) => void ends.push(end) };
  const database = await freshDatabase(lifetime);
  const acme = await gatewayProcess(lifetime, { org: 'acme', admin: 'joel', databaseUrl: database.url });
  const call = async (
    method: string,
    path: string,
    { body, token = acme.token }: { body?: unknown; token?: string | null } = {},
  ) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const response = await fetch(acme.url + path, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, json: JSON.parse(text || 'null') };
  };
  const gateway = { ...acme, database, call } as never as Parameters<typeof request>[0];
  await acme.admin.announce(from);
  const to = await modelAgent(gateway, 'steady', { base_url: model.url });

  const first = thinks();
  const id = await request(gateway, { from, to, text: 'Still there?' });
  await first.asked;
  assert.equal(await acme.stop(), 0);
  const { rows } = await database.db.query<{ lease_until: number; attempts: number }>(
    'select lease_until, attempts from deliveries',
  );
  assert.deepEqual(rows, [{ lease_until: 0, attempts: 0 }]);

  const second = thinks();
  await acme.start();
  await second.asked;
  await acme.kill();
  // As if the minute of its lease had passed.
  await database.db.query('update deliveries set lease_until = 1');
  await acme.start();
  const { reply, all } = await answerTo(gateway, id, { from });
  assert.equal(reply.body.text, 'You asked: Still there?');
  assert.equal(all.length, 1);
});
