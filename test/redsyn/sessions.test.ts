import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type Called, person, team, testGateway } from '../support/gateway.ts';

const gateway = await testGateway({ after });
await team(gateway, 'finance', []);
const ana = await person(gateway, 'ana', 'finance');
const eve = await person(gateway, 'eve');
const sue = await person(gateway, 'sue');
const close = 'acme/finance/ana/close';
const reviewer = 'acme/general/joel/reviewer';
const nosy = 'acme/general/eve/nosy';
await ana.announce(close, { allow: ['org'] });
await gateway.admin.announce(reviewer);
await eve.announce(nosy);
// sue left for an organisation of her own: an outsider of acme who was in it is none, so this one never joined.
await gateway.database.db.query(
  `delete from team_members where member_id = (select id from members where handle = 'sue')`,
);
await gateway.database.db.query(`delete from members where handle = 'sue'`);

let count = 0;

function send(to: string, more: Record<string, unknown> = {}, token = gateway.token, from = reviewer): Promise<Called> {
  const body = {
    v: 1,
    id: `q${++count}`,
    kind: 'request',
    from,
    to,
    body: { type: 'text/plain', text: `question ${count}` },
    ...more,
  };
  return gateway.call('POST', '/redsyn/v1/messages', { token, body });
}

/** Without the token: of whoever asks. */
function session(sid: string, token: string, query = ''): Promise<Called> {
  return gateway.call('GET', `/redsyn/v1/agents/${close}/sessions/${sid}${query}`, { token });
}

const texts = (page: Called): string[] => page.json.messages.map((one: { body: { text: string } }) => one.body.text);

