import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { type Called, eventually, person, type TestGateway, testGateway } from '../support/gateway.ts';
import { billing, linkedPair, reviewer } from '../support/pair.ts';

let count = 0;

function send(at: TestGateway, from: string, to: string, more: Record<string, unknown> = {}): Promise<Called> {
  const body = {
    v: 1,
    id: `c${++count}`,
    kind: 'request',
    from,
    to,
    body: { type: 'text/plain', text: 'never mind' },
    ...more,
  };
  return at.call('POST', '/redsyn/v1/messages', { body });
}

function cancel(at: TestGateway, id: string, token = at.token): Promise<Called> {
  return at.call('POST', `/redsyn/v1/messages/${id}/cancel`, { token });
}

async function stateAt(at: TestGateway, id: string): Promise<string> {
  const { rows } = await at.database.db.query<{ state: string }>('select state from exchanges where request_id = $1', [
    id,
  ]);
  return rows.map(({ state }) => state).join();
}

const waiting = async (at: TestGateway): Promise<number> =>
  (
    await at.database.db.query(
      `select 1 from deliveries d join messages m on m.seq = d.message_seq where m.kind = 'request'`,
    )
  ).rows.length;

describe('a request that nobody has taken can be withdrawn', async () => {
  const gateway = await testGateway({ after });
  const ana = await person(gateway, 'ana');
  const asks = 'acme/general/joel/asks';
  const close = 'acme/general/ana/close';
  await gateway.admin.announce(asks);
  await ana.announce(close, { allow: ['org', 'anyone'] });

  it('is gone from the inbox, and ended; a second time is the same', async () => {
    const { json } = await send(gateway, asks, close);
    const done = await cancel(gateway, json.id);
    assert.deepEqual([done.status, done.json], [200, { id: json.id, canceled: true }]);
    assert.deepEqual(await ana.take(close), []);
    assert.equal(await waiting(gateway), 0);
    assert.equal(await stateAt(gateway, json.id), 'canceled');
    assert.deepEqual((await cancel(gateway, json.id)).json, done.json);
    const thread = await gateway.call('GET', `/redsyn/v1/threads/${json.thread}`);
    assert.equal(thread.json.messages[0].state, 'canceled');
    // Its id stays used, and nobody answers it any more.
    assert.equal((await send(gateway, asks, close, { id: json.id })).json.duplicate, true);
    const late = {
      v: 1,
      id: 'late',
      kind: 'reply',
      from: close,
      reply_to: json.id,
      body: { type: 'text/plain', text: 'x' },
    };
    assert.equal((await gateway.call('POST', '/redsyn/v1/messages', { token: ana.token, body: late })).status, 409);
  });

  it('not once somebody took it, also when that lease has ended', async () => {
    const { json } = await send(gateway, asks, close);
    const [taken] = await ana.take(close, { lease: 1 });
    for (const wait of [0, 1_100]) {
      await new Promise((resolve) => setTimeout(resolve, wait));
      const refused = await cancel(gateway, json.id);
      assert.deepEqual([refused.status, refused.json.code], [409, 'conflict']);
      assert.match(refused.json.error, new RegExp(`^${close} has taken it already`));
    }
    await ana.reply(taken!, 'done');
    const answered = await cancel(gateway, json.id);
    assert.deepEqual([answered.status, answered.json.error], [409, 'It is answered already.']);
  });

  it('a webhook takes with its 2xx alone: while it does not answer, nobody has taken it', async () => {
    const { json } = await send(gateway, asks, close);
    await gateway.database.db.query(
      `update deliveries set attempts = 3, lease_node = 'webhook', lease_until = $1 where message_id = $2`,
      [Date.now() + 60_000, json.id],
    );
    assert.equal((await cancel(gateway, json.id)).status, 200);
    assert.equal(await waiting(gateway), 0);
  });

  it('only by its sender: an unknown id and somebody else’s are the same 404', async () => {
    const { json } = await send(gateway, asks, close);
    const unknown = await cancel(gateway, 'nobody-sent-this');
    assert.equal(unknown.status, 404);
    for (const id of [json.id, 'x'.repeat(400)]) {
      const refused = await cancel(gateway, id, ana.token);
      assert.deepEqual([refused.status, refused.text], [404, unknown.text]);
    }
    assert.equal(await waiting(gateway), 1);
    await cancel(gateway, json.id);
  });

  it('only a request: an answer or an event is none', async () => {
    const { json } = await send(gateway, asks, close);
    const [taken] = await ana.take(close);
    const reply = await ana.reply(taken!, 'done');
    assert.equal((await cancel(gateway, reply.id, ana.token)).status, 404);
    const event = {
      v: 1,
      id: 'an-event',
      kind: 'event',
      from: asks,
      to: 'topic:news',
      body: { type: 'text/plain', text: 'x' },
    };
    await gateway.call('POST', '/redsyn/v1/messages', { body: event });
    assert.equal((await cancel(gateway, 'an-event')).status, 404);
    assert.equal(await stateAt(gateway, json.id), 'completed');
  });

  it('a waiting A2A task sees `canceled`', async () => {
    const body = {
      jsonrpc: '2.0',
      id: 1,
      method: 'SendMessage',
      params: { message: { messageId: 'over-a2a', role: 'ROLE_USER', parts: [{ text: 'well?' }] } },
    };
    const headers = { 'a2a-version': '1.0', 'idempotency-key': 'k1' };
    const answer = gateway.call('POST', '/a2a/v1/ana:general:close', { body, headers });
    const id = await eventually('the task waits', async () => {
      const { rows } = await gateway.database.db.query<{ request_id: string }>(
        `select request_id from exchanges where state = 'submitted'`,
      );
      return rows[0]?.request_id;
    });
    assert.equal((await cancel(gateway, id)).status, 200);
    assert.equal((await answer).json.result.task.status.state, 'TASK_STATE_CANCELED');
  });

  it('at the same time as a take the database decides: it is withdrawn or taken, never both and never neither', async () => {
    const outcomes = new Set<string>();
    for (let round = 0; round < 40; round++) {
      const { json } = await send(gateway, asks, close);
      const [done, taken] = await Promise.all([cancel(gateway, json.id), ana.take(close)]);
      const outcome = `${done.status} ${taken.length}`;
      outcomes.add(outcome);
      assert.ok(outcome === '200 0' || outcome === '409 1', outcome);
      if (taken[0]) await ana.reply(taken[0], 'done');
      assert.equal(await stateAt(gateway, json.id), taken[0] ? 'completed' : 'canceled');
    }
    assert.equal(await waiting(gateway), 0);
  });

  it('under the row locks: a take that holds the message wins over a cancel that came second', async () => {
    const { json } = await send(gateway, asks, close);
    let late: Promise<Called> | undefined;
    await gateway.database.db.tx(async (tx) => {
      await tx.query(`update deliveries set attempts = 1, lease_until = $1, lease_node = 'n'`, [Date.now() + 60_000]);
      late = cancel(gateway, json.id);
      await eventually('the cancel waits for the lock', async () => {
        const { rows } = await gateway.database.db.query(`select 1 from pg_locks where not granted`);
        return rows.length > 0;
      });
    });
    assert.equal((await late!).status, 409);
  });
});

