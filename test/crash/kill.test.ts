import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { type Client, type DeliveredEnvelope, GatehouseError, NoAnswerError } from '../../src/client/index.ts';
import { type FreshDatabase, freshDatabase, type Lifetime } from '../support/database.ts';
import { eventually } from '../support/gateway.ts';
import { type GatewayProcess, gatewayProcess, serversOf } from '../support/process.ts';
import { seeded } from '../support/random.ts';

const kills = 20;
const restsWithin = 45_000;
const lease = 2;
const underWay = 24;
const seed = Number(process.env.KILL_SEED ?? Date.now() % 1_000_000);
const { below } = seeded(seed);

interface Side {
  gateway: GatewayProcess;
  database: FreshDatabase;
  asker: string;
  answerer: string;
  /** Requests that its asker was told to be accepted. */
  accepted: Set<string>;
  /** What its answering agent was handed, and what came back to its asker: message ids by the request's id. */
  handed: Map<string, number>;
  replies: Map<string, Set<string>>;
}

describe('a gateway that is killed loses and doubles nothing', () => {
  it(`through ${kills} kills of either of two gateways (seed ${seed})`, { timeout: 240_000 }, async (t) => {
    const [acme, globex] = await linkedProcesses(lifetimeOf(t));
    const sides = [acme, globex];
    const [enough, over] = [new AbortController(), new AbortController()];
    t.after(() => over.abort());
    const senders = sides.flatMap((side, i) =>
      [...'abcdef'].map((name) => ask(side, sides[1 - i]!, `${side.gateway.org}-${name}`, enough.signal, over.signal)),
    );
    const listeners = sides.flatMap((side) => [answer(side, over.signal), collect(side, over.signal)]);
    const work = Promise.all([...senders, ...listeners]);
    // What fails in it ends the test early; it is awaited at the end.
    work.catch(() => enough.abort());

    const killingSince = Date.now();
    for (let i = 0; i < kills && !enough.signal.aborted; i++) {
      await traffic(sides, 1 + below(15));
      await pause(below(100));
      const { gateway } = sides[below(2)]!;
      await gateway.kill();
      await pause(below(150));
      await gateway.start();
    }
    enough.abort();
    await Promise.race([Promise.all(senders), work]);

    const began = Date.now();
    const killing = began - killingSince;
    await Promise.race([Promise.all(sides.map((side) => atRest(side))), work]);
    const rested = Date.now() - began;
    over.abort();
    await work;

    for (const [side, other] of [
      [acme, globex],
      [globex, acme],
    ] as const) {
      const name = `${side.gateway.org} (seed ${seed})`;
      assert.ok(side.accepted.size > kills, `${name} sent too little: ${side.accepted.size}`);
      assert.deepEqual(missing(side.accepted, side.replies), [], `${name}: accepted, and never answered`);
      assert.deepEqual(missing(side.replies.keys(), side.accepted), [], `${name}: answered, and never asked`);
      const doubled = [...side.replies].filter(([, ids]) => ids.size > 1);
      assert.deepEqual(doubled, [], `${name}: answered more than once`);
      assert.deepEqual(missing(side.accepted, other.handed), [], `${name}: accepted, and never handed to the agent`);
      assert.deepEqual(
        missing(other.handed.keys(), side.accepted),
        [],
        `${name}: handed to the agent, and never asked`,
      );
      await assertWhole(side, other, name);
    }
    const asked = acme.accepted.size + globex.accepted.size;
    const again = sides.reduce((sum, { handed }) => sum + [...handed.values()].filter((n) => n > 1).length, 0);
    t.diagnostic(
      `seed ${seed}: ${asked} requests, ${again} handed out again; killing took ${killing} ms, coming to rest ${rested} ms`,
    );
  });

  it('keeps what the embedded database holds, and leaves no server behind', { timeout: 120_000 }, async (t) => {
    const gateway = await gatewayProcess(lifetimeOf(t), { org: 'acme', admin: 'joel' });
    const [asker, answerer] = ['acme/general/joel/asker', 'acme/general/joel/answerer'];
    await gateway.admin.announce(asker);
    await gateway.admin.announce(answerer);
    const { id } = await gateway.admin.send({ from: asker, to: answerer, text: 'Still there?' });

    await gateway.kill();
    await gateway.start();
    const items = await gateway.admin.take(answerer);
    assert.deepEqual(
      items.map((item) => item.id),
      [id],
    );
    assert.equal((await serversOf(gateway)).length, 1);

    assert.equal(await gateway.stop(), 0);
    assert.deepEqual(await serversOf(gateway), []);
  });
});

/** What was begun last ends first. */
function lifetimeOf(t: TestContext): Lifetime {
  const ends: Array<() => Promise<void>> = [];
  t.after(async () => {
    for (const end of ends.reverse()) await end();
  });
  return { after: (fn) => void ends.push(fn) };
}

async function linkedProcesses(lifetime: Lifetime): Promise<[Side, Side]> {
  const [acme, globex] = await Promise.all([side(lifetime, 'acme', 'joel'), side(lifetime, 'globex', 'bob')]);
  for (const [one, other] of [
    [acme, globex],
    [globex, acme],
  ] as const) {
    const { org, admin } = one.gateway;
    await admin.announce(one.asker);
    await admin.announce(one.answerer, { allow: [`org:${other.gateway.org}`] });
    await admin.call('POST', `/orgs/${org}/links`, { other: other.gateway.authority });
  }
  for (const [one, other] of [
    [acme, globex],
    [globex, acme],
  ] as const) {
    const pattern = one.answerer.slice(one.gateway.org.length + 1);
    const path = `/orgs/${one.gateway.org}/links/${other.gateway.org}/expose`;
    await one.gateway.admin.call('PUT', path, { kind: 'agent', pattern, on: true });
  }
  for (const { gateway } of [acme, globex]) {
    await eventually('the link is active', async () => {
      const { links } = await gateway.admin.call<{ links: Array<{ state: string; exposed: unknown[] }> }>(
        'GET',
        '/links',
      );
      return links[0]?.state === 'active' && links[0].exposed.length === 1;
    });
  }
  return [acme, globex];
}