describe('sessions', () => {
  let mine = '';
  let thread = '';

  before(async () => {
    const sent = await send(close);
    thread = sent.json.thread;
    mine = sent.json.to.split('#')[1];
    const [request] = await ana.take(close);
    await ana.reply(request!, 'the answer');
  });

  it('the relay opens them: a new thread has a new one, a follow-up in its thread falls into the same, `#new` forces one', async () => {
    const other = await send(close);
    assert.notEqual(other.json.to, `${close}#${mine}`);
    const follow = await send(close, { thread });
    assert.equal(follow.json.to, `${close}#${mine}`);
    const forced = await send(`${close}#new`, { thread });
    assert.ok(![`${close}#${mine}`, other.json.to].includes(forced.json.to));
    // What follows falls into the newest of its thread.
    assert.equal((await send(close, { thread })).json.to, forced.json.to);
    assert.equal((await send(`${close}#${mine}`)).json.to, `${close}#${mine}`);
    assert.equal((await send(`${close}#s999`)).status, 404);
  });

  it('the owner sees all of one', async () => {
    const page = await session(mine, ana.token);
    assert.equal(page.status, 200);
    assert.deepEqual([page.json.id, page.json.agent, page.json.state, page.json.thread], [mine, close, 'open', thread]);
    assert.deepEqual(texts(page).slice(0, 2), ['question 1', 'the answer']);
    assert.equal(page.json.messages[0].state, 'completed');
    assert.equal(page.json.messages[1].state, undefined);
    assert.equal(page.json.messages[1].reply_to, page.json.messages[0].id);
  });

  it('who took part sees it and her own messages, with what was answered; the rest of the organisation that it exists', async () => {
    const forEve = await send(close, { id: 'eves' }, eve.token, nosy);
    const sid = forEve.json.to.split('#')[1];
    const own = await session(sid, eve.token);
    assert.equal(own.json.messages.length, 1);
    const page = await session(mine, gateway.token);
    assert.deepEqual(texts(page).slice(0, 2), ['question 1', 'the answer']);

    for (const [id, token] of [
      [mine, eve.token],
      [sid, gateway.token],
    ] as const) {
      const outside = await session(id, token);
      assert.equal(outside.status, 200);
      assert.deepEqual(Object.keys(outside.json).sort(), ['agent', 'created_at', 'id', 'last_at', 'state']);
    }
  });

  it('two who take part in one conversation see each their own', async () => {
    // ana lets eve into joel's conversation, as a reply to both would: the relay writes who takes part.
    await gateway.database.db.query(
      `insert into conversation_participants (owner, conversation, participant)
        select m.id, $1, 'm:' || (select id from members where handle = 'eve') from members m where m.handle = 'ana'`,
      [thread],
    );
    const sent = await send(`${close}#${mine}`, { id: 'eve joins'.replace(' ', '-') }, eve.token, nosy);
    assert.equal(sent.status, 201);
    assert.deepEqual(
      (await session(mine, eve.token)).json.messages.map((one: { id: string }) => one.id),
      ['eve-joins'],
    );
    assert.ok(!texts(await session(mine, gateway.token)).includes(sent.json.id));
    assert.ok((await session(mine, ana.token)).json.messages.length > 2);
  });

  it('outsiders cannot tell one from none, nor from an agent that is not there', async () => {
    const there = await session(mine, sue.token);
    assert.equal(there.status, 404);
    for (const path of [`${close}/sessions/s999`, 'acme/finance/ana/nobody/sessions/s1', 'nobody/x/y/z/sessions/s1']) {
      const missing = await gateway.call('GET', `/redsyn/v1/agents/${path}`, { token: sue.token });
      assert.deepEqual([missing.status, missing.text], [404, there.text]);
    }
    for (const sid of ['s0', 's999', 'new', '4', 's1x', 's01', `s${'9'.repeat(30)}`]) {
      assert.equal((await session(sid, ana.token)).status, 404, sid);
    }
  });

  it('only the owner gives it a title, of at most 200 characters', async () => {
    const put = (body: unknown, token: string, sid = mine) =>
      gateway.call('PUT', `/redsyn/v1/agents/${close}/sessions/${sid}`, { token, body });
    assert.equal((await put({ title: 'Invoice 123' }, gateway.token)).status, 403);
    assert.equal((await put({ title: 'Invoice 123' }, eve.token)).status, 403);
    assert.equal((await put({ title: 'Invoice 123' }, sue.token)).status, 404);
    assert.equal((await put({ title: 'x' }, ana.token, 's999')).status, 404);
    for (const body of [{}, { title: 7 }, { title: 'x'.repeat(201) }]) {
      const refused = await put(body, ana.token);
      assert.deepEqual([refused.status, refused.json.field], [422, 'title']);
    }
    assert.equal((await put({ title: 'x'.repeat(200) }, ana.token)).status, 200);
    const done = await put({ title: 'Invoice 123', colour: 'ignored' }, ana.token);
    assert.deepEqual([done.status, done.json.title], [200, 'Invoice 123']);
    assert.equal((await session(mine, gateway.token)).json.title, 'Invoice 123');
    assert.equal((await put({ title: null }, ana.token)).json.title, null);
    await put({ title: 'Invoice 123' }, ana.token);
  });

  it('stands in `GET /agents/…` and `GET /directory?sessions=1`, with what it is about for those who may know', async () => {
    for (const [token, about] of [
      [ana.token, true],
      [gateway.token, true],
      [eve.token, true],
      [sue.token, null],
    ] as const) {
      const { json, status } = await gateway.call('GET', `/redsyn/v1/agents/${close}`, { token });
      if (about === null) {
        assert.equal(status, 404);
        continue;
      }
      const found = json.sessions.find((one: { id: string }) => one.id === mine);
      assert.deepEqual([found.state, found.title, found.thread], ['open', 'Invoice 123', thread]);
      const list = await gateway.call('GET', '/redsyn/v1/directory?sessions=1', { token });
      const entry = list.json.agents.find((one: { address: string }) => one.address === close);
      assert.deepEqual(entry.sessions, json.sessions);
      const bare = await gateway.call('GET', '/redsyn/v1/directory', { token });
      assert.equal(bare.json.agents.find((one: { address: string }) => one.address === close).sessions, undefined);
    }
    const { json } = await gateway.call('GET', `/redsyn/v1/agents/${close}`, { token: eve.token });
    const others = json.sessions.filter((one: { thread?: string }) => one.thread === undefined);
    assert.ok(others.length > 0);
    for (const other of others) assert.deepEqual(Object.keys(other).sort(), ['id', 'last_at', 'state']);
  });

  it('a request to a closed one is refused, and a follow-up in its thread opens another', async () => {
    const sent = await send(close);
    const sid = sent.json.to.split('#')[1];
    const shut = (token: string) => gateway.call('POST', `/redsyn/v1/agents/${close}/sessions/${sid}/close`, { token });
    assert.equal((await shut(gateway.token)).status, 403);
    assert.equal((await shut(sue.token)).status, 404);
    assert.deepEqual([(await shut(ana.token)).status, (await shut(ana.token)).json.state], [200, 'closed']);
    const refused = await send(`${close}#${sid}`);
    assert.deepEqual([refused.status, refused.json.code], [409, 'session_closed']);
    const follow = await send(close, { thread: sent.json.thread });
    assert.equal(follow.status, 201);
    assert.notEqual(follow.json.to, sent.json.to);
    assert.equal(follow.json.thread, sent.json.thread);
    // What was asked in it is answered all the same.
    const waiting = await ana.take(close, { max: 100 });
    const asked = waiting.find(({ id }) => id === sent.json.id);
    await ana.reply(asked!, 'late');
    assert.equal((await session(sid, ana.token)).json.state, 'closed');
  });

  it('shows the newest 500 messages, and the older ones page by page', async () => {
    const sent = await send(close);
    const sid = sent.json.to.split('#')[1];
    await gateway.database.db.query(
      `with said as (
          insert into messages (sender, id, kind, from_addr, to_addr, envelope, wire, created_at, expires_at)
            select sender, 'page-' || n, 'request', from_addr, to_addr, envelope, wire, created_at, expires_at from messages, generate_series(1, 1199) n
              where id = $1 returning seq)
        insert into conversation_messages (owner, conversation, seq, agent_id, session)
          select c.owner, c.conversation, said.seq, c.agent_id, c.session from said, conversation_messages c join messages m on m.seq = c.seq
            where m.id = $1`,
      [sent.json.id],
    );
    for (const read of [
      (query: string) => session(sid, ana.token, query),
      (query: string) => gateway.call('GET', `/redsyn/v1/threads/${sent.json.thread}${query}`),
    ]) {
      const sizes: number[] = [];
      const ids: string[] = [];
      let query = '';
      for (;;) {
        const { json } = await read(query);
        sizes.push(json.messages.length);
        ids.unshift(...json.messages.map((one: { id: string }) => one.id));
        if (json.before === undefined) break;
        query = `?before=${json.before}`;
      }
      assert.deepEqual(sizes, [500, 500, 200]);
      assert.equal(new Set(ids).size, 1200);
      assert.equal(ids[0], sent.json.id);
      assert.equal(ids.at(-1), 'page-1199');
      assert.equal((await read('?before=-1')).status, 422);
    }
  });
});

describe('threads', () => {
  it('a member who takes part sees it, whoever else is in the organisation does not', async () => {
    const sent = await send(close);
    const read = (token: string) => gateway.call('GET', `/redsyn/v1/threads/${sent.json.thread}`, { token });
    const missing = await gateway.call('GET', '/redsyn/v1/threads/none', { token: eve.token });
    assert.deepEqual([(await read(gateway.token)).status, (await read(ana.token)).status], [200, 200]);
    for (const token of [eve.token, sue.token]) {
      assert.deepEqual([(await read(token)).status, (await read(token)).text], [404, missing.text]);
    }
  });

  it('is cut to what one may see: two who wrote the same word in it have each their own', async () => {
    await send(close, { thread: 'invoice-7' });
    await send(close, { thread: 'invoice-7' }, eve.token, nosy);
    const ids = async (token: string) =>
      (await gateway.call('GET', '/redsyn/v1/threads/invoice-7', { token })).json.messages.map(
        (one: { from: string }) => one.from,
      );
    assert.deepEqual(await ids(gateway.token), [reviewer]);
    assert.deepEqual(await ids(eve.token), [nosy]);
    assert.deepEqual(await ids(ana.token), [reviewer]);
  });
});
