import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { eventually, person, team, testGateway } from '../support/gateway.ts';
import { rows, sendSigned, sendTo, signatureFor } from '../support/peer.ts';
import { befriend, conferPeer, eventsOf } from './peer.ts';

const globex = await testGateway({ after }, { org: 'globex', admin: 'bob' });
const zoe = await conferPeer({ after });
const stranger = await conferPeer({ after }, 'eve');
const billing = 'globex/erp/bob/billing';
const ownerDid = `${globex.did}:agents:bob`;
const agentDid = `${ownerDid}:erp:billing`;
const path = '/a2a/v1/messages';
const question = (content = '¿Cuál es el rango de tensión del X100 en modo RTU?') => ({
  type: 'question',
  content,
  language: 'es',
  context: { via: 'claude-code', project_hint: 'modbus integration' },
});
const wait = 2;
let count = 0;
// biome-ignore lint/suspicious/noExplicitAny: tests look into envelopes
const take = async (): Promise<any> => (await globex.admin.take(billing, { wait, max: 1 }))[0];
const done = (of: { id: string }) => globex.admin.ack(billing, [of.id]);
const stream = (id: string, more: Record<string, string> = {}) =>
  sendSigned(globex, { method: 'GET', path: `/a2a/v1/stream/${id}`, headers: more }, zoe.owner);

before(async () => {
  await team(globex, 'erp', ['bob']);
  await globex.admin.announce(billing, { is_default: true });
  await befriend(globex, 'bob', zoe.owner.did);
});

describe('POST /a2a/v1/messages', () => {
  it("the document's example: 201, the agent is asked, its answer travels signed by the owner with the asker's thread", async () => {
    const sent = await zoe.say(globex, agentDid, question(), { thread_id: 'thread_8f3a9c' });
    assert.equal(sent.status, 201, sent.text);
    const { message_id, thread_id, stream_url } = sent.json;
    assert.match(message_id, /^[0-9A-HJKMNP-TV-Z]{26}$/);
    assert.equal(thread_id, 'thread_8f3a9c');
    assert.equal(stream_url, `/a2a/v1/stream/${message_id}`);
    const asked = await take();
    assert.equal(asked.kind, 'request');
    assert.equal(asked.from, `${zoe.authority}/agents/zoe/agent`);
    assert.equal(asked.body.text, question().content);
    assert.equal(asked.body.language, 'es');
    assert.notEqual(asked.thread, 'thread_8f3a9c');
    await globex.admin.reply(asked, { body: { type: 'text/plain', text: 'De 9 a 36 V.' } });
    const [answer] = await zoe.next(1);
    assert.deepEqual(
      { ...answer, headers: undefined },
      {
        from: agentDid,
        to: zoe.agent,
        thread_id: 'thread_8f3a9c',
        message: { type: 'answer', content: 'De 9 a 36 V.' },
        headers: undefined,
      },
    );
    assert.match(String(answer!.headers['signature-input']), new RegExp(`keyid="${ownerDid}#key-1"`));
    const events = eventsOf((await stream(message_id)).text);
    assert.deepEqual(
      events.map(({ event }) => event),
      ['message', 'done'],
    );
    assert.equal(events[0]!.data.content, 'De 9 a 36 V.');
    assert.equal(events[1]!.data.status, 'done');
    assert.equal(events[1]!.data.thread_id, 'thread_8f3a9c');
  });

  it('the owner DID and `…:agent` name the default agent; without a thread our own conversation is told', async () => {
    for (const to of [ownerDid, `${ownerDid}:agent`]) {
      const sent = await zoe.say(globex, to, question(to));
      assert.equal(sent.status, 201, sent.text);
      const asked = await take();
      assert.equal(asked.body.text, to);
      assert.equal(asked.thread, sent.json.thread_id);
      await done(asked);
    }
  });

  it('a second question of a thread comes into the same session', async () => {
    const sessions: string[] = [];
    for (const content of ['one', 'two']) {
      assert.equal((await zoe.say(globex, agentDid, question(content), { thread_id: 'again' })).status, 201);
      const asked = await take();
      sessions.push(asked.to);
      await done(asked);
    }
    assert.equal(sessions[0], sessions[1]);
  });

  it('an answer and a notification that nobody asked for are shown and ask nothing', async () => {
    const was = await rows(globex);
    for (const type of ['answer', 'notification']) {
      const sent = await zoe.say(globex, agentDid, { type, content: type }, { thread_id: 'fyi' });
      assert.equal(sent.status, 201, sent.text);
      const told = await take();
      assert.equal(told.kind, 'event');
      assert.equal(told.body.text, type);
      assert.equal(told.topic, undefined);
      await done(told);
      assert.deepEqual(
        eventsOf((await stream(sent.json.message_id)).text).map(({ event, data }) => [event, data.status]),
        [['done', 'pending']],
      );
    }
    assert.equal((await rows(globex)).exchanges, was.exchanges);
  });

  it('a failing reply is a notification with the code, a failed task and an ended stream: one state', async () => {
    const sent = await zoe.say(globex, agentDid, question('fail'), { thread_id: 'fails' });
    const asked = await take();
    const before = zoe.brought.length;
    await globex.admin.call('POST', '/messages', {
      v: 1,
      id: `failing-${asked.id}`,
      kind: 'reply',
      from: billing,
      reply_to: asked.id,
      thread: asked.thread,
      error: true,
      body: { type: 'text/plain', text: 'There is no model.', data: { error: 'no_model_configured' } },
    });
    const told = (await zoe.next(before + 1)).at(-1)!;
    assert.equal(told.message.type, 'notification');
    assert.deepEqual(told.message.context, { error: 'no_model_configured' });
    const events = eventsOf((await stream(sent.json.message_id)).text);
    assert.deepEqual(
      events.map(({ event, data }) => [event, data.status, data.error]),
      [
        ['message', 'failed', 'no_model_configured'],
        ['done', 'failed', 'no_model_configured'],
      ],
    );
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: sent.json.message_id } });
    const task = await sendSigned(globex, { path: '/a2a/v1', body, headers: { 'a2a-version': '1.0' } }, zoe.owner);
    assert.equal(task.json.result.status.state, 'TASK_STATE_FAILED', task.text);
  });

  it('the same Idempotency-Key gives the first result', async () => {
    const body = JSON.stringify({ from: zoe.agent, to: agentDid, message: question('once') });
    const headers = { 'idempotency-key': 'k-1' };
    const first = await sendSigned(globex, { path, body, headers }, zoe.owner);
    const second = await sendSigned(globex, { path, body, headers }, zoe.owner);
    assert.deepEqual([first.status, second.status], [201, 201]);
    assert.deepEqual(second.json, first.json);
    await done(await take());
  });
});

