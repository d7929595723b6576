import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { signedEnvelope } from '../../src/client/envelope.ts';
import { nodeKeys } from '../../src/client/index.ts';
import { verifyDelivered } from '../../src/identity/redsyn-seal.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { eventually, person, type TestGateway, team, testGateway } from '../support/gateway.ts';
import { billing, linkedPair, reviewer } from '../support/pair.ts';
import { smallZip } from '../support/zip.ts';
import { event, inbox, publish, subscribe, topicsOf, unsubscribe } from './topics-support.ts';

/** Orgs elsewhere that listen to the first topic. */
async function listening(at: TestGateway): Promise<number> {
  return ((await topicsOf(at))[0] as { orgs: string[] }).orgs.length;
}

function expose(
  at: TestGateway,
  other: string,
  kind: 'pub' | 'sub',
  pattern: string,
  on = true,
  token = at.token,
  org = at.org,
) {
  return at.call('PUT', `/redsyn/v1/orgs/${org}/links/${other}/expose`, { token, body: { kind, pattern, on } });
}

describe('topics of another organisation of the same gateway', async () => {
  const gateway = await testGateway({ after });
  const sue = await person(gateway, 'sue');
  const watcher = 'acme/general/joel/watcher';
  const pitch = 'sales/general/sue/pitch';
  const news = 'topic:acme/general/news';
  const rules = (signed_only: boolean) =>
    gateway.call('PUT', '/redsyn/v1/orgs/acme/links/sales/rules', { body: { signed_only } });
  before(async () => {
    await gateway.admin.announce(watcher);
    await sue.call('POST', '/orgs', { handle: 'sales', me: 'sue' });
    await sue.announce(pitch);
  });

  it('without a link, and without exposure, a topic that is there and one that is not are the same 404', async () => {
    await subscribe(gateway, watcher, news);
    const refused = async (topic: string) => {
      const listened = await subscribe(gateway, pitch, topic, sue.token);
      const published = await publish(gateway, event(pitch, topic), sue.token);
      assert.deepEqual([listened.status, published.status], [404, 404]);
      return [listened.text, published.text];
    };
    const there = await refused(news);
    assert.deepEqual(await refused('topic:acme/general/nothing'), there);
    assert.deepEqual(await refused('topic:nobody/general/news'), there);
    await gateway.admin.call('POST', '/orgs/acme/links', { other: 'sales' });
    await sue.call('POST', '/orgs/sales/links', { other: 'acme' });
    assert.deepEqual(await refused(news), there);
    assert.deepEqual(
      (await topicsOf(gateway, sue.token)).map(({ topic }) => topic),
      [news],
    );
  });

  it('`sub` lets it listen, `pub` lets it publish, each only what it names', async () => {
    await rules(false);
    await expose(gateway, 'sales', 'sub', 'general/*');
    assert.equal((await subscribe(gateway, pitch, news, sue.token)).status, 201);
    assert.equal((await publish(gateway, event(pitch, news), sue.token)).status, 404);
    await expose(gateway, 'sales', 'pub', 'general/news');
    assert.equal((await publish(gateway, event(pitch, news), sue.token)).status, 201);
    assert.equal((await publish(gateway, event(pitch, 'topic:acme/general/other'), sue.token)).status, 404);
    await publish(gateway, event(watcher, news));
    assert.deepEqual(
      (await inbox(gateway, watcher)).map(({ from }) => from),
      [pitch],
    );
    const [item] = await inbox(gateway, pitch, sue.token);
    assert.deepEqual([item?.from, item?.topic, item?.to], [watcher, news, `${pitch}#s1`]);
  });

  it('its own people see that an organisation listens, not which agent of it', async () => {
    const seen = await topicsOf(gateway);
    assert.deepEqual(seen[0], { topic: news, agents: [watcher], orgs: ['sales'] });
  });

  it('an event meets the link’s signed_only', async () => {
    await rules(true);
    assert.equal((await publish(gateway, event(pitch, news), sue.token)).status, 403);
    await rules(false);
  });

  it('each event is checked against the link again when it is handed out', async () => {
    const listened = event(watcher, news);
    const published = event(pitch, news);
    await publish(gateway, listened);
    await publish(gateway, published, sue.token);
    await expose(gateway, 'sales', 'sub', 'general/*', false);
    await expose(gateway, 'sales', 'pub', 'general/news', false);
    const peeked = await gateway.call('GET', `/redsyn/v1/inbox/${pitch}?peek=1`, { token: sue.token });
    assert.deepEqual(peeked.json.items, []);
    assert.deepEqual(await inbox(gateway, pitch, sue.token), []);
    assert.deepEqual(await inbox(gateway, watcher), []);
    const { rows } = await gateway.database.db.query('select message_id from deliveries');
    assert.deepEqual(rows, []);
    // What was dropped stays so when the exposure comes back, and what follows passes.
    await expose(gateway, 'sales', 'sub', 'general/news');
    assert.deepEqual(await inbox(gateway, pitch, sue.token), []);
    const after = event(watcher, news);
    await publish(gateway, after);
    assert.deepEqual(
      (await inbox(gateway, pitch, sue.token)).map(({ id }) => id),
      [after.id],
    );
  });

  it('what waits when signed_only comes is checked for it too', async () => {
    await expose(gateway, 'sales', 'pub', '*');
    await publish(gateway, event(pitch, news), sue.token);
    await rules(true);
    assert.deepEqual(await inbox(gateway, watcher), []);
    await rules(false);
  });

  it('a revoked link hands nothing out, and no copy of what comes after is made', async () => {
    await publish(gateway, event(watcher, news));
    await gateway.admin.call('POST', '/orgs/acme/links/sales/revoke');
    await publish(gateway, event(watcher, news));
    const { rows } = await gateway.database.db.query<{ n: number }>(
      `select count(*)::int as n from deliveries d join agents a on a.id = d.agent_id where a.handle = 'pitch'`,
    );
    assert.deepEqual(rows, [{ n: 1 }]);
    assert.deepEqual(await inbox(gateway, pitch, sue.token), []);
    assert.deepEqual((await topicsOf(gateway))[0]?.orgs, []);
  });
});

