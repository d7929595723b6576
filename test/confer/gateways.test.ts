import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { systemClock } from '../../src/lib/clock.ts';
import { createFetch } from '../../src/lib/fetch.ts';
import { eventually, team, testGateway } from '../support/gateway.ts';
import { sendSigned } from '../support/peer.ts';
import { befriend, conferPeer, eventsOf } from './peer.ts';

/** A gateway that finds no cards and knows no Gatehouse: to it all others are Confer instances. */
function withoutCards(): ReturnType<typeof createFetch> {
  const inner = createFetch({ allowLoopback: true, clock: systemClock });
  const fetch: typeof inner = Object.assign(
    async (...[url, init]: Parameters<typeof inner>) => {
      const hidden = /agent-card\.json$/.test(url);
      const answer = await inner(hidden ? url.replace(/[^/]+$/, 'nothing.json') : url, init);
      const body = answer.body.toString();
      return body.includes('GatehouseFederation')
        ? { ...answer, body: Buffer.from(body.replaceAll('GatehouseFederation', 'Other')) }
        : answer;
    },
    { close: () => inner.close() },
  ) as typeof inner;
  return fetch;
}

const [acme, globex] = await Promise.all([
  testGateway({ after }, { org: 'acme', admin: 'joel', fetch: withoutCards() }),
  testGateway({ after }, { org: 'globex', admin: 'bob', fetch: withoutCards() }),
]);
const reviewer = 'acme/dev/joel/reviewer';
const billing = 'globex/erp/bob/billing';

before(async () => {
  await team(acme, 'dev', ['joel']);
  await team(globex, 'erp', ['bob']);
  await acme.admin.announce(reviewer);
  await globex.admin.announce(billing);
  await befriend(globex, 'bob', `${acme.did}:agents:joel`);
});

const ask = (text: string, id: string) =>
  acme.admin.call<{ id: string; thread: string }>('POST', '/messages', {
    v: 1,
    id,
    kind: 'request',
    from: reviewer,
    to: `${globex.did}:agents:bob:erp:billing`,
    body: { type: 'text/plain', text },
  });

it('two Gatehouses speak Confer to each other: question, answer, failure, one thread on each side', async () => {
  const sent = await ask('How much?', 'q-1');
  const [asked] = await globex.admin.take(billing, { wait: 5, max: 1 });
  assert.equal(asked!.body.text, 'How much?');
  const { rows: wires } = await globex.database.db.query('select wire from messages where id = $1', [asked!.id]);
  assert.deepEqual(wires, [{ wire: 'confer' }]);
  await globex.admin.reply(asked!, { body: { type: 'text/plain', text: '90 €' } });
  const [answer] = await acme.admin.take(reviewer, { wait: 10, max: 1 });
  assert.deepEqual(
    [answer!.kind, answer!.reply_to, answer!.thread, answer!.body.text],
    ['reply', 'q-1', sent.thread, '90 €'],
  );
  await acme.admin.ack(reviewer, [answer!.id]);

  await ask('And now?', 'q-2');
  const [second] = await globex.admin.take(billing, { wait: 5, max: 1 });
  await globex.admin.reply(second!, { error: true, body: { type: 'text/plain', text: 'broken' } });
  const [failed] = await acme.admin.take(reviewer, { wait: 10, max: 1 });
  assert.deepEqual([failed!.reply_to, failed!.error, failed!.body.text], ['q-2', true, 'broken']);
  await acme.admin.ack(reviewer, [failed!.id]);
});

it('two callers at once in one thread get one conversation, each its own task', async () => {
  const zoe = await conferPeer({ after });
  await befriend(globex, 'bob', zoe.owner.did);
  const to = `${globex.did}:agents:bob`;
  const sent = await Promise.all(
    [1, 2, 3, 4].map((n) => zoe.say(globex, to, { type: 'question', content: `${n}` }, { thread_id: 'at once' })),
  );
  assert.deepEqual(
    sent.map(({ status }) => status),
    [201, 201, 201, 201],
  );
  assert.equal(new Set(sent.map(({ json }) => json.message_id)).size, 4);
  const asked = [];
  for (let i = 0; i < 4; i++) {
    const [one] = await globex.admin.take(billing, { wait: 5, max: 1 });
    asked.push(one!);
    await globex.admin.reply(one!, { body: { type: 'text/plain', text: `answer to ${one!.body.text}` } });
  }
  assert.equal(new Set(asked.map(({ thread }) => thread)).size, 1);
  const brought = await zoe.next(4);
  assert.deepEqual(brought.map(({ message }) => message.content).sort(), [
    'answer to 1',
    'answer to 2',
    'answer to 3',
    'answer to 4',
  ]);
});

it('a peer that is away gets the answer when it is back, and the stream has it meanwhile', async () => {
  const zoe = await conferPeer({ after }, 'yan');
  await befriend(globex, 'bob', zoe.owner.did);
  const sent = await zoe.say(
    globex,
    `${globex.did}:agents:bob`,
    { type: 'question', content: '?' },
    { thread_id: 't' },
  );
  const [asked] = await globex.admin.take(billing, { wait: 5, max: 1 });
  zoe.respond(503, { error: { code: 'internal_error', message: 'restarting' } });
  await globex.admin.reply(asked!, { body: { type: 'text/plain', text: 'here' } });
  await zoe.next(1);
  const streamed = await sendSigned(globex, { method: 'GET', path: sent.json.stream_url }, zoe.owner);
  assert.deepEqual(
    eventsOf(streamed.text).map(({ event }) => event),
    ['message', 'done'],
  );
  zoe.respond(201, { message_id: 'm' });
  await eventually('the answer is brought again', async () => {
    // Any call of the peer's own shows that it is back.
    await zoe.say(globex, `${globex.did}:agents:bob`, { type: 'notification', content: 'back' });
    return zoe.brought.filter(({ message }) => message.type === 'answer').length >= 2;
  });
  const answers = zoe.brought.filter(({ message }) => message.type === 'answer');
  assert.equal(new Set(answers.map(({ headers }) => headers['idempotency-key'])).size, 1);
  assert.equal(new Set(answers.map(({ headers }) => headers.signature)).size, answers.length);
});

it('a gateway that stops with an answer still owed leaves it to the next one', async () => {
  const initech = await testGateway({ after }, { org: 'initech', admin: 'pat' });
  await team(initech, 'ops', ['pat']);
  await initech.admin.announce('initech/ops/pat/desk');
  const zoe = await conferPeer({ after }, 'xia');
  await befriend(initech, 'pat', zoe.owner.did);
  await zoe.say(initech, `${initech.did}:agents:pat`, { type: 'question', content: '?' }, { thread_id: 'restart' });
  const [asked] = await initech.admin.take('initech/ops/pat/desk', { wait: 5, max: 1 });
  zoe.respond(503, { error: { code: 'internal_error', message: 'restarting' } });
  await initech.admin.reply(asked!, { body: { type: 'text/plain', text: 'after the restart' } });
  await zoe.next(1);
  await initech.stop();
  zoe.respond(201, { message_id: 'm' });
  await initech.database.db.query('update outbox set due_at = 0, lease_until = 0');
  await initech.database.db.query('delete from circuits');
  await initech.replica();
  const brought = await zoe.next(2);
  assert.deepEqual(
    [brought[1]!.message.content, brought[1]!.thread_id, brought[1]!.headers['idempotency-key']],
    ['after the restart', 'restart', brought[0]!.headers['idempotency-key']],
  );
});
