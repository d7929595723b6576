import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { after, describe, it } from 'node:test';
import { ManualClock } from '../../src/lib/clock.ts';
import { eventually, person, team, testGateway } from '../support/gateway.ts';

const clock = new ManualClock(Date.now());
const acme = await testGateway({ after }, { clock });
const [ana, eve] = [await person(acme, 'ana'), await person(acme, 'eve')];
const asker = 'acme/general/joel/asker';
await acme.admin.announce(asker);

let count = 0;
/** An agent of ana's that nobody has written to. */
async function fresh(about: Record<string, unknown> = { allow: ['org'] }): Promise<string> {
  const agent = `acme/general/ana/desk${++count}`;
  await ana.announce(agent, about);
  return agent;
}
async function post(envelope: Record<string, unknown>, token = acme.token) {
  const answer = await acme.call('POST', '/redsyn/v1/messages', {
    token,
    body: { v: 1, id: `m${++count}`, body: { type: 'text/plain', text: String(envelope.text ?? 'x') }, ...envelope },
  });
  assert.equal(answer.status, 201, answer.text);
  return answer.json as { id: string; thread: string; to: string };
}
const ask = (to: string, more: Record<string, unknown> = {}) => post({ kind: 'request', from: asker, to, ...more });
const inbox = (agent: string, query = '', token = ana.token) =>
  acme.call('GET', `/redsyn/v1/inbox/${agent}${query}`, { token });
const ids = async (agent: string, query = '', token = ana.token): Promise<string[]> =>
  (await inbox(agent, query, token)).json.items.map((item: { id: string }) => item.id);
const ack = (agent: string, list: string[], token = ana.token) =>
  acme.call('POST', `/redsyn/v1/inbox/${agent}/ack`, { token, body: { ids: list } });