describe('topics of an organisation behind another gateway', async () => {
  const { acme, globex } = await linkedPair({ after });
  const news = 'topic:globex/erp/news';
  const second = 'acme/dev/joel/second';
  const ann = await person(acme, 'ann');
  const third = 'acme/general/ann/third';
  const erp = 'globex/erp/bob/erp';

  before(async () => {
    await acme.admin.announce(second);
    await ann.announce(third);
    await globex.admin.announce(erp);
    await team(globex, 'ops', ['bob']);
  });

  const known = (kind: string, count: number) =>
    eventually(`${count} exposures as ${kind} are known at acme`, async () => {
      const { links } = await acme.admin.call<{ links: Array<{ exposed: Array<{ kind: string }> }> }>('GET', '/links');
      return links[0]?.exposed.filter((one) => one.kind === kind).length === count;
    });
  const openly = () => globex.call('PUT', '/redsyn/v1/orgs/globex/links/acme/rules', { body: { signed_only: false } });
  const openlyToo = () => acme.call('PUT', '/redsyn/v1/orgs/acme/links/globex/rules', { body: { signed_only: false } });

  it('what is not exposed is the same 404 as what is not there, and leaves nothing behind', async () => {
    await globex.call('PUT', '/redsyn/v1/subscriptions', { body: { agent: erp, topic: news } });
    const hidden = await subscribe(acme, reviewer, news);
    assert.equal(hidden.status, 404);
    for (const topic of ['topic:globex/erp/nothing', 'topic:initech/erp/news']) {
      const missing = await subscribe(acme, reviewer, topic);
      assert.equal(missing.text, hidden.text);
    }
    const event404 = await publish(acme, event(reviewer, news));
    assert.equal(event404.status, 404);
    assert.equal((await publish(acme, event(reviewer, 'topic:globex/erp/nothing'))).text, event404.text);
    assert.deepEqual(await topicsOf(acme), []);
    assert.deepEqual((await acme.database.db.query('select 1 from topics')).rows, []);
    assert.deepEqual(await inbox(globex, erp), []);
  });

  it('a subscription travels; an event goes once to the other gateway, which hands it to each that listens', async () => {
    await openlyToo();
    await expose(globex, 'acme', 'sub', 'erp/news');
    for (const [agent, token] of [
      [reviewer, acme.token],
      [second, acme.token],
      [third, ann.token],
    ] as const) {
      const done = await subscribe(acme, agent, news, token);
      assert.equal(done.status, 201);
      assert.deepEqual(done.json, { agent, topic: news });
    }
    assert.deepEqual((await topicsOf(globex))[0], { topic: news, agents: [erp], orgs: ['acme'] });
    assert.deepEqual(await topicsOf(acme), [{ topic: news, agents: [reviewer, second, third], orgs: [] }]);

    const sent = event(billing, 'topic:erp/news');
    assert.equal((await publish(globex, sent)).status, 201);
    for (const [agent, token] of [
      [reviewer, acme.token],
      [second, acme.token],
      [third, ann.token],
    ] as const) {
      const [item, ...more] = await inbox(acme, agent, token, 5);
      assert.deepEqual(more, []);
      assert.deepEqual([item?.id, item?.from, item?.topic, item?.to], [sent.id, billing, news, `${agent}#s1`]);
      assert.deepEqual(item?.body, sent.body);
    }
    const { rows } = await acme.database.db.query('select id, envelope from messages where kind = $1', ['event']);
    assert.deepEqual(rows, [{ id: sent.id, envelope: JSON.stringify(sent) }]);
    assert.equal((await inbox(globex, erp)).length, 1);
  });

  it('files go with it, and stay until everybody has it', async () => {
    const sent = event(billing, news, { files: { zip: smallZip().toString('base64') } });
    assert.equal((await publish(globex, sent)).status, 201);
    const files = () => acme.call('GET', `/redsyn/v1/messages/${sent.id}/files`, { token: ann.token });
    await eventually('the event waits at acme', async () => (await files()).status === 200);
    for (const agent of [reviewer, second]) await inbox(acme, agent);
    assert.deepEqual((await files()).json, sent.files);
    const [item] = await inbox(acme, third, ann.token);
    assert.deepEqual(Object.keys(item?.files as object).sort(), ['bytes', 'sha256']);
    assert.equal((await files()).status, 410);
    await inbox(globex, erp);
  });

  it('a signature survives: it verifies at the other end', async () => {
    await acme.call('PUT', '/redsyn/v1/orgs/acme/links/globex/rules', { body: { signed_only: true } });
    const keys = nodeKeys();
    await globex.call('PUT', '/redsyn/v1/nodes/key', { body: { ...keys.registration(), rotate: true } });
    await publish(globex, event(billing, 'topic:erp/news'));
    const signed = signedEnvelope(event(billing, 'topic:erp/news'), keys, Date.now());
    await publish(globex, signed);
    // The unsigned one was refused by the link that takes only signed messages.
    const [item, ...more] = await inbox(acme, reviewer, acme.token, 5);
    assert.deepEqual(more, []);
    assert.equal(item?.id, signed.id);
    assert.ok(!(verifyDelivered(item as never) instanceof Refusal));
    await inbox(acme, second);
    await inbox(acme, third, ann.token);
    await inbox(globex, erp);
    await openlyToo();
  });

  it('publishing travels as a message: to who listens there, and back to who listens here, but the publisher', async () => {
    await openly();
    await expose(globex, 'acme', 'pub', 'erp/*');
    const sent = event(reviewer, news);
    const done = await publish(acme, sent);
    assert.equal(done.status, 201);
    assert.deepEqual(done.json, { id: sent.id, thread: sent.id, to: news, signed: false });
    assert.deepEqual(
      (await inbox(globex, erp)).map(({ id, from }) => [id, from]),
      [[sent.id, reviewer]],
    );
    const [back] = await inbox(acme, second, acme.token, 5);
    assert.deepEqual([back?.id, back?.from, back?.topic], [sent.id, reviewer, news]);
    assert.equal((await inbox(acme, third, ann.token)).length, 1);
    assert.deepEqual(await inbox(acme, reviewer), []);
    assert.deepEqual((await publish(acme, sent)).json, { ...done.json, duplicate: true });
    assert.deepEqual(await inbox(globex, erp), []);
    const thread = await acme.call('GET', `/redsyn/v1/threads/${sent.id}`);
    assert.deepEqual(
      thread.json.messages.map((one: { id: string }) => one.id),
      [sent.id],
    );
  });

  it('meets the link’s signed_only at the topic’s gateway, at once', async () => {
    await globex.call('PUT', '/redsyn/v1/orgs/globex/links/acme/rules', { body: { signed_only: true } });
    const refused = await publish(acme, event(reviewer, news));
    assert.equal(refused.status, 403);
    assert.equal(refused.json.signed_only, true);
    await openly();
  });

  it('an event that waits here is not handed out once the exposure there was withdrawn', async () => {
    await publish(globex, event(billing, news));
    await eventually('the event waits at acme', async () => {
      const { json } = await acme.call('GET', `/redsyn/v1/inbox/${reviewer}?peek=1`);
      return json.items.length === 1;
    });
    await expose(globex, 'acme', 'sub', 'erp/news', false);
    await known('sub', 0);
    assert.deepEqual(await inbox(acme, reviewer), []);
    assert.deepEqual(await inbox(acme, second), []);
    // Nor does anything more leave.
    await publish(globex, event(billing, news));
    const { rows } = await globex.database.db.query(`select 1 from outbox where kind = 'event'`);
    assert.deepEqual(rows, []);
    assert.deepEqual((await topicsOf(globex))[0]?.orgs, []);
    await inbox(globex, erp);
  });

  it('nor does what still waits to leave when the exposure is withdrawn', async () => {
    await expose(globex, 'acme', 'sub', 'erp/news');
    await known('sub', 1);
    await inbox(acme, third, ann.token);
    const held = event(billing, news);
    // As if acme were away: its circuit is open while the event is accepted.
    await globex.database.db.query('insert into circuits (destination, failures, open_until) values ($1, 1, $2)', [
      acme.authority,
      Date.now() + 3_600_000,
    ]);
    await publish(globex, held);
    await globex.database.db.query(`delete from link_exposures where side = 'ours' and kind = 'sub'`);
    await globex.database.db.query('delete from circuits');
    await acme.call('GET', '/redsyn/v1/directory');
    await globex.database.db.query(`insert into link_exposures select id, 'ours', 'sub', 'erp/other' from links`);
    await eventually('the outbox of globex is empty', async () => {
      await expose(globex, 'acme', 'sub', 'ops/x');
      return (await globex.database.db.query(`select 1 from outbox where kind = 'event'`)).rows.length === 0;
    });
    assert.deepEqual(await inbox(acme, third, ann.token), []);
  });

  it('a partner that was given the news late is not doubted: its gateway vouches for the exposure', async () => {
    await expose(globex, 'acme', 'sub', 'erp/news');
    await known('sub', 3);
    await acme.database.db.query(`delete from link_exposures where side = 'theirs' and kind = 'sub'`);
    await acme.database.db.query('update links set their_rev = their_rev - 1');
    const sent = event(billing, news);
    await publish(globex, sent);
    assert.deepEqual(
      (await inbox(acme, reviewer, acme.token, 5)).map(({ id }) => id),
      [sent.id],
    );
    await inbox(acme, second);
    await inbox(acme, third, ann.token);
    await inbox(globex, erp);
  });

  it('the last one that stops listening is told to the other gateway', async () => {
    for (const [agent, token] of [
      [reviewer, acme.token],
      [second, acme.token],
    ] as const) {
      assert.equal((await unsubscribe(acme, agent, news, token)).json.removed, true);
    }
    assert.deepEqual((await topicsOf(globex))[0]?.orgs, ['acme']);
    await unsubscribe(acme, third, news, ann.token);
    await eventually('globex knows', async () => (await listening(globex)) === 0);
    assert.equal((await unsubscribe(acme, third, 'topic:globex/erp/hidden', ann.token)).json.removed, false);
  });

  it('while the topic’s gateway cannot be asked it is pending, and is asked again', async () => {
    const open = () =>
      acme.database.db.query('insert into circuits (destination, failures, open_until) values ($1, 1, $2)', [
        globex.authority,
        Date.now() + 3_600_000,
      ]);
    await open();
    const done = await subscribe(acme, reviewer, news);
    assert.equal(done.status, 202);
    assert.deepEqual(done.json, { agent: reviewer, topic: news, pending: true });
    assert.equal((await topicsOf(acme))[0]?.pending, true);
    // globex calls, so it is there.
    let on = true;
    await eventually('globex knows that acme listens', async () => {
      await expose(globex, 'acme', 'pub', 'ops/y', on);
      on = !on;
      return (await listening(globex)) === 1;
    });
    await eventually('acme knows that it does', async () => (await topicsOf(acme))[0]?.pending === undefined);
  });

  it('a revoked link ends it on both sides', async () => {
    await publish(globex, event(billing, news));
    await eventually('it waits', async () => {
      const { json } = await acme.call('GET', `/redsyn/v1/inbox/${reviewer}?peek=1`);
      return json.items.length === 1;
    });
    await acme.admin.call('POST', '/orgs/acme/links/globex/revoke');
    assert.deepEqual(await inbox(acme, reviewer), []);
    assert.equal((await publish(acme, event(reviewer, news))).status, 404);
    assert.equal((await subscribe(acme, second, news)).status, 404);
    await eventually('globex knows', async () => (await listening(globex)) === 0);
  });
});

