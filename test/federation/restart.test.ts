import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { Client, nodeKeys } from '../../src/client/index.ts';
import { loadConfig } from '../../src/config.ts';
import { type Gateway, startGateway } from '../../src/gateway.ts';
import { createLog } from '../../src/lib/log.ts';
import { type FreshDatabase, freshDatabase } from '../support/database.ts';
import { eventually, freePort } from '../support/gateway.ts';

/** A company whose gateway can be stopped and started again, as after a deploy: one database, one data folder, one address. */
class Company {
  readonly #settings: Record<string, string>;
  readonly #database: FreshDatabase;
  readonly org: string;
  readonly url: string;
  readonly authority: string;
  client!: Client;
  #gateway: Gateway | undefined;

  private constructor(org: string, settings: Record<string, string>, database: FreshDatabase, port: number) {
    this.org = org;
    this.#settings = settings;
    this.#database = database;
    this.authority = `localhost:${port}`;
    this.url = `http://${this.authority}`;
  }

  static async make(org: string, admin: string): Promise<Company> {
    const ends: Array<() => Promise<unknown>> = [];
    const database = await freshDatabase({ after: (fn) => void ends.push(fn) });
    const data = await mkdtemp(join(tmpdir(), 'gatehouse-restart-'));
    const port = await freePort();
    const company = new Company(
      org,
      {
        PORT: String(port),
        GATEHOUSE_URL: `http://localhost:${port}`,
        GATEHOUSE_DATA: data,
        GATEHOUSE_ORG: org,
        GATEHOUSE_ADMIN: admin,
        DATABASE_URL: database.url,
      },
      database,
      port,
    );
    after(async () => {
      await company.stop();
      for (const end of ends) await end();
      await rm(data, { recursive: true, force: true });
    });
    await company.start();
    const token = company.#gateway!.admin.newToken!;
    company.client = new Client({ url: company.url, token, keys: nodeKeys(), seal: false });
    await company.client.registerKeys();
    return company;
  }

  async start(): Promise<void> {
    this.#gateway = await startGateway(loadConfig(this.#settings), { log: createLog({ level: 'fatal' }) });
  }

  async stop(): Promise<void> {
    await this.#gateway?.stop();
    this.#gateway = undefined;
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  get did(): string {
    return this.#gateway!.did;
  }

  get isNewToken(): boolean {
    return this.#gateway!.admin.newToken !== null;
  }

  async count(table: string): Promise<number> {
    const { rows } = await this.#database.db.query<{ n: number }>(`select count(*)::int as n from ${table}`);
    return rows[0]!.n;
  }
}

const [acme, globex] = await Promise.all([Company.make('acme', 'joel'), Company.make('globex', 'bob')]);
const reviewer = 'acme/general/joel/reviewer';
const billing = 'globex/general/bob/billing';
await acme.client.announce(reviewer);
await globex.client.announce(billing, { allow: ['org:acme'] });
await acme.client.call('POST', '/orgs/acme/links', { other: globex.authority });
await globex.client.call('POST', '/orgs/globex/links', { other: acme.authority });
await globex.client.call('PUT', '/orgs/globex/links/acme/expose', { kind: 'agent', pattern: '*', on: true });
await eventually('the link', async () => {
  const { links } = await acme.client.call<{ links: Array<{ state: string }> }>('GET', '/links');
  return links[0]?.state === 'active';
});

describe('a gateway that is restarted', () => {
  it('is who it was, with the same token and the same keys', async () => {
    const { did } = acme;
    await acme.restart();
    assert.equal(acme.did, did);
    assert.equal(acme.isNewToken, false);
    const sent = await acme.client.send({ from: reviewer, to: billing, text: 'still me?' });
    assert.equal(sent.signed, true);
    const [item] = await globex.client.take(billing, { wait: 5 });
    assert.equal(item?.id, sent.id);
    await globex.client.reply(item!, 'yes');
    const [reply] = await acme.client.take(reviewer, { wait: 5, replyTo: sent.id });
    assert.equal(reply?.body.text, 'yes');
  });

  it('both, between the request and its reply: one of each arrives', async () => {
    const sent = await acme.client.send({ from: reviewer, to: billing, text: 'before' });
    await Promise.all([acme.restart(), globex.restart()]);
    const [item] = await globex.client.take(billing, { wait: 5 });
    assert.equal(item?.id, sent.id);
    // Taken, and the lease outlives the restart: nobody else gets it meanwhile, and its taker may answer.
    await globex.restart();
    assert.deepEqual(await globex.client.take(billing), []);
    await globex.client.reply(item!, 'after');
    const [reply] = await acme.client.take(reviewer, { wait: 5, replyTo: sent.id });
    assert.equal(reply?.body.text, 'after');
    assert.equal(reply?.thread, sent.thread);
    await acme.client.ack(reviewer, [reply!.id]);
    assert.deepEqual(await acme.client.take(reviewer, { wait: 1, replyTo: sent.id }), []);
  });

  it('the asker is away when the reply comes: it waits, and comes once', { timeout: 120_000 }, async () => {
    const sent = await acme.client.send({ from: reviewer, to: billing, text: 'I shall be away' });
    const [item] = await globex.client.take(billing, { wait: 5 });
    await acme.stop();
    await globex.client.progress(item!, 'working');
    await globex.client.reply(item!, 'while you were out');
    await globex.restart();
    await acme.start();
    // A call of the peer makes what waits for it due at once.
    await acme.client.call('POST', '/orgs/acme/links', { other: globex.authority });
    await acme.client.send({ from: reviewer, to: billing, text: 'I am back' });
    const got: string[] = [];
    await eventually('progress and reply', async () => {
      for (const one of await acme.client.take(reviewer, { replyTo: sent.id })) got.push(one.kind);
      return got.includes('reply');
    });
    assert.deepEqual(got, ['progress', 'reply']);
    assert.deepEqual(await acme.client.take(reviewer, { wait: 1, replyTo: sent.id }), []);
  });

  it('the asked side is away: the sender is told that it is taken, and it arrives once', {
    timeout: 120_000,
  }, async () => {
    for (const item of await globex.client.take(billing)) await globex.client.ack(billing, [item.id]);
    await globex.stop();
    const sent = await acme.client.send({ from: reviewer, to: billing, text: 'nobody there?' });
    assert.ok(sent.id);
    await acme.restart();
    await globex.start();
    const [item] = await eventually('the request', async () => {
      const items = await globex.client.take(billing, { wait: 5 });
      return items.length > 0 && items;
    });
    assert.equal(item!.id, sent.id);
    assert.deepEqual(await globex.client.take(billing, { wait: 1 }), []);
    assert.equal(await acme.count('outbox'), 0);
  });
});
