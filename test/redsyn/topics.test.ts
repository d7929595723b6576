import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { signedEnvelope } from '../../src/client/envelope.ts';
import { type DeliveredEnvelope, nodeKeys } from '../../src/client/index.ts';
import { verifyDelivered } from '../../src/identity/redsyn-seal.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { person, team, testGateway } from '../support/gateway.ts';
import { event, inbox, publish, subscribe, topicsOf, unsubscribe } from './topics-support.ts';

const gateway = await testGateway({ after });
await team(gateway, 'finance', ['joel']);
const ana = await person(gateway, 'ana', 'finance');
const close = 'acme/finance/ana/close';
const watcher = 'acme/finance/ana/watcher';
const reviewer = 'acme/finance/joel/reviewer';
await ana.announce(close);
await ana.announce(watcher);
await gateway.admin.announce(reviewer);

describe('topics and events, within one organisation', () => {
  it('a topic is made by its first subscription or publication; a copy goes to each agent that listens, but the publisher', async () => {
    const first = await subscribe(gateway, close, 'topic:finance/invoices', ana.token);
    assert.equal(first.status, 201);
    assert.deepEqual(first.json, { agent: close, topic: 'topic:acme/finance/invoices' });
    assert.equal((await subscribe(gateway, close, 'topic:acme/finance/invoices', ana.token)).status, 200);
    assert.equal((await subscribe(gateway, watcher, 'topic:invoices', ana.token)).status, 201);
    assert.equal((await subscribe(gateway, reviewer, 'topic:invoices')).status, 201);

    const sent = event(reviewer, 'topic:finance/invoices');
    const published = await publish(gateway, sent);
    assert.equal(published.status, 201);
    assert.deepEqual(published.json, {
      id: sent.id,
      thread: sent.id,
      to: 'topic:acme/finance/invoices',
      signed: false,
    });

    const [item, ...more] = await inbox(gateway, close, ana.token);
    assert.deepEqual(more, []);
    assert.equal(item?.id, sent.id);
    assert.equal(item?.kind, 'event');
    assert.equal(item?.topic, 'topic:acme/finance/invoices');
    assert.equal(item?.from, reviewer);
    assert.equal(item?.to, `${close}#s1`);
    assert.equal(item?.thread.length, 26);
    assert.equal((await inbox(gateway, watcher, ana.token)).length, 1);
    assert.deepEqual(await inbox(gateway, reviewer), []);
  });

  it('the first publication makes one too, and everybody in the organisation sees who listens', async () => {
    assert.equal((await publish(gateway, event(reviewer, 'topic:acme/general/builds'))).status, 201);
    for (const token of [gateway.token, ana.token]) {
      assert.deepEqual(await topicsOf(gateway, token), [
        { topic: 'topic:acme/finance/invoices', agents: [close, watcher, reviewer], orgs: [] },
        { topic: 'topic:acme/general/builds', agents: [], orgs: [] },
      ]);
    }
  });

  it('waits one day by default, and as long as `ttl` says', async () => {
    const now = Date.now() / 1000;
    await publish(gateway, event(reviewer, 'topic:invoices'));
    await publish(gateway, event(reviewer, 'topic:invoices', { ttl: 60 }));
    const items = await inbox(gateway, close, ana.token);
    assert.deepEqual(
      items.map(({ expires }) => Math.round((expires - now) / 10)),
      [8640, 6],
    );
  });

  it('each agent that listens has a session of its own per topic, which keeps the history', async () => {
    await subscribe(gateway, close, 'topic:acme/general/builds', ana.token);
    const one = event(reviewer, 'topic:invoices');
    const two = event(reviewer, 'topic:acme/general/builds');
    await publish(gateway, one);
    await publish(gateway, two);
    const items = await inbox(gateway, close, ana.token);
    assert.deepEqual(
      items.map(({ to }) => to),
      [`${close}#s1`, `${close}#s2`],
    );
    assert.notEqual(items[0]!.thread, items[1]!.thread);
    const [theirs] = await inbox(gateway, watcher, ana.token).then((all) => all.slice(-1));
    assert.notEqual(theirs!.thread, items[0]!.thread);

    const page = await gateway.call('GET', `/redsyn/v1/agents/${close}/sessions/s1`, { token: ana.token });
    assert.equal(page.json.title, 'topic:acme/finance/invoices');
    assert.equal(page.json.messages.length, 4);
    assert.equal(page.json.messages.at(-1).id, one.id);
    // Who published it takes no part in the session of who listens.
    const outside = await gateway.call('GET', `/redsyn/v1/agents/${close}/sessions/s1`);
    assert.equal(outside.json.messages, undefined);
  });

  it('once its session was closed, the next event opens another', async () => {
    await ana.call('POST', `/agents/${close}/sessions/s2/close`);
    await publish(gateway, event(reviewer, 'topic:acme/general/builds'));
    const [item] = await inbox(gateway, close, ana.token);
    assert.equal(item?.to, `${close}#s3`);
  });

  it('the same id from the same sender is the same event', async () => {
    const sent = event(reviewer, 'topic:invoices');
    const [one, two] = await Promise.all([publish(gateway, sent), publish(gateway, sent)]);
    assert.deepEqual([one.status, two.status], [201, 201]);
    assert.deepEqual([one.json.duplicate ?? false, two.json.duplicate ?? false].sort(), [false, true]);
    const again = await publish(gateway, sent);
    assert.deepEqual(again.json, {
      id: sent.id,
      thread: sent.id,
      to: 'topic:acme/finance/invoices',
      signed: false,
      duplicate: true,
    });
    assert.equal((await inbox(gateway, close, ana.token)).length, 1);
  });

  it('many at once, the first among them, are each one copy, in one session', async () => {
    const drain = async (agent: string): Promise<DeliveredEnvelope[]> => {
      const all: DeliveredEnvelope[] = [];
      for (;;) {
        const items = await inbox(gateway, agent, ana.token);
        if (items.length === 0) return all;
        all.push(...items);
      }
    };
    for (const agent of [close, watcher]) {
      await drain(agent);
      await subscribe(gateway, agent, 'topic:acme/general/burst', ana.token);
    }
    const sent = Array.from({ length: 30 }, () => event(reviewer, 'topic:acme/general/burst'));
    const done = await Promise.all(sent.map((one) => publish(gateway, one)));
    assert.ok(done.every(({ status }) => status === 201));
    for (const agent of [close, watcher]) {
      const items = await drain(agent);
      assert.deepEqual(items.map(({ id }) => id).sort(), sent.map(({ id }) => id).sort());
      assert.equal(new Set(items.map(({ to }) => to)).size, 1);
    }
  });

  it('nobody answers an event', async () => {
    const sent = event(reviewer, 'topic:invoices');
    await publish(gateway, sent);
    await inbox(gateway, close, ana.token);
    for (const kind of ['reply', 'progress']) {
      const answer = { ...event(close, ''), kind, reply_to: sent.id };
      assert.equal((await publish(gateway, answer, ana.token)).status, 404);
    }
    assert.deepEqual(await inbox(gateway, reviewer), []);
  });

  it('a signed event verifies as it is delivered, its topic written short or in full', async () => {
    for (const to of ['topic:invoices', 'topic:finance/invoices', 'topic:acme/finance/invoices']) {
      await inbox(gateway, close, ana.token);
      const keys = nodeKeys();
      await gateway.call('PUT', '/redsyn/v1/nodes/key', { body: { ...keys.registration(), rotate: true } });
      await publish(gateway, signed(event(reviewer, to), keys));
      const [item] = await inbox(gateway, close, ana.token);
      assert.equal(item?.signed, true);
      assert.ok(!(verifyDelivered(item as never) instanceof Refusal), to);
      assert.ok(verifyDelivered({ ...item, topic: 'topic:acme/finance/other' } as never) instanceof Refusal);
    }
  });

  it('one of your own agents, in full; a topic, and no agent', async () => {
    assert.equal((await subscribe(gateway, close, 'topic:invoices')).status, 403);
    assert.equal((await subscribe(gateway, 'acme/finance/joel/nobody', 'topic:invoices')).status, 404);
    assert.equal((await subscribe(gateway, 'reviewer', 'topic:invoices')).status, 422);
    for (const topic of [
      'invoices',
      'topic:',
      'topic:a/b/c/d',
      'topic:acme/finance/In voices',
      'topic:acme/finance/x#s1',
    ]) {
      const refused = await subscribe(gateway, reviewer, topic);
      assert.equal(refused.status, 422, topic);
      assert.equal(refused.json.field, 'topic');
    }
    for (const to of [close, 'topic:Acme/x/y', 'topic:a/b/c/d']) {
      const refused = await publish(gateway, event(reviewer, to));
      assert.equal(refused.status, 422, to);
      assert.equal(refused.json.field, 'to');
    }
    assert.equal((await publish(gateway, { ...event(reviewer, 'topic:invoices'), kind: 'request' })).status, 422);
  });

  it('no longer listens once that was said; the history goes on when it listens again', async () => {
    const remove = () => unsubscribe(gateway, close, 'topic:finance/invoices', ana.token);
    assert.deepEqual((await remove()).json, { agent: close, topic: 'topic:acme/finance/invoices', removed: true });
    assert.deepEqual((await remove()).json, { agent: close, topic: 'topic:acme/finance/invoices', removed: false });
    await publish(gateway, event(reviewer, 'topic:invoices'));
    assert.deepEqual(await inbox(gateway, close, ana.token), []);
    assert.equal((await subscribe(gateway, close, 'topic:invoices', ana.token)).status, 201);
    await publish(gateway, event(reviewer, 'topic:invoices'));
    assert.equal((await inbox(gateway, close, ana.token))[0]?.to, `${close}#s1`);
  });

  it('1,000 subscribers are one statement, and each gets one copy', async () => {
    const { db } = gateway.database;
    await db.query(`insert into agents (id, org_id, team_id, member_id, handle, created_at, updated_at)
      select 'crowd' || n, a.org_id, a.team_id, a.member_id, 'crowd' || n, 0, 0 from agents a, generate_series(1, 1000) n where a.handle = 'watcher'`);
    await db.query(`insert into mailboxes (agent_id) select 'crowd' || n from generate_series(1, 1000) n`);
    await publish(gateway, event(reviewer, 'topic:crowd'));
    await db.query(`insert into subscriptions (topic_id, agent_id, active, conversation, created_at)
      select t.id, 'crowd' || n, true, 'crowd conversation ' || n, 0 from topics t, generate_series(1, 1000) n where t.name = 'crowd'`);
    const sent = event(reviewer, 'topic:crowd');
    await db.query('create table inserts (n integer)');
    await db.query(
      `create function count_insert() returns trigger language plpgsql as $$ begin insert into inserts select 1; return null; end $$`,
    );
    await db.query(
      'create trigger counted after insert on deliveries for each statement execute function count_insert()',
    );
    const began = performance.now();
    assert.equal((await publish(gateway, sent)).status, 201);
    const took = performance.now() - began;
    const { rows } = await db.query<{ agents: number; copies: number; sessions: number }>(
      `select count(distinct d.agent_id)::int as agents, count(*)::int as copies, count(distinct (d.agent_id, d.session))::int as sessions
        from deliveries d where d.message_id = $1`,
      [sent.id],
    );
    assert.deepEqual(rows, [{ agents: 1000, copies: 1000, sessions: 1000 }]);
    assert.ok(took < 2_000, `${took} ms`);
    assert.deepEqual((await db.query('select count(*)::int as n from inserts')).rows, [{ n: 1 }]);
  });
});

function signed(envelope: Record<string, unknown>, keys: ReturnType<typeof nodeKeys>): Record<string, unknown> {
  return signedEnvelope(envelope, keys, Date.now());
}