describe('each row of the table refuses', () => {
  const send = (body: unknown, by = zoe.owner, headers: Record<string, string> = {}) =>
    sendSigned(globex, { path, body: typeof body === 'string' ? body : JSON.stringify(body), headers }, by);
  const good = { from: zoe.agent, to: agentDid, message: question() };

  const cases: Array<
    [what: string, status: number, code: string, send: () => ReturnType<typeof send>, leaves?: number]
  > = [
    ['no signature', 401, 'signature_missing', () => sendTo(globex, { path, body: JSON.stringify(good) })],
    [
      'a Signature header that is none',
      401,
      'signature_failed',
      async () => {
        const sent = { path, body: JSON.stringify(good) };
        const headers = { ...(await signatureFor(globex, sent, zoe.owner)), signature: 'nonsense' };
        return sendTo(globex, { ...sent, headers });
      },
    ],
    [
      'another body than was signed',
      401,
      'signature_failed',
      async () => {
        const sent = { path, body: JSON.stringify(good) };
        const headers = await signatureFor(globex, sent, zoe.owner);
        return sendTo(globex, { ...sent, body: JSON.stringify({ ...good, to: ownerDid }), headers });
      },
    ],
    [
      'an old Date',
      401,
      'signature_failed',
      () => sendSigned(globex, { path, body: JSON.stringify(good) }, zoe.owner, { now: Date.now() - 400_000 }),
    ],
    [
      'a document that is not there',
      401,
      'did_resolution_failed',
      () => send(good, { ...zoe.owner, keyId: `${zoe.owner.did}x#key-1` }),
    ],
    [
      'a key that the document does not list',
      401,
      'key_not_found',
      () => send(good, { ...zoe.owner, keyId: `${zoe.owner.did}#key-9` }),
    ],
    ['a key of somebody else', 401, 'signature_failed', () => send(good, { ...zoe.owner, key: stranger.owner.key })],
    [
      'a capability that is none',
      401,
      'capability_invalid',
      () => send(good, zoe.owner, { authorization: 'Capability a.b.c' }),
    ],
    ['no JSON', 400, 'validation_error', () => send('{')],
    [
      'a thread_id of 10,000 characters',
      400,
      'validation_error',
      () => send({ ...good, thread_id: 'x'.repeat(10_000) }),
    ],
    ['a type that is none', 400, 'validation_error', () => send({ ...good, message: { type: 'order', content: 'x' } })],
    [
      'more than 64 KB of content',
      400,
      'validation_error',
      () => send({ ...good, message: { type: 'question', content: 'x'.repeat(65_537) } }),
    ],
    [
      'more than 1 MiB',
      413,
      'payload_too_large',
      () => send({ ...good, message: { type: 'question', content: 'x'.repeat(1_100_000) } }),
    ],
    ['`from` of another domain', 401, 'sender_mismatch', () => send({ ...good, from: stranger.agent })],
    ['`from` of another user', 401, 'sender_mismatch', () => send({ ...good, from: `${zoe.owner.did}x:agent` })],
    ['nobody at `to`', 404, 'not_found', () => send({ ...good, to: `${ownerDid}:erp:nobody` })],
    ['an agent of somewhere else', 404, 'not_found', () => send({ ...good, to: stranger.agent })],
    ['a stranger', 202, '', () => send({ ...good, from: stranger.agent }, stranger.owner), 1],
  ];
  for (const [what, status, code, act, requests = 0] of cases) {
    it(what, async () => {
      const was = await rows(globex);
      const answered = await act();
      assert.equal(answered.status, status, answered.text);
      if (code !== '') assert.equal(answered.json.error.code, code, answered.text);
      if (status === 202) {
        const message = 'Connection request is awaiting approval from the recipient';
        assert.deepEqual(answered.json, { status: 'pending_connection', message });
      }
      if (status === 400 && what !== 'no JSON')
        assert.ok(Object.values(answered.json.error.details).every(Array.isArray));
      assert.deepEqual(await rows(globex), { ...was, requests: was.requests! + requests });
    });
  }

  it('the same bytes twice; but two equal requests, signed apart, are two', async () => {
    const sent = { path, body: JSON.stringify({ ...good, message: { type: 'notification', content: 'tick' } }) };
    const headers = await signatureFor(globex, sent, zoe.owner);
    assert.equal((await sendTo(globex, { ...sent, headers })).status, 201);
    const again = await sendTo(globex, { ...sent, headers });
    assert.deepEqual([again.status, again.json.error.code], [401, 'signature_replayed']);
    assert.equal((await sendSigned(globex, sent, zoe.owner)).status, 201);
    const told = [await take()];
    told.push(await take());
    for (const one of told) await done(one);
  });

  it("somebody else's question is as missing as none", async () => {
    const sent = await zoe.say(globex, agentDid, question('mine'));
    await done(await take());
    for (const id of [sent.json.message_id, '01JGHQ6Z4E8X2V5T9RB3KC7MDA', 'x y']) {
      const of = { method: 'GET', path: `/a2a/v1/stream/${encodeURIComponent(id)}` };
      const answered = await sendSigned(globex, of, stranger.owner);
      assert.deepEqual([answered.status, answered.json.error.code], [404, 'not_found']);
    }
    const unsigned = await sendTo(globex, { method: 'GET', path: sent.json.stream_url });
    assert.deepEqual([unsigned.status, unsigned.json.error.code], [401, 'signature_missing']);
  });
});

