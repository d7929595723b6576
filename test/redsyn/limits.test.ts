import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { ManualClock } from '../../src/lib/clock.ts';
import { type Called, eventually, person, testGateway } from '../support/gateway.ts';
import { receiver } from '../support/receiver.ts';
import { smallZip, zipOfSize } from '../support/zip.ts';

const MB = 1024 * 1024;
const clock = new ManualClock(Date.UTC(2026, 8, 21, 12));
const free = await testGateway({ after }, { clock, env: { GATEHOUSE_PLAN: 'free', GATEHOUSE_RATE_IP: '40' } });
const second = await free.replica();
const { db } = free.database;
const asker = 'acme/general/joel/asker';
const desk = 'acme/general/joel/desk';
for (const agent of [asker, desk]) await free.admin.announce(agent);

let count = 0;
const send = (more: Record<string, unknown> = {}, token = free.token): Promise<Called> =>
  free.call('POST', '/redsyn/v1/messages', { token, body: envelope(more) });
const envelope = (more: Record<string, unknown> = {}) => ({
  v: 1,
  id: `m${++count}`,
  kind: 'request',
  from: asker,
  to: desk,
  body: { type: 'text/plain', text: 'x' },
  ...more,
});
const onSecond = async (more: Record<string, unknown> = {}): Promise<number> => {
  const response = await fetch(`${second.base}/redsyn/v1/messages`, {
    method: 'POST',
    headers: { authorization: `Bearer ${free.token}`, 'content-type': 'application/json' },
    body: JSON.stringify(envelope(more)),
  });
  await response.text();
  return response.status;
};
const usage = async () => (await free.call('GET', '/redsyn/v1/orgs/acme/usage')).json;
const setUsed = (used: number) =>
  db.tx(async (tx) => {
    const day = Math.floor(clock.now() / 86_400_000);
    await tx.query('delete from quota_days where day = $1', [day]);
    await tx.query(`insert into quota_days select id, $1, 0, $2 from orgs where handle = 'acme'`, [day, used]);
  });

function isQuota(answer: Called, status: number): void {
  assert.equal(answer.status, status, answer.text);
  assert.equal(answer.json.quota, true);
  assert.equal(answer.json.status, status);
  assert.equal(answer.json.retryable, false);
  assert.equal(answer.headers.get('retry-after'), null, 'a quota does not invite to try again');
}