async function side(lifetime: Lifetime, org: string, admin: string): Promise<Side> {
  const database = await freshDatabase(lifetime, { max: 2 });
  const gateway = await gatewayProcess(lifetime, { org, admin, databaseUrl: database.url });
  return {
    gateway,
    database,
    asker: `${org}/general/${admin}/asker`,
    answerer: `${org}/general/${admin}/answerer`,
    accepted: new Set(),
    handed: new Map(),
    replies: new Map(),
  };
}

/** One request after the other, each repeated with its id until it is accepted (REDSYN "Límites"). */
async function ask(from: Side, to: Side, name: string, enough: AbortSignal, over: AbortSignal): Promise<void> {
  for (let n = 0; !enough.aborted && !over.aborted; n++) {
    // As much is under way as keeps both gateways busy, and no more than is soon at rest.
    while (from.accepted.size - from.replies.size >= underWay && !enough.aborted) await pause(50);
    const id = `${name}-${n}`;
    const sent = await persist(over, () =>
      from.gateway.admin.send({ id, from: from.asker, to: to.answerer, text: `question ${id}` }),
    );
    if (sent) from.accepted.add(id);
    await pause(20 + below(60));
  }
}

/** Some more answers have come, or none will for a while: a slow machine has as much on its way at a kill as a fast one. */
async function traffic(sides: readonly Side[], answers: number): Promise<void> {
  const come = (): number => sides.reduce((sum, { replies }) => sum + replies.size, 0);
  const wanted = come() + answers;
  for (const end = Date.now() + 1_500; come() < wanted && Date.now() < end; ) await pause(5);
}

async function answer(side: Side, over: AbortSignal): Promise<void> {
  await listen(side.gateway.admin, side.answerer, over, async (request) => {
    const { id } = request;
    side.handed.set(id, (side.handed.get(id) ?? 0) + 1);
    await persist(over, () => side.gateway.admin.reply(request, `answer to ${id}`));
  });
}

async function collect(side: Side, over: AbortSignal): Promise<void> {
  await listen(side.gateway.admin, side.asker, over, async ({ id, kind, reply_to, body }) => {
    assert.equal(kind, 'reply', `${id} is no reply: ${body.text}`);
    assert.equal(body.text, `answer to ${reply_to}`);
    side.replies.set(reply_to!, (side.replies.get(reply_to!) ?? new Set()).add(id));
    await persist(over, () => side.gateway.admin.ack(side.asker, [id]));
  });
}

async function listen(
  client: Client,
  address: string,
  over: AbortSignal,
  handle: (item: DeliveredEnvelope) => Promise<void>,
): Promise<void> {
  while (!over.aborted) {
    const items = await persist(over, () => client.take(address, { wait: 1, lease }));
    await Promise.all((items ?? []).map(handle));
  }
}

/** Repeats a call until it is answered; undefined once the test is over. A refusal is the test's failure. */
async function persist<T>(over: AbortSignal, call: () => Promise<T>): Promise<T | undefined> {
  while (!over.aborted) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof NoAnswerError || (error instanceof GatehouseError && error.retryable))) throw error;
      await pause(100 + below(200));
    }
  }
  return undefined;
}

/** Nothing is on its way any more: no delivery, nothing that is owed to the other side, no exchange without its end. */
async function atRest({ database: { db }, gateway }: Side): Promise<void> {
  const end = Date.now() + restsWithin;
  for (;;) {
    const { rows } = await db.query<Record<string, number>>(
      `select (select count(*) from deliveries) as deliveries, (select count(*) from outbox) as outbox,
        (select count(*) from exchanges where ended_at is null) as open`,
    );
    if (Object.values(rows[0]!).every((n) => n === 0)) return;
    if (Date.now() > end) {
      const { rows: owed } = await db.query('select * from outbox order by id limit 5');
      const left = JSON.stringify({ ...rows[0], owed }, null, 1);
      assert.fail(`${gateway.org} (seed ${seed}) does not come to rest: ${left}\n${gateway.output()}`);
    }
    await pause(50);
  }
}

/** What stands in the tables at the end. */
async function assertWhole(side: Side, other: Side, name: string): Promise<void> {
  const { db } = side.database;
  const states = await db.query<{ state: string; n: number }>(
    'select state, count(*) as n from exchanges group by state order by state',
  );
  const asked = side.accepted.size + other.accepted.size;
  assert.deepEqual(states.rows, [{ state: 'completed', n: asked }], `${name}: states of exchanges`);
  const messages = await db.query<{ kind: string; n: number; distinct: number }>(
    `select kind, count(*) as n, count(distinct (exchange_id)) as distinct from messages group by kind order by kind`,
  );
  const each = { n: asked, distinct: asked };
  assert.deepEqual(
    messages.rows,
    [
      { kind: 'reply', ...each },
      { kind: 'request', ...each },
    ],
    `${name}: messages`,
  );
}

function missing(these: Iterable<string>, from: { has(id: string): boolean }): string[] {
  return [...these].filter((id) => !from.has(id));
}
