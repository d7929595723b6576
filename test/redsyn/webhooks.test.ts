import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, describe, it } from 'node:test';
import { ManualClock } from '../../src/lib/clock.ts';
import { createFetch, createUrlCheck } from '../../src/lib/fetch.ts';
import { eventually, person, testGateway } from '../support/gateway.ts';
import { type Arrived, genuine, type Receiver, receiver } from '../support/receiver.ts';
import { smallZip } from '../support/zip.ts';

const clock = new ManualClock(Date.now());
const acme = await testGateway({ after }, { clock });
const [ana, eve] = [await person(acme, 'ana'), await person(acme, 'eve')];
const asker = 'acme/general/joel/asker';
await acme.admin.announce(asker);

let count = 0;
/** A new agent of ana's with a webhook at a new receiver. */
async function hooked(): Promise<{ agent: string; hook: Receiver; secret: string; call: typeof acme.call }> {
  const agent = `acme/general/ana/hook${++count}`;
  await ana.announce(agent, { allow: ['org'] });
  const hook = await receiver({ after });
  const set = await put(agent, hook.url);
  assert.equal(set.status, 201, set.text);
  return { agent, hook, secret: set.json.secret, call: acme.call };
}

const put = (agent: string, url: unknown, token = ana.token) =>
  acme.call('PUT', `/redsyn/v1/agents/${agent}/webhook`, { token, body: { url } });
const show = async (agent: string) =>
  (await acme.call('GET', `/redsyn/v1/agents/${agent}/webhook`, { token: ana.token })).json;
/** Unsigned: a signature's time would have to follow the clock. */
async function send(to: string, text: string, more: object = {}): Promise<{ id: string; to: string }> {
  return post(acme.token, { kind: 'request', from: asker, to, body: { type: 'text/plain', text }, ...more });
}
async function post(token: string, envelope: object): Promise<{ id: string; to: string }> {
  const answer = await acme.call('POST', '/redsyn/v1/messages', { token, body: { v: 1, ...envelope } });
  assert.equal(answer.status, 201, answer.text);
  return answer.json;
}
const waiting = async (agent: string): Promise<number> => {
  const { rows } = await acme.database.db.query<{ n: number }>(
    `select count(*)::int as n from deliveries d join agents a on a.id = d.agent_id where a.handle = $1`,
    [agent.split('/').at(-1)],
  );
  return rows[0]!.n;
};
const calls = (hook: Receiver, n: number) =>
  eventually(`${n} deliveries`, async () => hook.arrived.length >= n && hook.arrived);
const state = async (agent: string): Promise<{ attempts: number; lease: number } | undefined> => {
  const { rows } = await acme.database.db.query<{ attempts: number; lease: number }>(
    'select d.attempts, d.lease_until as lease from deliveries d join agents a on a.id = d.agent_id where a.handle = $1',
    [agent.split('/').at(-1)],
  );
  return rows[0];
};
/** Until nothing is being pushed: what a try came to is recorded. */
const rested = (agent: string, tries: number) =>
  eventually(`try ${tries} is recorded`, async () => {
    const { rows } = await acme.database.db.query<{ rests: boolean }>(
      `select d.attempts = $2 and (d.lease_until <> $3::bigint + 40000 or d.attempts = 10) as rests
         from deliveries d join agents a on a.id = d.agent_id where a.handle = $1 order by d.id limit 1`,
      [agent.split('/').at(-1), tries, clock.now()],
    );
    return rows[0]?.rests;
  });