describe('limits (REDSYN "Límites"), on the free plan', () => {
  it('1,000 messages a day: 429 with quota until 00:00 UTC, and a repeat of what was taken is answered all the same', async () => {
    await setUsed(998);
    const last = await send();
    assert.equal(last.status, 201);
    assert.equal((await send()).status, 201);
    isQuota(await send(), 429);
    isQuota(await send({ kind: 'event', to: 'topic:acme/general/news' }), 429);
    const again = await send({ id: last.json.id });
    assert.deepEqual([again.status, again.json.duplicate], [201, true]);
    assert.deepEqual((await usage()).messages_per_day, { used: 1000, limit: 1000 });
    // A refused message does not burn its id.
    const refused = await send({ id: 'tomorrow' });
    isQuota(refused, 429);
    clock.advance(12 * 3_600_000 - 1);
    isQuota(await send({ id: 'tomorrow' }), 429);
    clock.advance(1);
    const sent = await send({ id: 'tomorrow' });
    assert.deepEqual([sent.status, sent.json.duplicate], [201, undefined]);
    assert.deepEqual((await usage()).messages_per_day, { used: 1, limit: 1000 });
  });

  it('who sends at once on two replicas close to the limit meets it exactly', async () => {
    await setUsed(985);
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, i) => (i % 2 ? onSecond() : send().then(({ status }) => status))),
    );
    assert.equal(answers.filter((status) => status === 201).length, 15);
    assert.equal(answers.filter((status) => status === 429).length, 45);
    assert.equal((await usage()).messages_per_day.used, 1000);
    const { rows } = await db.query<{ n: number }>('select count(distinct shard)::int as n from quota_days');
    assert.ok(rows[0]!.n > 1, 'counted in several rows');
    clock.advance(86_400_000);
  });

  it('nothing waits longer than a day', async () => {
    for (const [ttl, expected] of [
      [undefined, 86_400],
      [60, 60],
      [30 * 86_400, 86_400],
      [Number.MAX_SAFE_INTEGER, 86_400],
    ] as const) {
      const sent = await send(ttl === undefined ? {} : { ttl });
      assert.equal(sent.status, 201, sent.text);
      const item = (await free.call('GET', `/redsyn/v1/inbox/${desk}?peek=1&max=100`)).json.items.find(
        (each: { id: string }) => each.id === sent.json.id,
      );
      assert.equal(item.expires - Math.floor(clock.now() / 1000), expected);
    }
  });

  it('50 MB of files wait for delivery; 403 with quota beyond it; what is delivered or over no longer counts', async () => {
    const zip = zipOfSize(1000);
    const files = { zip: zip.toString('base64') };
    const first = await send({ files });
    assert.equal(first.status, 201, first.text);
    assert.deepEqual((await usage()).file_bytes, { used: 1000, limit: 50 * MB });
    // As if it were large: room for three more of its true size.
    await db.query('update message_files set bytes = $1 where id = $2', [50 * MB - 3_500, first.json.id]);
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) =>
        i % 2 ? onSecond({ files }) : send({ files }).then(({ status }) => status),
      ),
    );
    assert.deepEqual(answers.sort(), [201, 201, 201, 403, 403, 403, 403, 403, 403, 403]);
    const full = await send({ id: 'no-room', files });
    isQuota(full, 403);
    assert.match(full.json.error, /50 MB/);
    assert.equal((await send({ id: first.json.id, files })).json.duplicate, true, 'a repeat takes no space');
    assert.equal((await send()).status, 201, 'messages without files go on');

    const [item] = (await free.call('GET', `/redsyn/v1/inbox/${desk}?max=100&lease=60`)).json.items.filter(
      (each: { id: string }) => each.id === first.json.id,
    );
    await free.call('POST', `/redsyn/v1/inbox/${desk}/ack`, { body: { ids: [item.id] } });
    assert.equal((await usage()).file_bytes.used, 3_000);
    assert.equal((await send({ id: 'no-room', files })).status, 201, 'a refused message does not burn its id');
    clock.advance(86_400_000 + 6_000);
    await eventually('what expired takes no space', async () => {
      clock.advance(4_000);
      return (await usage()).file_bytes.used === 0;
    });
    const { rows } = await db.query<{ n: number }>(
      'select count(*)::int as n from message_files where zip is not null',
    );
    assert.equal(rows[0]!.n, 0, 'and is purged');
  });

  it('who sends files at once on two replicas close to the limit meets it exactly', async () => {
    // On a plan whose day is far from used up: nothing else makes the senders take turns.
    await free.call('PUT', '/redsyn/v1/orgs/acme/plan', { body: { plan: 'pro' } });
    const files = { zip: zipOfSize(1000).toString('base64') };
    const first = await send({ files });
    // Each in a session of its own that is open already: nor does the addressee.
    const threads = Array.from({ length: 12 }, (_, i) => `lane-${i}`);
    for (const thread of threads) await send({ thread });
    for (let round = 0; round < 5; round++) {
      await db.query(`update message_files set zip = null where id <> $1`, [first.json.id]);
      await db.query('update message_files set bytes = $1 where id = $2', [2 * 1024 * MB - 3_500, first.json.id]);
      const answers = await Promise.all(
        threads.map((thread, i) =>
          i % 2 ? onSecond({ files, thread }) : send({ files, thread }).then(({ status }) => status),
        ),
      );
      assert.equal(answers.filter((status) => status === 201).length, 3, answers.join(' '));
    }
    await db.query('delete from deliveries');
    await db.query('update message_files set zip = null');
    await free.call('PUT', '/redsyn/v1/orgs/acme/plan', { body: { plan: 'free' } });
  });

  it('REL-08: fifty messages that died count for nothing but their day', async () => {
    const files = { zip: smallZip().toString('base64') };
    for (let i = 0; i < 50; i++) assert.equal((await send({ ttl: 1, files })).status, 201);
    clock.advance(2_000);
    await eventually('they are gone', async () => {
      clock.advance(4_000);
      return (await usage()).file_bytes.used === 0;
    });
    const { rows } = await db.query<{ n: number }>(`select count(*)::int as n from deliveries d join agents a
      on a.id = d.agent_id where a.handle = 'desk'`);
    assert.equal(rows[0]!.n, 0);
  });

  it('five agents, one webhook, one link: 403 with quota', async () => {
    for (const n of [3, 4, 5]) {
      assert.equal((await announce(`acme/general/joel/agent${n}`)).status, 201);
    }
    isQuota(await announce('acme/general/joel/agent6'), 403);
    assert.equal((await announce(desk)).status, 200, 'what is there already stays');

    const hook = await receiver({ after });
    const put = (agent: string) => free.call('PUT', `/redsyn/v1/agents/${agent}/webhook`, { body: { url: hook.url } });
    assert.equal((await put('acme/general/joel/agent3')).status, 201);
    isQuota(await put('acme/general/joel/agent4'), 403);
    assert.equal((await put('acme/general/joel/agent3')).status, 200, 'replacing it needs no more of them');
    await free.call('DELETE', '/redsyn/v1/agents/acme/general/joel/agent3/webhook');
    assert.equal((await put('acme/general/joel/agent4')).status, 201);

    const link = (other: string) => passing(free.call('POST', '/redsyn/v1/orgs/acme/links', { body: { other } }));
    assert.ok((await link('localhost:9')).status < 300);
    isQuota(await link('localhost:19'), 403);

    const { plan, agents, webhooks, links, max_ttl } = await usage();
    assert.deepEqual(
      { plan, agents, webhooks, links, max_ttl },
      {
        plan: 'free',
        agents: { used: 5, limit: 5 },
        webhooks: { used: 1, limit: 1 },
        links: { used: 1, limit: 1 },
        max_ttl: { limit: 86_400 },
      },
    );
  });

  it('a plain 429 has Retry-After and no quota', async () => {
    let flooded: Called | undefined;
    for (let i = 0; i < 60 && flooded?.status !== 429; i++) {
      flooded = await free.call('GET', '/redsyn/v1/me', { token: null });
    }
    assert.equal(flooded?.status, 429);
    assert.ok(Number(flooded.headers.get('retry-after')) >= 1);
    assert.equal(flooded.json.quota, undefined);
    assert.equal(flooded.json.retryable, true);
    assert.equal((await free.call('GET', '/redsyn/v1/me')).status, 200, 'a good token is no stranger');
    clock.advance(60_000);
  });

  it('the plan is that of the person who made the org, and the operator gives her another', async () => {
    const ana = await person(free, 'ana');
    const made = await free.call('POST', '/redsyn/v1/orgs', { token: ana.token, body: { handle: 'annex', me: 'ana' } });
    assert.equal(made.status, 201);
    const planOf = async (org: string, token: string) =>
      (await free.call('GET', `/redsyn/v1/orgs/${org}/usage`, { token })).json.plan;
    assert.equal(await planOf('annex', ana.token), 'free');
    const change = (token: string, plan: string) =>
      free.call('PUT', '/redsyn/v1/orgs/annex/plan', { token, body: { plan } });
    assert.equal((await change(ana.token, 'pro')).status, 403);
    assert.equal((await change(free.token, 'gold')).status, 422);
    assert.deepEqual((await change(free.token, 'pro')).json, { plan: 'pro', orgs: ['annex'] });
    assert.equal(await planOf('annex', ana.token), 'pro');
    assert.equal(await planOf('acme', free.token), 'free');
    await free.call('POST', '/redsyn/v1/orgs', { token: ana.token, body: { handle: 'annex2', me: 'ana' } });
    assert.equal(await planOf('annex2', ana.token), 'pro', 'whatever she makes is on her plan');
    assert.equal((await free.call('GET', '/redsyn/v1/orgs/annex/usage')).status, 404, 'for its members');
  });
});

/** Lets time pass while something waits for it: the other side of a link is not there. */
async function passing<T>(work: Promise<T>): Promise<T> {
  let done = false;
  const end = (): void => {
    done = true;
  };
  work.then(end, end);
  while (!done) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    if (!done) clock.advance(250);
  }
  return work;
}

function announce(agent: string): Promise<Called> {
  return free.call('PUT', `/redsyn/v1/agents/${agent}`, { body: { listening: true } });
}
