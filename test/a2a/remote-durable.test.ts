import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Client, nodeKeys } from '../../src/client/index.ts';
import { ManualClock } from '../../src/lib/clock.ts';
import { storedZip } from '../../src/lib/zip-write.ts';
import { eventually, freePort } from '../support/gateway.ts';
import { strangers } from '../support/pair.ts';
import { gate, startA2aServer } from './remote-server.ts';
import { reviewer, startAsker } from './remote-tools.ts';

describe('a task outlives the gateway that asked', () => {
  for (const [name, shape] of [
    ['polled', {}],
    ['streamed', { streaming: true }],
    ['pushed', { push: true }],
  ] as const) {
    it(`${name}: a replica goes on with it after a stop`, async (t) => {
      const step = gate();
      const server = await startA2aServer(t, {
        async brain(turn) {
          turn.task('TASK_STATE_WORKING');
          turn.status('TASK_STATE_WORKING', 'looking');
          await step.passed;
          turn.artifact([{ text: 'Paid.' }]);
          turn.status('TASK_STATE_COMPLETED');
        },
        ...shape,
      });
      const asker = await startAsker(t);
      const sent = await asker.ask(server.did);
      assert.equal((await asker.next(sent.id)).body.text, 'looking');
      await asker.gateway.stop();
      step.open();
      const other = await asker.gateway.replica();
      const client = new Client({ url: other.base, token: asker.gateway.token, keys: nodeKeys(), seal: false });
      const reply = await eventually('the reply', async () =>
        (await client.take(reviewer, { wait: 1, replyTo: sent.id })).find(({ kind }) => kind === 'reply'),
      );
      assert.equal(reply.body.text, 'Paid.');
      const sends = server.calls().filter((call) => /send|stream/i.test(call));
      assert.equal(sends.length, 1, sends.join());
    });
  }

  it('two replicas ask once, not twice', async (t) => {
    const step = gate();
    t.after(() => step.open());
    const polls: number[] = [];
    const server = await startA2aServer(t, {
      async brain(turn) {
        turn.task('TASK_STATE_WORKING');
        await step.passed;
        turn.status('TASK_STATE_COMPLETED', 'done');
      },
      before({ body }) {
        if (body?.method === 'GetTask') polls.push(Date.now());
        return false;
      },
    });
    const asker = await startAsker(t);
    await asker.gateway.replica();
    const sent = await asker.ask(server.did);
    await eventually('three polls', async () => polls.length >= 3);
    for (const [i, at] of polls.entries()) {
      if (i > 0) assert.ok(at - polls[i - 1]! > 500, `polled twice within ${at - polls[i - 1]!} ms`);
    }
    step.open();
    assert.equal((await asker.replyTo(sent.id)).body.text, 'done');
  });
});

describe('with a clock that is moved', () => {
  it('an agent that answers with a message after minutes is waited for, and asked once', async (t) => {
    const clock = new ManualClock(Date.now());
    const step = gate();
    const server = await startA2aServer(t, {
      async brain(turn) {
        await step.passed;
        turn.message([{ text: 'At last.' }]);
      },
    });
    const asker = await startAsker(t, { clock });
    const asked = asker.ask(server.did, 'x', { files: storedZip([{ name: 'a.txt', data: Buffer.from('hello') }]) });
    await eventually('the send', async () => server.calls().length === 1);
    await pass(clock, 60_000);
    const sent = await asked;
    const { db } = asker.gateway.database;
    assert.equal((await db.query('select from message_files where zip is not null')).rows.length, 1);
    step.open();
    await eventually('the reply', async () => {
      await pass(clock, 1_000);
      return (await db.query(`select from messages where kind = 'reply'`)).rows.length > 0;
    });
    assert.equal(server.calls().length, 1);
    const [reply] = await asker.gateway.admin.take(reviewer, { replyTo: sent.id });
    assert.equal(reply!.body.text, 'At last.');
    assert.equal((await db.query('select from message_files where zip is not null')).rows.length, 0);
  });

  it('a task that is never done ends with its request, and its server is told', async (t) => {
    const clock = new ManualClock(Date.now());
    const step = gate();
    t.after(() => step.open());
    const canceled: string[] = [];
    const server = await startA2aServer(t, {
      async brain(turn) {
        turn.task('TASK_STATE_WORKING');
        await step.passed;
      },
      onCancel: (id) => void canceled.push(id),
    });
    const asker = await startAsker(t, { clock });
    const sent = await asker.ask(server.did, 'x', { ttl: 120 });
    const { db } = asker.gateway.database;
    await eventually('the end', async () => {
      await pass(clock, 10_000);
      return (await db.query(`select from exchanges where ended_at is not null`)).rows.length > 0;
    });
    const [reply] = await asker.gateway.admin.take(reviewer, { replyTo: sent.id });
    assert.deepEqual([reply!.kind, reply!.error], ['reply', true]);
    assert.match(reply!.body.text ?? '', /expired/);
    await eventually('the cancel', async () => {
      await pass(clock, 1_000);
      return canceled.length === 1;
    });
    await eventually('nothing is owed', async () => (await db.query('select from outbox')).rows.length === 0);
  });
});

