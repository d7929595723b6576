/**
 * `npm run bench:inbox`: taking and confirming. Gatehouse over HTTP, with its token, its agent and its order of sessions looked at, against the plain
 * row lease of a hand-made table in two transactions, without HTTP (baselines §4f). Ratios are of one run; read them, not the rates.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';
import type { Db } from '../../src/db/types.ts';
import { freshDatabase } from '../support/database.ts';
import { gateway, lifetime } from './servers.ts';
import { option, print, quantile, type Row, type Sample } from './table.ts';

const rounds = option('rounds', 3);
const agents = option('agents', 100);
const perAgent = option('messages', 20);
const consumers = 32;
const perSecond = 30;
const seconds = option('seconds', 10);
const life = lifetime();
let count = 0;

/** One cycle of one consumer on one agent: how many messages it took and confirmed. */
type Cycle = (agent: number, max: number) => Promise<number>;

try {
  const served = await gatehouse();
  const contenders = [
    { name: 'hand-made table, row lease, two transactions, no HTTP', ...(await handMade()) },
    { name: 'Gatehouse, take and ack over HTTP', ...served },
  ];
  for (const max of [1, 10]) {
    const rows = contenders.map(({ name }): Row => ({ name, samples: [] }));
    for (let round = 0; round < rounds; round++) {
      for (const [i, { fill, cycle }] of contenders.entries()) {
        await fill();
        rows[i]!.samples.push(await drain(cycle, max));
      }
    }
    print(
      `${consumers} consumers, ${agents} agents, ${max} a take, ${rounds} rounds`,
      'messages/s',
      rows,
      contenders[0]!.name,
    );
  }
  const waited = await served.latencies(perSecond, seconds);
  console.log(
    `\nfrom the send to the answered poll of an agent that waits, ${perSecond}/s for ${seconds} s: ` +
      `p50 ${quantile(waited, 0.5).toFixed(2)} ms, p99 ${quantile(waited, 0.99).toFixed(2)} ms`,
  );
} finally {
  await life.end();
}

async function drain(cycle: Cycle, max: number): Promise<Sample> {
  const latencies: number[] = [];
  let left = agents * perAgent;
  let next = 0;
  const began = performance.now();
  await Promise.all(
    Array.from({ length: consumers }, async () => {
      while (left > 0) {
        const start = performance.now();
        const taken = await cycle(next++ % agents, max);
        left -= taken;
        latencies.push(performance.now() - start);
      }
    }),
  );
  const rate = (agents * perAgent * 1000) / (performance.now() - began);
  return { rate, p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99) };
}

interface Served {
  fill(): Promise<void>;
  cycle: Cycle;
  /** Milliseconds from the call of the send to the body of the poll that waited for it. */
  latencies(perSecond: number, seconds: number): Promise<number[]>;
}

async function gatehouse(): Promise<Served> {
  const { admin, url, token } = await gateway(life);
  const addresses = Array.from({ length: agents }, (_, i) => `acme/general/joel/a${i}`);
  for (const address of addresses) await admin.announce(address);
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const call = async (
    method: 'GET' | 'POST',
    path: string,
    body?: object,
  ): Promise<{ items: { id: string }[]; acked: string[] }> => {
    const answer = await request(`${url}/redsyn/v1${path}`, {
      method,
      headers,
      ...(body && { body: JSON.stringify(body) }),
    });
    if (answer.statusCode >= 300)
      throw new Error(`${method} ${path}: ${answer.statusCode} ${await answer.body.text()}`);
    return (await answer.body.json()) as never;
  };
  return {
    async fill() {
      const all = addresses.flatMap((to) => Array.from({ length: perAgent }, () => to));
      const send = async (): Promise<void> => {
        for (let to = all.pop(); to !== undefined; to = all.pop()) {
          const body = { type: 'text/plain', text: 'x'.repeat(1_000) };
          await call('POST', '/messages', { v: 1, id: `i${count++}`, kind: 'request', from: addresses[0], to, body });
        }
      };
      await Promise.all(Array.from({ length: consumers }, send));
    },
    async cycle(agent, max) {
      const { items } = await call('GET', `/inbox/${addresses[agent]}?max=${max}`);
      if (items.length === 0) return 0;
      const { acked } = await call('POST', `/inbox/${addresses[agent]}/ack`, { ids: items.map(({ id }) => id) });
      return acked.length;
    },
    async latencies(perSecond, seconds) {
      const [from, to] = addresses as [string, string];
      const sentAt = new Map<string, number>();
      const took: number[] = [];
      const n = perSecond * seconds;
      const listening = (async () => {
        while (took.length < n) {
          const { items } = await call('GET', `/inbox/${to}?wait=5`);
          const now = performance.now();
          took.push(...items.map(({ id }) => now - sentAt.get(id)!));
          if (items.length > 0) await call('POST', `/inbox/${to}/ack`, { ids: items.map(({ id }) => id) });
        }
      })();
      const body = { type: 'text/plain', text: 'x'.repeat(1_000) };
      const sends: Promise<unknown>[] = [];
      for (let i = 0; i < n; i++) {
        const id = `l${count++}`;
        await sleep(1_000 / perSecond);
        sentAt.set(id, performance.now());
        sends.push(call('POST', '/messages', { v: 1, id, kind: 'request', from, to, body }));
      }
      await Promise.all([...sends, listening]);
      return took;
    },
  };
}

async function handMade(): Promise<{ fill(): Promise<void>; cycle: Cycle }> {
  const { db } = await freshDatabase(life, { empty: true, max: consumers });
  await db.query(
    'create table q (id bigint generated always as identity primary key, agent integer, body text, lease_until bigint not null default 0)',
  );
  await db.query('create index on q (agent, id)');
  return {
    async fill() {
      await db.query(
        "insert into q (agent, body) select i % $1, repeat('x', 1000) from generate_series(1, $1 * $2::integer) i",
        [agents, perAgent],
      );
    },
    cycle: (agent, max) => takeAndDelete(db, agent, max),
  };
}

async function takeAndDelete(db: Db, agent: number, max: number): Promise<number> {
  const { rows } = await db.query<{ id: number }>(
    `update q set lease_until = $3 where id in
       (select id from q where agent = $1 and lease_until < $4 order by id limit $2 for update skip locked) returning id, body`,
    [agent, max, Date.now() + 900_000, Date.now()],
  );
  if (rows.length > 0) await db.query('delete from q where id = any($1)', [rows.map(({ id }) => id)]);
  return rows.length;
}