describe('a request to an agent behind another gateway', async () => {
  const { acme, globex } = await linkedPair({ after });
  const open = (at: TestGateway) =>
    at.call('PUT', `/redsyn/v1/orgs/${at.org}/links/${at === acme ? 'globex' : 'acme'}/rules`, {
      body: { signed_only: false },
    });
  await open(globex);
  await open(acme);
  /** As if globex were away. */
  const away = () =>
    acme.database.db.query('insert into circuits (destination, failures, open_until) values ($1, 1, $2)', [
      globex.authority,
      Date.now() + 3_600_000,
    ]);
  const back = () => acme.database.db.query('delete from circuits');

  it('is withdrawn there, when nobody took it there', async () => {
    const { json, status } = await send(acme, reviewer, billing);
    assert.equal(status, 201);
    assert.equal(await waiting(globex), 1);
    const done = await cancel(acme, json.id);
    assert.deepEqual([done.status, done.json], [200, { id: json.id, canceled: true }]);
    assert.equal(await waiting(globex), 0);
    assert.deepEqual([await stateAt(acme, json.id), await stateAt(globex, json.id)], ['canceled', 'canceled']);
    assert.equal((await cancel(acme, json.id)).status, 200);
  });

  it('is not, when somebody did', async () => {
    const { json } = await send(acme, reviewer, billing);
    const [taken] = await globex.admin.take(billing, { wait: 5 });
    const refused = await cancel(acme, json.id);
    assert.deepEqual([refused.status, refused.json.code], [409, 'conflict']);
    assert.match(refused.json.error, new RegExp(`^${billing} has taken it already`));
    assert.equal(await stateAt(acme, json.id), 'submitted');
    await globex.admin.reply(taken!, 'Yes.');
    await eventually('the reply is there', async () => (await stateAt(acme, json.id)) === 'completed');
    assert.equal((await cancel(acme, json.id)).json.error, 'It is answered already.');
    await acme.admin.take(reviewer);
  });

  it('never leaves, when it has not left yet', async () => {
    await away();
    const { json } = await send(acme, reviewer, billing);
    const done = await cancel(acme, json.id);
    assert.deepEqual([done.status, done.json], [200, { id: json.id, canceled: true }]);
    assert.deepEqual((await acme.database.db.query('select 1 from outbox')).rows, []);
    await back();
  });

  it('is pending while that gateway cannot be asked, and withdrawn once it can', async () => {
    const { json } = await send(acme, reviewer, billing);
    await away();
    const done = await cancel(acme, json.id);
    assert.deepEqual([done.status, done.json], [202, { id: json.id, canceled: false, pending: true }]);
    assert.deepEqual((await cancel(acme, json.id)).json, done.json);
    assert.equal((await acme.database.db.query('select 1 from outbox')).rows.length, 1);
    await back();
    assert.equal((await cancel(acme, json.id)).status, 200);
    assert.equal(await waiting(globex), 0);
    assert.equal(await stateAt(acme, json.id), 'canceled');
  });

  it('pending, and then answered after all: the answer counts', async () => {
    const { json } = await send(acme, reviewer, billing);
    await away();
    assert.equal((await cancel(acme, json.id)).status, 202);
    const [taken] = await globex.admin.take(billing, { wait: 5 });
    await globex.admin.reply(taken!, 'Yes.');
    await eventually('the reply is there', async () => (await stateAt(acme, json.id)) === 'completed');
    assert.deepEqual((await acme.database.db.query('select 1 from outbox')).rows, []);
    await back();
  });

  it('when a try may have arrived and its answer was lost, that gateway is asked; what it never had is withdrawn', async () => {
    await away();
    const { json } = await send(acme, reviewer, billing);
    await acme.database.db.query('update outbox set attempts = 1');
    assert.equal((await cancel(acme, json.id)).status, 202);
    const { rows } = await acme.database.db.query<{ kind: string }>('select kind from outbox');
    assert.deepEqual(rows, [{ kind: 'cancel' }]);
    await back();
    assert.equal((await cancel(acme, json.id)).status, 200);
    assert.equal(await waiting(globex), 0);
    assert.equal(await stateAt(globex, json.id), '');
  });

  it('only the owner of whoever asked withdraws: to another key of the same gateway it does not exist', async () => {
    const eve = await person(acme, 'eve');
    const { json } = await send(acme, reviewer, billing);
    assert.equal((await cancel(acme, json.id, eve.token)).status, 404);
    // The far side knows askers by their DIDs: signed by eve, it finds nothing.
    await acme.database.db.query(
      `update exchanges set asker_owner = (select id from members where handle = 'eve') where request_id = $1`,
      [json.id],
    );
    await cancel(acme, json.id);
    assert.equal(await stateAt(globex, json.id), 'submitted');
    assert.equal(await waiting(globex), 1);
  });
});
