import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { Client, nodeKeys } from '../../src/client/index.ts';
import { person, testGateway } from '../support/gateway.ts';
import { rows } from '../support/peer.ts';

/** Two replicas on one database: what two callers do at once, one of them decides. */
const acme = await testGateway({ after });
const other = await acme.replica();
const asker = 'acme/general/joel/asker';
const desk = 'acme/general/joel/desk';
const [first, second] = [acme.url, other.base];

let nodes: Client[];

before(async () => {
  await acme.admin.announce(asker);
  await acme.admin.announce(desk);
});

beforeEach(async () => {
  nodes = await Promise.all(
    [first, second].map(async (url, i) => {
      const { token } = await acme.admin.call<{ token: string }>('POST', '/nodes', { name: `node ${i}` });
      return new Client({ url, token });
    }),
  );
});

interface Answered {
  id: string;
  thread: string;
  to: string;
  duplicate?: boolean;
  code?: string;
}

async function post(url: string, envelope: object): Promise<{ status: number; json: Answered }> {
  const response = await fetch(`${url}/redsyn/v1/messages`, {
    method: 'POST',
    headers: { authorization: `Bearer ${acme.token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ v: 1, ...envelope }),
  });
  return { status: response.status, json: (await response.json()) as Answered };
}

async function ask(url: string, id: string, more: object = {}): Promise<Answered> {
  const body = { type: 'text/plain', text: id };
  return (await post(url, { id, kind: 'request', from: asker, to: desk, body, ...more })).json;
}

describe('at once', () => {
  it('one id: one message; all answers are the same, and all but one say duplicate', async () => {
    for (let round = 0; round < 10; round++) {
      const was = await rows(acme);
      const answers = await Promise.all(
        [first, second, first, second, first, second].map((url) => ask(url, `same-${round}`)),
      );
      const is = await rows(acme);
      assert.equal(is.messages, was.messages! + 1);
      assert.equal(is.deliveries, was.deliveries! + 1);
      assert.equal(is.exchanges, was.exchanges! + 1);
      assert.equal(answers.filter((answer) => answer.duplicate === true).length, 5);
      for (const { duplicate: _, ...answer } of answers) {
        const { duplicate: _first, ...one } = answers[0]!;
        assert.deepEqual(answer, one);
      }
    }
  });

  it("one id of two people: two messages, and neither hears of the other's", async () => {
    const ana = await person(acme, 'ana');
    await ana.announce('acme/general/ana/asker');
    const joels = ask(first, 'shared', { thread: 'joels-thread' });
    const anas = new Client({ url: second, token: ana.token }).send({
      id: 'shared',
      from: 'acme/general/ana/asker',
      to: desk,
      text: 'mine',
    });
    const [one, two] = [await joels, await anas];
    assert.equal(one.duplicate, undefined);
    assert.equal(two.duplicate, undefined);
    assert.equal(two.thread, 'shared');
  });

  it('two replies to one request: one wins, the other is 409 and leaves nothing', async () => {
    for (let round = 0; round < 10; round++) {
      const { id } = await ask(first, `asked-${round}`);
      const replies = await Promise.all(
        [first, second].map((url, i) =>
          post(url, {
            id: `reply-${round}-${i}`,
            kind: 'reply',
            from: desk,
            reply_to: id,
            body: { type: 'text/plain', text: `by ${i}` },
          }),
        ),
      );
      assert.deepEqual(replies.map(({ status }) => status).sort(), [201, 409]);
      assert.equal(replies.find(({ status }) => status === 409)?.json.code, 'exchange_closed');
      const { items } = (await acme.call('GET', `/redsyn/v1/inbox/${asker}?reply_to=${id}`)).json;
      assert.equal(items.length, 1);
      const won = replies.findIndex(({ status }) => status === 201);
      assert.equal(items[0].body.text, `by ${won}`);
    }
  });

  it('two nodes that take: nothing is taken twice, and all of it is taken', async () => {
    const ids = Array.from({ length: 60 }, (_, i) => `taken-${i}`);
    // A session is handed to one node at a time: so many threads, so many sessions.
    await Promise.all(ids.map((id, i) => ask(i % 2 ? first : second, id)));
    const got: string[][] = [[], []];
    for (let round = 0; round < 30; round++) {
      const taken = await Promise.all(nodes.map((node) => node.take(desk, { max: 5 })));
      if (taken.every((items) => items.length === 0)) break;
      for (const [i, items] of taken.entries()) {
        got[i]!.push(...items.map((item) => item.id).filter((id) => id.startsWith('taken-')));
      }
    }
    const all = got.flat();
    assert.equal(new Set(all).size, all.length);
    assert.deepEqual([...all].sort(), [...ids].sort());
    // A lease is its node's: the other one's ack of it confirms nothing.
    const was = await rows(acme);
    await nodes[1]!.ack(desk, got[0]!);
    assert.equal((await rows(acme)).deliveries, was.deliveries);
    await Promise.all(nodes.map((node, i) => node.ack(desk, got[i]!)));
    assert.equal((await rows(acme)).deliveries, was.deliveries! - ids.length);
  });

  it('one key of a node in two registrations: one wins', async () => {
    const keys = [nodeKeys(), nodeKeys()];
    const { token } = await acme.admin.call<{ token: string }>('POST', '/nodes', { name: 'racing' });
    const done = await Promise.allSettled(
      keys.map((key, i) => new Client({ url: i ? second : first, token, keys: key }).registerKeys()),
    );
    assert.deepEqual(done.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
  });
});
