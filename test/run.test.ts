import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { Client } from '../src/client/index.ts';
import { ConfigError, loadConfig } from '../src/config.ts';
import { startGateway } from '../src/gateway.ts';
import { createLog } from '../src/lib/log.ts';
import { freshDatabase } from './support/database.ts';
import { eventually, freePort, type TestGateway, testGateway } from './support/gateway.ts';

const desk = 'acme/general/joel/desk';
const inbox = `/redsyn/v1/inbox/${desk}`;
const quiet = createLog({ level: 'fatal' });

async function withDesk(gateway: TestGateway): Promise<TestGateway> {
  await gateway.admin.announce(desk);
  return gateway;
}

/** Resolves when the gateway holds that many polls. */
async function held(base: string, polls: number): Promise<void> {
  await eventually(`${polls} held polls`, async () => {
    const text = await (await fetch(`${base}/metrics`)).text();
    return new RegExp(`^gatehouse_held_polls ${polls}$`, 'm').test(text);
  });
}

describe('a stop', () => {
  it('answers held polls with an empty list, takes nothing new, and ends; a second stop waits for the first', async () => {
    const acme = await withDesk(await testGateway({ after }));
    const polls = [1, 2, 3].map(() => acme.call('GET', `${inbox}?wait=25`));
    await held(acme.url, 3);
    const began = Date.now();
    const stops = [acme.stop(), acme.stop()];
    for (const { status, json } of await Promise.all(polls)) {
      assert.equal(status, 200);
      assert.deepEqual(json, { items: [] });
    }
    await Promise.all(stops);
    assert.ok(Date.now() - began < 10_000);
    await acme.stop();
    await assert.rejects(fetch(`${acme.url}/healthz`));
  });

  it('lets what is in flight end: each message that was answered is kept, each that was not may be sent again', async () => {
    const acme = await withDesk(await testGateway({ after }));
    const send = (id: string): Promise<number> =>
      acme
        .call('POST', '/redsyn/v1/messages', {
          body: { v: 1, id, kind: 'request', from: desk, to: desk, body: { type: 'text/plain', text: id } },
        })
        .then(
          ({ status }) => status,
          () => 0,
        );
    const sent = Array.from({ length: 200 }, (_, i) => send(`m${i}`));
    await Promise.race(sent);
    await acme.stop();
    const statuses = await Promise.all(sent);
    const { rows } = await acme.database.db.query<{ id: string }>('select id from messages');
    const kept = new Set(rows.map(({ id }) => id));
    for (const [i, status] of statuses.entries()) {
      assert.ok([201, 0].includes(status), String(status));
      if (status === 201) assert.ok(kept.has(`m${i}`));
    }
  });
});

const acme = await withDesk(await testGateway({ after }));
const { base } = await acme.replica();

describe('two replicas on one database (REL-08)', () => {
  it('a poll on the one wakes for a message that came by the other', async () => {
    const poll = acme.call('GET', `${inbox}?wait=25`);
    await held(acme.url, 1);
    const began = Date.now();
    const client = new Client({ url: base, token: acme.token });
    const sent = await client.send({ from: desk, to: desk, text: 'from the other' });
    const { json } = await poll;
    assert.deepEqual(
      json.items.map((item: { id: string }) => item.id),
      [sent.id],
    );
    assert.ok(Date.now() - began < 5_000);
    // Taken by the one, confirmed at the other: the lease is the node's, not the process's.
    await client.ack(desk, [sent.id]);
    assert.deepEqual((await acme.call('GET', `${inbox}?peek=1`)).json.items, []);
  });

  it('a token that is revoked at the one is refused by the other at once', async () => {
    const { id, token } = await acme.admin.call<{ id: string; token: string }>('POST', '/nodes', { name: 'lost' });
    const me = (): Promise<number> =>
      fetch(`${base}/redsyn/v1/me`, { headers: { authorization: `Bearer ${token}` } }).then(({ status }) => status);
    assert.equal(await me(), 200);
    await acme.admin.call('DELETE', `/nodes/${id}`);
    assert.equal(await me(), 401);
  });

  it('a poll that is held for a node which is revoked meanwhile gets nothing any more', async () => {
    const { id, token } = await acme.admin.call<{ id: string; token: string }>('POST', '/nodes', { name: 'stolen' });
    const poll = acme.call('GET', `${inbox}?wait=5`, { token });
    await held(acme.url, 1);
    await acme.admin.call('DELETE', `/nodes/${id}`);
    const sent = await acme.admin.send({ from: desk, to: desk, text: 'for whoever may still take' });
    const { status, json } = await poll;
    assert.ok(status === 401 || json.items.length === 0, JSON.stringify(json));
    const [item] = await acme.admin.take(desk);
    assert.equal(item?.id, sent.id);
    assert.equal(item?.attempts, 1);
    await acme.admin.ack(desk, [sent.id]);
  });

  it('each says that it is ready', async () => {
    for (const at of [acme.url, base]) assert.equal((await fetch(`${at}/readyz`)).status, 200);
  });
});