const node = async (): Promise<string> => {
  const made = await acme.call('POST', '/redsyn/v1/nodes', { token: ana.token, body: { name: `node ${++count}` } });
  return made.json.token;
};
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe('delivery (REDSYN "Entrega", "Mensajes")', () => {
  it('taking leases for `lease` seconds, 900 by default; what is not confirmed goes back', async () => {
    const agent = await fresh();
    const { id } = await ask(agent);
    assert.deepEqual(await ids(agent), [id]);
    clock.advance(899_000);
    assert.deepEqual(await ids(agent), []);
    clock.advance(1_000);
    const [again] = (await inbox(agent, '?lease=1')).json.items;
    assert.deepEqual([again.id, again.attempts], [id, 2]);
    clock.advance(1_000);
    assert.deepEqual(await ids(agent, '?lease=60'), [id], 'a lease of one second is honoured');
    assert.deepEqual((await ack(agent, [id, 'unknown'])).json, { acked: [id] });
    clock.advance(1_000_000);
    assert.deepEqual(await ids(agent), []);
    assert.deepEqual((await ack(agent, [id])).json, { acked: [] }, 'twice is once');
  });

  it('`lease` and `wait` have bounds, and what is no number is 422 and named', async () => {
    const agent = await fresh();
    const { id } = await ask(agent);
    for (const [query, field] of [
      ['?lease=0', 'lease'],
      ['?lease=-1', 'lease'],
      ['?lease=1.5', 'lease'],
      ['?lease=soon', 'lease'],
      ['?wait=-1', 'wait'],
      ['?wait=x', 'wait'],
      ['?wait=0x10', 'wait'],
      ['?max=0', 'max'],
    ] as const) {
      const answer = await inbox(agent, query);
      assert.deepEqual([answer.status, answer.json.field], [422, field], query);
    }
    assert.deepEqual(await ids(agent, '?lease=999999999'), [id]);
    clock.advance(12 * 3_600_000 - 1_000);
    assert.deepEqual(await ids(agent), []);
    clock.advance(1_000);
    assert.deepEqual(await ids(agent), [id], 'no lease is longer than 12 hours');
    await ack(agent, [id]);
  });

  it('`wait` holds the call until something comes, at most 25 s', async () => {
    const agent = await fresh();
    const held = inbox(agent, '?wait=25');
    await pause(50);
    const { id } = await ask(agent);
    assert.deepEqual(
      (await held).json.items.map((item: { id: string }) => item.id),
      [id],
    );
    await ack(agent, [id]);

    let done = false;
    const long = inbox(agent, '?wait=100').then((answer) => {
      done = true;
      return answer;
    });
    await pause(100);
    clock.advance(24_900);
    await pause(50);
    assert.equal(done, false);
    clock.advance(100);
    assert.deepEqual((await long).json, { items: [] });
    assert.deepEqual((await inbox(agent)).json, { items: [] }, 'without `wait` it answers at once');
  });

  it('`peek=1` lists without taking; `reply_to=ID` takes only the answer to that request', async () => {
    const agent = await fresh();
    const { id } = await ask(agent);
    for (let i = 0; i < 3; i++) {
      const [item] = (await inbox(agent, '?peek=1')).json.items;
      assert.deepEqual([item.id, item.attempts], [id, 0]);
    }
    const [request] = (await inbox(agent)).json.items;
    assert.equal(request.attempts, 1);
    assert.deepEqual(await ids(agent, '?peek=1'), [], 'what somebody holds is not there');

    const other = await ask(agent);
    const answer = (kind: string, text: string) =>
      post({ kind, from: agent, reply_to: id, thread: request.thread, text }, ana.token);
    await answer('progress', 'looking');
    await ack(agent, [id]);
    const reply = await answer('reply', 'done');
    assert.deepEqual(await ids(asker, '?reply_to=nothing', acme.token), []);
    assert.deepEqual(await ids(asker, `?reply_to=${other.id}`, acme.token), []);
    assert.deepEqual(await ids(asker, `?reply_to=${id}&peek=1`, acme.token), await ids(asker, '?peek=1', acme.token));
    const items = (await inbox(asker, `?reply_to=${id}`, acme.token)).json.items;
    assert.deepEqual(
      items.map((item: { kind: string; reply_to: string }) => [item.kind, item.reply_to]),
      [
        ['progress', id],
        ['reply', id],
      ],
    );
    assert.equal(items[1].id, reply.id);
    await ack(
      asker,
      items.map((item: { id: string }) => item.id),
      acme.token,
    );
  });

  it('a reply closes its request, progress does not', async () => {
    const agent = await fresh();
    const { id } = await ask(agent);
    const [request] = (await inbox(agent)).json.items;
    const answer = (kind: string) => ({
      v: 1,
      kind,
      from: agent,
      reply_to: id,
      thread: request.thread,
      body: { type: 'text/plain', text: kind },
    });
    const send = (body: object, token = ana.token) => acme.call('POST', '/redsyn/v1/messages', { token, body });
    assert.equal((await send(answer('progress'))).status, 201);
    assert.equal((await send(answer('progress'))).status, 201);
    assert.equal((await send(answer('reply'), eve.token)).status, 403, 'only the person of the agent that was asked');
    assert.equal((await send(answer('reply'))).status, 201);
    for (const kind of ['reply', 'progress']) assert.equal((await send(answer(kind))).status, 409);
    clock.advance(1_000_000);
    assert.deepEqual(await ids(agent), [], 'the reply confirmed it');
    const items = (await inbox(asker, `?reply_to=${id}`, acme.token)).json.items;
    assert.deepEqual(
      items.map((item: { kind: string }) => item.kind),
      ['progress', 'progress', 'reply'],
    );
    await ack(
      asker,
      items.map((item: { id: string }) => item.id),
      acme.token,
    );
  });

  it('taken ten times and never confirmed: one error reply, in these words (REL-08)', async () => {
    const agent = await fresh();
    const { id, thread } = await ask(agent);
    for (let take = 1; take <= 10; take++) {
      const [item] = (await inbox(agent, '?lease=1')).json.items;
      assert.equal(item?.attempts, take);
      clock.advance(1_000);
    }
    assert.deepEqual(await ids(agent), []);
    await told(id, thread, `not delivered: ${agent} took it 10 times and never confirmed it`, agent);
  });

  it('nobody took it in time: one error reply, in these words', async () => {
    const agent = await fresh();
    const { id, thread } = await ask(agent, { ttl: 2 });
    clock.advance(2_000);
    assert.deepEqual(await ids(agent), [], 'past its time nobody gets it');
    await told(id, thread, `not delivered: it expired before ${agent} took it`, agent);
    const late = await acme.call('POST', '/redsyn/v1/messages', {
      token: ana.token,
      body: { v: 1, kind: 'reply', from: agent, reply_to: id, body: { type: 'text/plain', text: 'late' } },
    });
    assert.equal(late.status, 409);
  });

  /** The sender hears of it within 5 s, once, whoever else sweeps at the same moment. */
  async function told(id: string, thread: string, words: string, agent: string): Promise<void> {
    let waited = 0;
    const items = await eventually('the sender is told', async () => {
      waited += 250;
      clock.advance(250);
      const found = (await inbox(asker, `?reply_to=${id}&lease=60`, acme.token)).json.items;
      return found.length > 0 && found;
    });
    assert.ok(waited <= 5_500, `after ${waited} ms`);
    assert.equal(items.length, 1);
    const [notice] = items;
    assert.deepEqual(
      [notice.kind, notice.error, notice.reply_to, notice.thread, notice.from, notice.body],
      ['reply', true, id, thread, `${agent}#s1`, { type: 'text/plain', text: words }],
    );
    await ack(asker, [notice.id], acme.token);
    clock.advance(60_000);
    await pause(50);
    assert.deepEqual(await ids(asker, `?reply_to=${id}`, acme.token), []);
  }

  it('a lease and its ack belong to the node that took it', async () => {
    const agent = await fresh();
    const { id } = await ask(agent);
    const [one, two] = [await node(), await node()];
    assert.deepEqual(await ids(agent, '?lease=60', one), [id]);
    assert.deepEqual((await ack(agent, [id], two)).json, { acked: [] });
    clock.advance(60_000);
    assert.deepEqual(await ids(agent, '?lease=60', two), [id]);
    assert.deepEqual((await ack(agent, [id], one)).json, { acked: [] }, 'somebody else has taken it since');
    assert.deepEqual((await ack(agent, [id], two)).json, { acked: [id] });
    for (const [token, status] of [
      [eve.token, 403],
      [null, 401],
    ] as const)
      assert.equal((await acme.call('GET', `/redsyn/v1/inbox/${agent}`, { token })).status, status);
    assert.equal((await inbox('acme/general/ana/none')).status, 404);
  });

  it('order is kept per session, not over all', async () => {
    const agent = await fresh();
    const first = await ask(agent, { thread: `one-${agent}` });
    const second = await ask(agent, { thread: `one-${agent}` });
    const elsewhere = await ask(agent, { thread: `two-${agent}` });
    const [one, two] = [await node(), await node()];
    assert.deepEqual(await ids(agent, '?max=1', one), [first.id]);
    assert.deepEqual(await ids(agent, '', two), [elsewhere.id], 'the other session is free');
    await ack(agent, [first.id], one);
    assert.deepEqual(await ids(agent, '', two), [second.id]);
    await ack(agent, [second.id, elsewhere.id], two);
  });

  it('REL-01: a taker that hangs up loses nothing, and burns no attempt', async () => {
    const agent = await fresh();
    const held = await poll(agent, '?wait=25&lease=900');
    await pause(50);
    held.destroy();
    await pause(50);
    const { id } = await ask(agent);
    const [item] = (await inbox(agent, '?wait=5')).json.items;
    assert.deepEqual([item.id, item.attempts], [id, 1]);
    await ack(agent, [id]);
  });

  it('an agent is online for 60 s after a take', async () => {
    const agent = await fresh();
    const seen = async () => (await acme.call('GET', `/redsyn/v1/agents/${agent}`)).json;
    assert.equal((await seen()).online, false);
    await inbox(agent);
    const now = await seen();
    assert.equal(now.online, true);
    assert.equal(now.last_seen, Math.floor(clock.now() / 1000));
    clock.advance(59_000);
    assert.equal((await seen()).online, true);
    clock.advance(1_000);
    assert.equal((await seen()).online, false);
    await inbox(agent, '?peek=1');
    assert.equal((await seen()).online, false, 'looking is no heartbeat');
    const listed = (await acme.call('GET', '/redsyn/v1/directory?online=1')).json.agents;
    assert.ok(!listed.some((entry: { address: string }) => entry.address === agent));
    const { id } = await ask(agent);
    assert.deepEqual(await ids(agent), [id], 'messages go on waiting for it');
    await ack(agent, [id]);
  });

  it('REL-08: a poll on one replica wakes for what another accepts', async () => {
    const other = await acme.replica();
    const agent = await fresh();
    const held = fetch(`${other.base}/redsyn/v1/inbox/${agent}?wait=25`, {
      headers: { authorization: `Bearer ${ana.token}` },
    });
    await pause(100);
    const { id } = await ask(agent);
    const { items } = (await (await held).json()) as { items: Array<{ id: string }> };
    assert.deepEqual(
      items.map((item) => item.id),
      [id],
    );
    await ack(agent, [id]);
    await other.stop();
  });
});