describe('thread binding', () => {
  it("a peer of two owners cannot pour a message into the other owner's conversation", async () => {
    const ana = await person(globex, 'ana');
    await ana.announce('globex/general/ana/helper');
    await befriend(globex, 'ana', zoe.owner.did);
    const anas = `${globex.did}:agents:ana`;
    const first = await zoe.say(globex, anas, question("ana's own"));
    const asked = (await ana.take('globex/general/ana/helper', { wait }))[0]!;
    assert.equal(asked.thread, first.json.thread_id);
    // The id of ana's conversation, which zoe was told, in a message to bob.
    const attack = await zoe.say(globex, agentDid, question('attack'), { thread_id: asked.thread as string });
    assert.equal(attack.status, 201);
    const poured = await take();
    assert.notEqual(poured.thread, asked.thread);
    await done(poured);
    // In her own it goes on.
    assert.equal((await zoe.say(globex, anas, question('more'), { thread_id: asked.thread as string })).status, 201);
    await ana.ack('globex/general/ana/helper', [asked.id as string]);
    assert.equal((await ana.take('globex/general/ana/helper', { wait }))[0]!.thread, asked.thread);
  });

  it('a thread is opened empty, and the question that follows is in it', async () => {
    const was = await rows(globex);
    const body = JSON.stringify({ from: zoe.agent, to: agentDid, thread_id: 'opened' });
    const opened = await sendSigned(globex, { path: '/a2a/v1/threads', body }, zoe.owner);
    assert.deepEqual([opened.status, opened.json], [201, { thread_id: 'opened' }]);
    const is = await rows(globex);
    assert.deepEqual([is.conversations, is.messages], [was.conversations! + 1, was.messages]);
    await zoe.say(globex, agentDid, question('in it'), { thread_id: 'opened' });
    assert.equal((await rows(globex)).conversations, is.conversations);
    await done(await take());
    const refused = await sendSigned(
      globex,
      { path: '/a2a/v1/threads', body: JSON.stringify({ from: stranger.agent, to: agentDid }) },
      stranger.owner,
    );
    assert.deepEqual([refused.status, refused.json.status], [202, 'pending_connection']);
  });
});