describe('a start that cannot be', () => {
  for (const [variable, value] of [
    ['PORT', 'eighty'],
    ['GATEHOUSE_URL', 'ftp://acme.test'],
    ['GATEHOUSE_ORG', 'Not A Name'],
    ['DATABASE_URL', 'mysql://localhost/x'],
    ['GATEHOUSE_PLAN', 'gold'],
    ['GATEHOUSE_RATE_IP', '-1'],
    ['GATEHOUSE_TRUST_PROXY', 'everybody'],
    ['GATEHOUSE_SECRET', 'short'],
  ] as const) {
    it(`${variable} is named, with the way out, and a secret is not repeated`, () => {
      assert.throws(
        () => loadConfig({ [variable]: value }),
        (error: ConfigError) => {
          assert.ok(error instanceof ConfigError, String(error));
          assert.equal(error.variable, variable);
          assert.match(error.message, new RegExp(`^${variable}: `));
          if (variable === 'GATEHOUSE_SECRET') assert.doesNotMatch(error.message, /short/);
          return true;
        },
      );
    });
  }

  it('a database with a newer schema is left alone', async () => {
    const { settings, database } = await place();
    await (await startGateway(loadConfig(settings), { log: quiet })).stop();
    await database.db.query(`insert into gatehouse_migrations values (9999, '9999_future.sql', 'x', 0)`);
    await assert.rejects(startGateway(loadConfig(settings), { log: quiet }), /newer/i);
  });

  it('a port that is taken: the error says so, and nothing is left behind', async () => {
    const { settings } = await place();
    const first = await startGateway(loadConfig(settings), { log: quiet });
    await assert.rejects(startGateway(loadConfig(settings), { log: quiet }), { code: 'EADDRINUSE' });
    // The first still serves; the second has let go of the database (checked when that is dropped).
    assert.equal((await fetch(`${first.url}/readyz`)).status, 200);
    await first.stop();
  });

  it('a database that does not answer is named', async () => {
    const { settings } = await place();
    const url = new URL(settings.DATABASE_URL!);
    url.port = String(await freePort());
    await assert.rejects(startGateway(loadConfig({ ...settings, DATABASE_URL: url.href }), { log: quiet }));
  });
});

async function place(): Promise<{
  settings: Record<string, string>;
  database: Awaited<ReturnType<typeof freshDatabase>>;
}> {
  const database = await freshDatabase({ after }, { empty: true });
  const data = await mkdtemp(join(tmpdir(), 'gatehouse-run-'));
  after(() => rm(data, { recursive: true, force: true }));
  const port = await freePort();
  const settings = {
    PORT: String(port),
    GATEHOUSE_URL: `http://localhost:${port}`,
    GATEHOUSE_DATA: data,
    DATABASE_URL: database.url,
  };
  return { settings, database };
}