describe('the policy words (REDSYN "Mensajes": `… takes requests only from team ops`)', () => {
  it('name whom the agent takes requests from; a refused message is not kept', async () => {
    await team(acme, 'ops', ['ana']);
    for (const [allow, words] of [
      [['team:ops'], 'team ops'],
      [['eve'], 'eve'],
      [['eve', 'team:ops', 'org:globex'], 'eve, team ops, org globex'],
    ] as const) {
      const agent = await fresh({ allow });
      const answer = await acme.call('POST', '/redsyn/v1/messages', {
        body: { v: 1, kind: 'request', from: asker, to: agent, body: { type: 'text/plain', text: 'x' } },
      });
      assert.equal(answer.status, 403);
      assert.equal(answer.json.error, `${agent} takes requests only from ${words}`);
      assert.deepEqual(await ids(agent), []);
    }
    const own = 'acme/ops/ana/close';
    await ana.announce(own);
    const answer = await acme.call('POST', '/redsyn/v1/messages', {
      body: { v: 1, kind: 'request', from: asker, to: own, body: { type: 'text/plain', text: 'x' } },
    });
    assert.equal(answer.json.error, `${own} takes requests only from team ops`, 'an empty list is its own team');
  });
});

/** A poll on a socket of its own. */
function poll(agent: string, query: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(acme.url).port), '127.0.0.1', () => {
      socket.write(
        `GET /redsyn/v1/inbox/${agent}${query} HTTP/1.1\r\nHost: ${acme.authority}\r\nAuthorization: Bearer ${ana.token}\r\n\r\n`,
      );
      resolve(socket);
    });
    socket.on('error', reject);
  });
}