/** Time goes by in steps, so that what falls due has a moment to happen. */
async function pass(clock: ManualClock, ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 1_000) {
    clock.advance(Math.min(left, 1_000));
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

describe('another Gatehouse without a link: the sender comes as itself', () => {
  it('waits in our outbox until the owner there consents', async (t) => {
    const { acme, globex } = await strangers(t);
    const to = `did:web:${globex.authority.replace(':', '%3A')}:agents:bob:erp:billing`;
    const sent = await acme.admin.send({ from: reviewer, to, text: 'May I?' });
    const { db } = globex.database;
    const requests = await eventually('the connection request', async () => {
      const { rows } = await db.query<{ id: string; owner: string; peer_did: string; first_message: string }>(
        'select * from connection_requests',
      );
      return rows.length > 0 && rows;
    });
    assert.equal(requests.length, 1);
    assert.equal(requests[0]!.peer_did, `did:web:${acme.authority.replace(':', '%3A')}:agents:joel`);
    assert.equal(requests[0]!.first_message, 'May I?');
    assert.deepEqual(await globex.admin.take('globex/erp/bob/billing'), []);

    // Her owner consents.
    await db.query(
      `insert into peers (id, did, domain, created_at) values ('peer-acme', $1, '', 0) on conflict do nothing`,
      [requests[0]!.peer_did],
    );
    await db.query(
      `insert into contacts (id, owner, peer_id, created_at) select 'c1', $1, id, 0 from peers where did = $2`,
      [requests[0]!.owner, requests[0]!.peer_did],
    );
    await acme.database.db.query('update outbox set due_at = 0');
    await acme.database.notifier.publish(['outbox']);

    const [request] = await eventually('the request', async () => {
      const items = await globex.admin.take('globex/erp/bob/billing', { wait: 2 });
      return items.length > 0 && items;
    });
    assert.equal(request!.body.text, 'May I?');
    assert.equal(request!.from, `${acme.authority}/agents/joel/agent`);
    await globex.admin.progress(request!, 'looking');
    await globex.admin.reply(request!, 'You may.');
    const reply = await eventually('the reply', async () =>
      (await acme.admin.take(reviewer, { wait: 1, replyTo: sent.id })).find(({ kind }) => kind === 'reply'),
    );
    assert.equal(reply.body.text, 'You may.');
    assert.equal(reply.thread, sent.thread);
  });

  it('a port that nobody listens on is tried again, and nothing is lost', async (t) => {
    const asker = await startAsker(t);
    const sent = await asker.ask(`did:web:localhost%3A${await freePort()}:agents:eve`);
    const { db } = asker.gateway.database;
    const { rows } = await db.query<{ kind: string }>('select kind from outbox');
    assert.deepEqual(rows, [{ kind: 'a2a' }]);
    assert.ok(sent.id);
  });
});