describe('asking a Confer peer', () => {
  const ask = (text: string, thread?: string) =>
    globex.admin.call<{ id: string; thread: string; to: string }>('POST', '/messages', {
      v: 1,
      id: `ask-${count++}`,
      kind: 'request',
      from: billing,
      to: zoe.agent,
      body: { type: 'text/plain', text },
      ...(thread && { thread }),
    });

  it('the question goes to its endpoint, its answer in that thread closes the exchange', async () => {
    const before = zoe.brought.length;
    const sent = await ask('What does the X100 cost?');
    const brought = (await zoe.next(before + 1)).at(-1)!;
    assert.deepEqual([brought.from, brought.to, brought.thread_id], [agentDid, zoe.agent, sent.thread]);
    assert.deepEqual(brought.message, { type: 'question', content: 'What does the X100 cost?' });
    const said = await zoe.say(
      globex,
      brought.from,
      { type: 'answer', content: '90 €' },
      { thread_id: brought.thread_id },
    );
    assert.equal(said.status, 201, said.text);
    const answer = await take();
    assert.deepEqual(
      [answer.kind, answer.reply_to, answer.thread, answer.body.text],
      ['reply', sent.id, sent.thread, '90 €'],
    );
    await done(answer);
  });

  it('a failure notification fails it with that code', async () => {
    const sent = await ask('And the X200?');
    const failed = { type: 'notification', content: 'No model.', context: { error: 'no_key_for_provider' } };
    assert.equal((await zoe.say(globex, ownerDid, failed, { thread_id: sent.thread })).status, 201);
    const answer = await take();
    assert.deepEqual([answer.kind, answer.error, answer.reply_to], ['reply', true, sent.id]);
    await done(answer);
    const { rows: found } = await globex.database.db.query(
      'select state, reason from exchanges where request_id = $1',
      [sent.id],
    );
    assert.deepEqual(found, [{ state: 'failed', reason: 'no_key_for_provider' }]);
  });

  it('what it refuses is the answer of the POST; while its owner thinks, the question is kept', async () => {
    zoe.respond(403, { error: { code: 'policy_denied', message: 'Agent policy denied this request' } });
    await assert.rejects(ask('Denied?'), (error: { code?: string }) => error.code === 'policy_denied');
    zoe.respond(202, {
      status: 'pending_connection',
      message: 'Connection request is awaiting approval from the recipient',
    });
    await ask('Later?');
    const { rows: kept } = await globex.database.db.query(`select kind from outbox where kind = 'a2a'`);
    assert.equal(kept.length, 1);
    zoe.respond(201, { message_id: 'x', thread_id: 'y' });
    // Any word of the peer's lets what waits for it go.
    await eventually('the kept question leaves', async () => {
      await zoe.say(globex, agentDid, { type: 'notification', content: 'approved' });
      await done(await take());
      const { rows: left } = await globex.database.db.query(`select from outbox where kind = 'a2a'`);
      return left.length === 0;
    });
  });
});

describe('GET /a2a/v1/stream/{id}', () => {
  it('streams tokens and citations as they come, then the message and the end; Last-Event-ID goes on', async () => {
    const sent = await zoe.say(globex, agentDid, question('stream'), { thread_id: 'streams' });
    assert.deepEqual(
      eventsOf((await stream(sent.json.message_id)).text).map(({ event, data }) => [event, data.status]),
      [['done', 'pending']],
    );
    const asked = await take();
    const following = stream(sent.json.message_id, { accept: 'text/event-stream' });
    const progress = (data: object, text?: string) =>
      globex.admin.call('POST', '/messages', {
        v: 1,
        id: `progress-${count++}`,
        kind: 'progress',
        from: billing,
        reply_to: asked.id,
        thread: asked.thread,
        body: { type: 'application/json', data, ...(text && { text }) },
      });
    await progress({ token: 'El X100 ' });
    await progress({ token: 'en modo RTU ' });
    await progress({ citation: { source: 'Manual de instalación del X100 p.12', url: 'https://acme.test/m' } });
    await globex.admin.reply(asked, { body: { type: 'text/plain', text: 'El X100 en modo RTU va de 9 a 36 V.' } });
    const streamed = await following;
    assert.equal(streamed.headers['content-type'], 'text/event-stream');
    assert.equal(streamed.headers['x-accel-buffering'], 'no');
    const events = eventsOf(streamed.text);
    assert.deepEqual(
      events.map(({ event }) => event),
      ['token', 'token', 'citation', 'message', 'done'],
    );
    assert.deepEqual(events[0]!.data, { text: 'El X100 ' });
    assert.equal(events[2]!.data.source, 'Manual de instalación del X100 p.12');
    const rest = eventsOf((await stream(sent.json.message_id, { 'last-event-id': events[1]!.id! })).text);
    assert.deepEqual(
      rest.map(({ event }) => event),
      ['citation', 'message', 'done'],
    );
  });
});