describe('an event for a linked organisation’s topic, when the link ends before it leaves', async () => {
  const { acme, globex } = await linkedPair({ after });

  it('does not leave any more, and its publisher is told', async () => {
    await globex.stop();
    const sent = event(reviewer, 'topic:globex/erp/news');
    assert.equal((await publish(acme, sent)).status, 201);
    await acme.admin.call('POST', '/orgs/acme/links/globex/revoke');
    const { db, notifier } = acme.database;
    const item = await eventually('the notice', async () => {
      await db.query('delete from circuits');
      await db.query('update outbox set due_at = 0');
      await notifier.publish(['outbox']);
      return (await inbox(acme, reviewer))[0];
    });
    assert.deepEqual([item.reply_to, item.error], [sent.id, true]);
    assert.equal(item.body.text, 'not delivered: the link with that organisation has ended');
  });
});

describe('an event for a topic whose gateway never takes it', async () => {
  const { acme, globex } = await linkedPair({ after });
  const news = 'topic:globex/erp/news';

  it('its publisher is told, with an error reply', async () => {
    await expose(globex, 'acme', 'pub', 'erp/news');
    await globex.stop();
    const sent = event(reviewer, news, { ttl: 1 });
    assert.equal((await publish(acme, sent)).status, 201);
    const [item] = await inbox(acme, reviewer, acme.token, 10);
    assert.equal(item?.kind, 'reply');
    assert.equal(item?.error, true);
    assert.equal(item?.reply_to, sent.id);
    assert.equal(item?.from, news);
    assert.equal(item?.body.text, `not delivered: it expired before ${news} took it`);
  });
});