describe('webhooks (REDSYN "Webhooks")', () => {
  it('the secret is told once, and only the owner of the agent sets or removes it', async () => {
    const { agent, hook, secret } = await hooked();
    assert.ok(secret.length >= 32);
    assert.equal(JSON.stringify(await show(agent)).includes(secret), false);
    const again = await put(agent, hook.url);
    assert.equal(again.status, 200);
    assert.notEqual(again.json.secret, secret, 'a new one each time');
    assert.equal((await put(agent, hook.url, eve.token)).status, 403);
    assert.equal((await put('acme/general/ana/nobody', hook.url)).status, 404);
    for (const [method, token] of [
      ['DELETE', eve.token],
      ['GET', acme.token],
    ] as const)
      assert.equal((await acme.call(method, `/redsyn/v1/agents/${agent}/webhook`, { token })).status, 403);
    const { rows } = await acme.database.db.query<{ secret: Buffer }>('select secret from webhooks');
    assert.ok(
      rows.every((row) => !row.secret.includes(again.json.secret)),
      'sealed at rest',
    );
    assert.equal((await acme.call('DELETE', `/redsyn/v1/agents/${agent}/webhook`, { token: ana.token })).status, 200);
    assert.equal((await acme.call('DELETE', `/redsyn/v1/agents/${agent}/webhook`, { token: ana.token })).status, 404);
  });

  it('each delivery is a POST of the envelope with the three headers, and a 2xx takes it', async () => {
    const { agent, hook, secret } = await hooked();
    hook.answer = () => 204;
    const sent = await acme.admin.send({ from: asker, to: agent, text: 'Is invoice 123 paid?' });
    const [one] = await calls(hook, 1);
    assert.equal(one!.headers['content-type'], 'application/json');
    assert.equal(one!.headers['redsyn-version'], '2026-09-25');
    assert.equal(one!.headers['redsyn-delivery'], sent.id);
    assert.ok(genuine(one!, secret, clock.now()));
    assert.ok(!genuine(one!, `${secret}x`, clock.now()));
    assert.ok(!genuine({ ...one!, body: Buffer.concat([one!.body, Buffer.from(' ')]) }, secret, clock.now()));
    const { json } = one!;
    assert.deepEqual(
      [json.v, json.id, json.kind, json.from, json.to, json.body.text, json.attempts, json.signed],
      [1, sent.id, 'request', asker, sent.to, 'Is invoice 123 paid?', 1, true],
    );
    assert.ok(json.sig.payload.includes(sent.id) && json.expires > 0 && json.thread);
    await eventually('it is confirmed', async () => (await waiting(agent)) === 0);
    const seen = await acme.call('GET', `/redsyn/v1/agents/${agent}`);
    assert.equal(seen.json.online, true, 'online while its webhook accepts deliveries');
    clock.advance(61_000);
    assert.equal((await acme.call('GET', `/redsyn/v1/agents/${agent}`)).json.online, false);

    // "Respondé después con POST /messages."
    const reply = await acme.call('POST', '/redsyn/v1/messages', {
      token: ana.token,
      body: {
        v: 1,
        kind: 'reply',
        from: agent,
        reply_to: json.id,
        thread: json.thread,
        body: { type: 'text/plain', text: 'Yes.' },
      },
    });
    assert.equal(reply.status, 201, reply.text);
    const [answer] = await acme.admin.take(asker, { replyTo: sent.id });
    assert.equal(answer?.body.text, 'Yes.');
    await acme.admin.ack(asker, [answer!.id]);
  });

  it('WEB-05: retried after 10, 20, 40 s … (±20 %), ten times, with a new time and HMAC, then the sender is told once', async () => {
    const { agent, hook, secret } = await hooked();
    const at: number[] = [];
    let claimed: number | undefined;
    hook.answer = async () => {
      claimed = (await state(agent))?.lease;
      at.push(clock.now());
      return 500;
    };
    const sent = await send(agent, 'anybody there?', { ttl: 86_400 });
    for (let n = 1; n <= 10; n++) {
      await calls(hook, n);
      await eventually('the try is over', async () => at.length === n && (await state(agent))?.lease !== claimed);
      if (n === 10) break;
      const centre = 10_000 * 2 ** (n - 1);
      clock.advance(centre * 0.79);
      await new Promise((resolve) => setTimeout(resolve, 30));
      assert.equal(hook.arrived.length, n, 'not before the time');
      // In steps that no try is too slow for.
      const step = Math.min(centre * 0.01, 10_000);
      for (let gone = 0; gone < centre * 0.45 && (await state(agent))?.attempts === n; gone += step) {
        clock.advance(step);
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    }
    const pauses = at.slice(1).map((time, i) => (time - at[i]!) / (10_000 * 2 ** i));
    assert.ok(
      pauses.every((pause) => pause >= 0.79 && pause <= 1.25),
      String(pauses),
    );
    assert.ok(new Set(pauses.map((pause) => pause.toFixed(2))).size > 1, 'with jitter');
    const signatures = hook.arrived.map((one) => String(one.headers['redsyn-signature']));
    assert.equal(new Set(signatures).size, 10);
    assert.ok(hook.arrived.every((one, i) => genuine(one, secret, at[i]!)));
    assert.deepEqual(
      hook.arrived.map((one) => [one.headers['redsyn-delivery'], one.json.attempts]),
      hook.arrived.map((_, i) => [sent.id, i + 1]),
    );
    const told = await eventually('the sender is told', async () => {
      const items = await acme.admin.take(asker, { replyTo: sent.id });
      return items.length > 0 && items;
    });
    assert.equal(told.length, 1);
    assert.equal(told[0]!.error, true);
    assert.equal(told[0]!.body.text, `not delivered: ${agent} took it 10 times and never confirmed it`);
    await acme.admin.ack(asker, [told[0]!.id]);
    clock.advance(3_600_000);
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(hook.arrived.length, 10);
    assert.equal((await acme.admin.take(asker, { replyTo: sent.id })).length, 0);
    assert.match((await show(agent)).last_error, /500/);
  });

  it('Retry-After is respected, up to an hour', async () => {
    const { agent, hook } = await hooked();
    hook.answer = (_, response) => {
      response.writeHead(503, { 'retry-after': '600' }).end();
      return undefined;
    };
    await send(agent, 'later');
    await calls(hook, 1);
    await rested(agent, 1);
    clock.advance(599_000);
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(hook.arrived.length, 1);
    hook.answer = () => 200;
    clock.advance(2_000);
    await calls(hook, 2);
    await eventually('it is confirmed', async () => (await waiting(agent)) === 0);
    assert.equal((await show(agent)).last_error, null, 'the owner sees that it works again');
  });

  it('a message that expires while it waits for a try ends as any other: the sender is told', async () => {
    const { agent, hook } = await hooked();
    hook.answer = () => 500;
    const sent = await send(agent, 'quick', { ttl: 3 });
    await calls(hook, 1);
    await rested(agent, 1);
    clock.advance(3_500);
    const told = await eventually('the sender is told', async () => {
      clock.advance(1_000);
      const items = await acme.admin.take(asker, { replyTo: sent.id });
      return items[0];
    });
    assert.equal(told.body.text, `not delivered: it expired before ${agent} took it`);
    await acme.admin.ack(asker, [told.id]);
  });

  it('WEB-02: a redirect is a failed try and is not followed', async () => {
    const inside = await receiver({ after });
    const { agent, hook } = await hooked();
    let status = 301;
    hook.answer = (_, response) => {
      response.writeHead(status, { location: inside.url }).end();
      return undefined;
    };
    await send(agent, 'over there');
    let tries = 0;
    for (status of [302, 307, 308]) {
      tries++;
      await calls(hook, tries);
      await rested(agent, tries);
      clock.advance(60_000);
    }
    assert.equal(inside.arrived.length, 0);
    assert.match((await show(agent)).last_error, /redirects are not followed/);
    hook.answer = () => 200;
    await eventually('it is taken in the end', async () => {
      clock.advance(10_000);
      return (await waiting(agent)) === 0;
    });
  });

  it('a receiver that never answers is given up after 15 s, and holds nobody else up', async () => {
    const [slow, quick] = [await hooked(), await hooked()];
    slow.hook.answer = () => undefined;
    await send(slow.agent, 'zzz');
    await calls(slow.hook, 1);
    await send(quick.agent, 'hello');
    await calls(quick.hook, 1);
    await eventually('the quick one is done', async () => (await waiting(quick.agent)) === 0);
    clock.advance(15_000);
    await rested(slow.agent, 1);
    assert.match((await show(slow.agent)).last_error, /in time/);
    slow.hook.answer = () => 200;
    clock.advance(12_500);
    await calls(slow.hook, 2);
    await eventually('it is taken', async () => (await waiting(slow.agent)) === 0);
  });

  it('down, then up again: nothing is lost', async () => {
    const { agent, hook } = await hooked();
    await hook.down();
    for (let i = 0; i < 5; i++) await send(agent, `message ${i}`, { thread: `down-${i}` });
    await eventually('all were tried', async () => {
      const { rows } = await acme.database.db.query<{ n: number }>(
        `select count(*)::int as n from deliveries d join agents a on a.id = d.agent_id
          where a.handle = $1 and d.attempts = 1 and d.lease_until < $2::bigint + 39000`,
        [agent.split('/').at(-1), clock.now()],
      );
      return rows[0]!.n === 5;
    });
    await hook.up();
    clock.advance(12_500);
    const arrived = await calls(hook, 5);
    assert.deepEqual(
      arrived.map((one) => one.json.body.text).sort(),
      [0, 1, 2, 3, 4].map((i) => `message ${i}`),
    );
    await eventually('all are confirmed', async () => (await waiting(agent)) === 0);
  });

  it('order is kept per session: what stands behind a failed one waits, other sessions go on', async () => {
    const { agent, hook } = await hooked();
    hook.answer = (one) => (one.json.body.text === 'first' && hook.arrived.length === 1 ? 500 : 200);
    const first = await send(agent, 'first', { thread: 'ordered' });
    await calls(hook, 1);
    await rested(agent, 1);
    await send(agent, 'second', { thread: 'ordered' });
    await send(agent, 'elsewhere', { thread: 'another' });
    await calls(hook, 2);
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.deepEqual(texts(hook), ['first', 'elsewhere']);
    clock.advance(12_500);
    await calls(hook, 4);
    assert.deepEqual(texts(hook), ['first', 'elsewhere', 'first', 'second']);
    assert.equal(hook.arrived[2]!.json.id, first.id);
  });

  it('at most eight are under way to one host at once', async () => {
    const { agent, hook } = await hooked();
    const open: Array<() => void> = [];
    let most = 0;
    hook.answer = (_, response) => {
      open.push(() => response.writeHead(200).end());
      most = Math.max(most, open.length);
      return undefined;
    };
    for (let i = 0; i < 20; i++) await send(agent, `${i}`, { thread: `many-${i}` });
    await calls(hook, 8);
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.equal(hook.arrived.length, 8);
    await eventually('all are through', async () => {
      for (const end of open.splice(0)) end();
      return hook.arrived.length === 20 && (await waiting(agent)) === 0;
    });
    assert.equal(most, 8);
  });

  it('what already waits is pushed when a webhook is set, and goes back to the inbox when it is removed', async () => {
    const agent = `acme/general/ana/moves`;
    await ana.announce(agent, { allow: ['org'] });
    const hook = await receiver({ after });
    const before = await send(agent, 'before');
    assert.equal((await put(agent, hook.url)).status, 201);
    const [one] = await calls(hook, 1);
    assert.equal(one!.json.id, before.id);
    await eventually('it is confirmed', async () => (await waiting(agent)) === 0);

    hook.answer = () => 500;
    const stuck = await send(agent, 'stuck');
    await calls(hook, 2);
    await rested(agent, 1);
    assert.equal((await ana.take(agent)).length, 0, 'while it waits for its next try');
    assert.equal((await acme.call('DELETE', `/redsyn/v1/agents/${agent}/webhook`, { token: ana.token })).status, 200);
    const [item] = await ana.take(agent);
    assert.equal(item?.id, stuck.id);
    assert.equal(item?.attempts, 1, 'with as many takes left as any other');
    await ana.ack(agent, [stuck.id]);
    await send(agent, 'after');
    clock.advance(3_600_000);
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(hook.arrived.length, 2);
  });

  it('another URL gets what the earlier one did not take', async () => {
    const { agent, hook } = await hooked();
    hook.answer = () => 500;
    const sent = await send(agent, 'moving house');
    await calls(hook, 1);
    await rested(agent, 1);
    const other = await receiver({ after });
    await put(agent, other.url);
    const [one] = await calls(other, 1);
    assert.equal(one!.json.id, sent.id);
  });

  it('files can be fetched before the 2xx, and are gone after it', async () => {
    const { agent, hook } = await hooked();
    const zip = smallZip('for the webhook');
    let fetched: Buffer | undefined;
    hook.answer = async (one) => {
      const answer = await acme.call('GET', `/redsyn/v1/messages/${one.json.id}/files`, { token: ana.token });
      fetched = Buffer.from(answer.json.zip, 'base64');
      return 200;
    };
    const sent = await send(agent, 'see the zip', { files: { zip: zip.toString('base64') } });
    const [one] = await calls(hook, 1);
    assert.equal(one!.json.files.bytes, zip.length);
    await eventually('it is confirmed', async () => (await waiting(agent)) === 0);
    assert.deepEqual(fetched, zip);
    const gone = await acme.call('GET', `/redsyn/v1/messages/${sent.id}/files`, { token: ana.token });
    assert.equal(gone.status, 410);
  });

  it('progress and reply are pushed to an asker with a webhook, in their order', async () => {
    const { agent, hook } = await hooked();
    const worker = 'acme/general/joel/worker';
    await acme.admin.announce(worker, { allow: ['org'] });
    hook.answer = (one) => (one.json.kind === 'progress' && hook.arrived.length === 1 ? 503 : 200);
    await post(ana.token, { id: 'asks', kind: 'request', from: agent, to: worker, body: text('?') });
    const [request] = await acme.admin.take(worker, { wait: 5 });
    const { id: reply_to, thread } = request!;
    await post(acme.token, { kind: 'progress', from: worker, reply_to, thread, body: text('looking') });
    await calls(hook, 1);
    await rested(agent, 1);
    await post(acme.token, { kind: 'reply', from: worker, reply_to, thread, body: text('done') });
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(hook.arrived.length, 1);
    clock.advance(12_500);
    await calls(hook, 3);
    assert.deepEqual(
      hook.arrived.map((one) => one.json.kind),
      ['progress', 'progress', 'reply'],
    );
  });

  it('nothing is sealed for a webhook: GET …/key is 404, and an agent that takes only sealed requests has none', async () => {
    const { agent, hook } = await hooked();
    await ana.announce(agent, { allow: ['org'] });
    assert.equal((await acme.call('GET', `/redsyn/v1/agents/${agent}/key`)).status, 404);
    const sealed = 'acme/general/ana/sealed';
    await ana.announce(sealed, { allow: ['org'], encrypted_only: true });
    assert.equal((await put(sealed, hook.url)).status, 409);
  });

  it('a try whose gateway died is made again when its lease ends, by any replica: at least once', async () => {
    const { agent, hook } = await hooked();
    hook.answer = () => 500;
    const sent = await send(agent, 'survives');
    await calls(hook, 1);
    await rested(agent, 1);
    hook.answer = () => 200;
    // What a process leaves that was killed in the middle of the second try.
    await acme.database.db.query('update deliveries set attempts = 2, lease_until = $1 where message_id = $2', [
      clock.now() + 40_000,
      sent.id,
    ]);
    clock.advance(39_000);
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(hook.arrived.length, 1);
    clock.advance(1_000);
    const [, again] = await calls(hook, 2);
    assert.deepEqual([again!.json.id, again!.json.attempts], [sent.id, 3]);
    await eventually('it is confirmed', async () => (await waiting(agent)) === 0);
  });

  it('a 2xx counts whatever stands behind it', async () => {
    const { agent, hook } = await hooked();
    hook.answer = (_, response) => {
      response.writeHead(200, { 'content-type': 'text/html' }).end('x'.repeat(2 * 1024 * 1024));
      return undefined;
    };
    await send(agent, 'talkative');
    await calls(hook, 1);
    await eventually('it is confirmed', async () => (await waiting(agent)) === 0);
    assert.equal((await show(agent)).last_error, null);
  });

  it('an id in any letters goes into the header as in a URL', async () => {
    const { agent, hook } = await hooked();
    await send(agent, 'x', { id: 'año-✓' });
    const [one] = await calls(hook, 1);
    assert.equal(one!.json.id, 'año-✓');
    assert.equal(decodeURIComponent(String(one!.headers['redsyn-delivery'])), 'año-✓');
  });
});

describe('where a webhook may lead (WEB-04)', () => {
  const anywhere = 'acme/general/ana/anywhere';

  it('only to a public host over https; loopback because this gateway is on loopback itself', async () => {
    await ana.announce(anywhere);
    const wrong = [
      'http://example.com/hook',
      'https://10.0.0.1/hook',
      'http://10.0.0.1/hook',
      'https://169.254.169.254/latest',
      'https://[fd00::1]/hook',
      'https://intranet/hook',
      'https://printer.local/hook',
      'https://db.internal/hook',
      'https://user:secret@example.com/hook',
      'https://example.com/hook#there',
      'https://example.com/\r\nX-Admin: 1',
      'https://exämple.com/hook',
      'ftp://example.com/hook',
      'javascript:alert(1)',
      '/hook',
      '',
      `https://example.com/${'x'.repeat(2_000)}`,
      7,
      null,
    ];
    for (const url of wrong) {
      const answer = await put(anywhere, url);
      assert.deepEqual([answer.status, answer.json.field], [422, 'url'], String(url));
    }
    assert.equal((await put(anywhere, 'https://example.com/\u0000')).status, 422);
    for (const url of ['http://localhost:9/hook', 'http://127.0.0.1:9/hook', 'https://hooks.example.com/in?a=b'])
      assert.ok([200, 201].includes((await put(anywhere, url)).status), url);
  });

  it('the name is looked up at registration: one that leads inside is refused, one that cannot be looked up now is not', async () => {
    const answers: Record<string, string[]> = {
      'public.example.com': ['93.184.216.34'],
      'inside.example.com': ['93.184.216.34', '10.0.0.1'],
      'metadata.example.com': ['169.254.169.254'],
    };
    const check = createUrlCheck({
      allowLoopback: false,
      resolve: async (host) => answers[host] ?? Promise.reject(new Error('ENOTFOUND')),
    });
    assert.equal(await check('https://public.example.com/x'), undefined);
    assert.equal(await check('https://unknown.example.com/x'), undefined);
    for (const host of ['inside.example.com', 'metadata.example.com'])
      assert.equal((await check(`https://${host}/x`))?.reason, 'address');
    for (const url of ['https://localhost/x', 'https://127.0.0.1/x', 'http://public.example.com/x'])
      assert.ok(await check(url), url);
    const never = createUrlCheck({ allowLoopback: false, resolve: () => new Promise(() => {}), timeoutMs: 10 });
    assert.equal(await never('https://slow.example.com/x'), undefined);
  });

  it('a name that turns private after registration: the try fails with a reason that the owner sees, and nothing is reached', async () => {
    const inside = await receiver({ after });
    const { port } = new URL(inside.url);
    const guarded = createFetch({ allowLoopback: false, resolve: async () => ['127.0.0.1'] });
    const open = await testGateway(
      { after },
      {
        org: 'open',
        fetch: guarded,
        env: {
          GATEHOUSE_URL: 'https://open.test',
          HOST: '127.0.0.1',
          GATEHOUSE_SECRET: randomBytes(32).toString('base64url'),
        },
      },
    );
    const agent = 'open/general/joel/rebound';
    await open.admin.announce(agent);
    assert.equal(
      (await open.call('PUT', `/redsyn/v1/agents/${agent}/webhook`, { body: { url: inside.url } })).status,
      422,
    );
    const url = `https://rebind.example.com:${port}/hook`;
    const set = await open.call('PUT', `/redsyn/v1/agents/${agent}/webhook`, { body: { url } });
    assert.equal(set.status, 201, set.text);
    await open.admin.send({ from: agent, to: agent, text: 'anybody inside?' });
    const seen = await eventually('the owner sees why', async () => {
      const { json } = await open.call('GET', `/redsyn/v1/agents/${agent}/webhook`);
      return json.last_error && json;
    });
    assert.match(seen.last_error, /not on the public Internet/);
    assert.equal(inside.arrived.length, 0);
  });
});

describe('webhooks across replicas', () => {
  it('what one replica accepts another may push, each message once; a stopped one leaves nothing behind', async () => {
    const gateway = await testGateway({ after }, { org: 'twin' });
    const other = await gateway.replica();
    const agent = 'twin/general/joel/hook';
    await gateway.admin.announce(agent);
    const hook = await receiver({ after });
    await gateway.admin.call('PUT', `/agents/${agent}/webhook`, { url: hook.url });
    const ids: string[] = [];
    for (let i = 0; i < 30; i++) {
      const sent = await gateway.admin.send({ from: agent, to: agent, text: `${i}`, thread: `t${i}` });
      ids.push(sent.id);
    }
    await eventually('all came', async () => hook.arrived.length >= 30);
    assert.deepEqual(hook.arrived.map((one) => one.json.id).sort(), [...ids].sort());

    // One hangs while its gateway stops: the other delivers it.
    let hung = false;
    hook.answer = () => {
      if (hung) return 200;
      hung = true;
      return undefined;
    };
    await other.stop();
    const sent = await gateway.admin.send({ from: agent, to: agent, text: 'hangs', thread: 'last' });
    await eventually('it is under way', async () => hung);
    const heir = await gateway.replica();
    await gateway.stop();
    const again = await eventually(
      'it came again',
      async () => hook.arrived.filter((one) => one.json.id === sent.id)[1],
    );
    assert.equal(again.json.attempts, 1, 'the try that was cut off does not count');
    await heir.stop();
  });
});

function text(words: string): { type: string; text: string } {
  return { type: 'text/plain', text: words };
}

function texts(hook: Receiver): string[] {
  return hook.arrived.map((one: Arrived) => one.json.body.text);
}
