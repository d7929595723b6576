import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Db } from '../../src/db/types.ts';
import { type AcceptItem, type AcceptRow, acceptMessages } from '../../src/exchange/store.ts';
import { freshDatabase, type Lifetime } from '../support/database.ts';
import { eventually } from '../support/gateway.ts';
import { seeded } from '../support/random.ts';

const seed = Number(process.env.FRESH_SEED ?? Date.now() % 1_000_000);
const { below } = seeded(seed);
const pick = <T>(...these: T[]): T => these[below(these.length)]!;
let count = 0;

/** Requests whose ids, proofs and threads meet each other's now and then. */
function request(): AcceptItem {
  const n = count++;
  const agent = pick('a1', 'a2', 'a3');
  const owner = agent === 'a3' ? 'm2' : 'm1';
  const local = pick(null, null, { id: 'm1', agent: 'a1' }, { id: 'm2', agent: 'a3' });
  const asker = local ? `m:${local.id}` : pick('p:e', 'p:f');
  const id = pick(`x${n}`, `x${n}`, `x${n}`, `x${below(n + 1)}`);
  const asked = pick(id, id, `t${below(6)}`, local ? id : null);
  const proof = pick(null, n, n, below(n + 1));
  return {
    sender: asker,
    id,
    kind: 'request',
    from_addr: `from ${asker}`,
    to_addr: `to ${agent}`,
    reply_to: null,
    envelope: `envelope ${n}`,
    sig_payload: pick(null, `payload ${n}`),
    sig_node: pick(null, 'node'),
    a2a: pick(null, `a2a ${n}`),
    wire: pick('redsyn', 'a2a'),
    expires_at: 1_000_000 + n,
    proof: proof === null ? null : String(proof).padStart(8, '0'),
    proof_expires: proof === null ? null : 500_000 + n,
    quota_org: local ? 'o' : null,
    quota_limit: local ? pick(null, 10_000) : null,
    reserved_for: pick(null, 'n1'),
    target: 'agent',
    exchange_id: `exchange ${n}`,
    agent_id: agent,
    asked_owner: owner,
    asked: `m:${owner}`,
    asked_addr: `address of ${agent}`,
    session: pick(null, null, null, null, 1),
    session_new: pick(false, false, false, false, true),
    thread_asked: asked,
    thread_derived: `derived ${owner} ${asker} ${asked ?? n}`,
    may_open: local !== null,
    asker,
    asker_agent: local ? pick(null, local.agent) : null,
    asker_owner: local?.id ?? null,
    asker_addr: `from ${asker}`,
    asker_session: local ? pick(null, 1) : null,
    asker_via: local ? null : 'peer.example',
    asker_kind: local ? null : pick(null, 'kind'),
    asker_ref: local ? null : pick(null, 'ref'),
    asker_thread: asked ?? `fresh ${n}`,
    asker_node: local ? pick(null, 'n1') : null,
  };
}

describe('accepting what is new in one statement (fn_accept.sql)', () => {
  it(`writes and answers what the long way does (seed ${seed})`, async (t) => {
    const ends: Lifetime = { after: (fn) => void t.after(fn) };
    const [both, long] = await Promise.all([instance(ends), instance(ends)]);
    await long.query(
      `create or replace function accept_fresh(items json, p_orgs text[], p_left bigint[], p_near integer[], p_turns integer[], now_ms bigint)
        returns table (i integer, exchange text, thread text, addressee text, seq bigint, signed boolean, wake text, quota_org text)
        language plpgsql as $$ begin return; end $$`,
    );
    let short = 0;
    for (let batch = 0; batch < 150; batch++) {
      const items = Array.from({ length: 1 + below(8) }, request);
      const now = 1_000 + batch;
      const { rows } = await both.query<AcceptRow>('select * from accept_messages($1, $2, $3)', [
        JSON.stringify(items.map((item, i) => ({ i, ...item }))),
        'here',
        now,
      ]);
      assert.equal(rows.length, items.length);
      // Rows come in the order in which they were taken: the long way is given them one by one in that order.
      for (const row of rows) {
        const [alone] = await acceptMessages(long, [items[row.i]!], 'here', now);
        assert.deepEqual(told(row), told(alone!), `batch ${batch}, seed ${seed}: ${JSON.stringify(items[row.i])}`);
        short += row.outcome === 'accepted' ? 1 : 0;
      }
    }
    assert.ok(short > 100);
    for (const [table, sql] of Object.entries(tables)) {
      const [one, other] = await Promise.all([both.query(sql), long.query(sql)]);
      assert.ok(one.rows.length > 0, `${table} is empty`);
      assert.deepEqual(one.rows, other.rows, `${table}, seed ${seed}`);
    }
  });

  it('leaves it to the long way when another one was faster', async (t) => {
    const db = await instance({ after: (fn) => void t.after(fn) });
    const item: AcceptItem = { ...request(), session: null };
    let late: Promise<AcceptRow[]> | undefined;
    await db.tx(async (tx) => {
      await tx.query(
        `insert into messages (sender, id, kind, from_addr, to_addr, envelope, wire, created_at, expires_at)
          values ($1, $2, 'request', '', '', '', 'redsyn', 0, 0)`,
        [item.sender, item.id],
      );
      late = acceptMessages(db, [item, { ...request(), session: null, id: 'another' }], 'here', 1);
      late.catch(() => undefined);
      await eventually('the other transaction waits for this one', async () => {
        const { rows } = await db.query(
          "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
        );
        return rows.length > 0;
      });
    });
    const rows = await late!;
    assert.deepEqual(
      rows.map((row) => row.outcome),
      ['duplicate', 'accepted'],
    );
  });
});

async function instance(lifetime: Lifetime): Promise<Db> {
  const { db } = await freshDatabase(lifetime, { max: 4 });
  await db.query(
    "insert into orgs (id, handle, api_version, plan, created_at) values ('o', 'globex', '2026-09-25', 'pro', 0)",
  );
  await db.query("insert into teams (id, org_id, handle, created_at) values ('t', 'o', 'erp', 0)");
  for (const n of [1, 2]) {
    await db.query('insert into people (id, created_at) values ($1, 0)', [`p${n}`]);
    await db.query(
      "insert into members (id, org_id, person_id, handle, role, created_at) values ($1, 'o', $2, $2, 'member', 0)",
      [`m${n}`, `p${n}`],
    );
  }
  for (const [agent, owner] of [
    ['a1', 'm1'],
    ['a2', 'm1'],
    ['a3', 'm2'],
  ]) {
    await db.query(
      "insert into agents (id, org_id, team_id, member_id, handle, created_at, updated_at) values ($1, 'o', 't', $2, $1, 0, 0)",
      [agent, owner],
    );
    await db.query('insert into mailboxes (agent_id) values ($1)', [agent]);
  }
  return db;
}

function told({ outcome, exchange, thread, addressee, outbox_id, signed, wakes }: AcceptRow): object {
  return { outcome, exchange, thread, addressee, outbox_id, signed, wakes };
}

/** Whole rows; a message by its sender and id, since numbers that are not used are no difference. */
const without = (row: string, ...keys: string[]): string =>
  keys.reduce((sql, key) => `${sql} - '${key}'`, `to_jsonb(${row})`);
const of = (seq: string): string => `(select m.sender || ' ' || m.id from messages m where m.seq = ${seq}) as message`;
const tables = {
  messages: `select ${without('r', 'seq')} as row from messages r order by r.sender, r.id`,
  exchanges: `select ${without('r', 'request_seq')} as row, ${of('r.request_seq')} from exchanges r order by r.id`,
  deliveries: `select ${without('r', 'id', 'message_seq')} as row, ${of('r.message_seq')} from deliveries r order by r.id`,
  conversations: `select ${without('r')} as row from conversations r order by r.owner, r.id`,
  participants: `select ${without('r')} as row from conversation_participants r order by r.owner, r.conversation, r.participant`,
  placed: `select ${without('r', 'seq')} as row, ${of('r.seq')} from conversation_messages r order by 1, 2`,
  sessions: `select ${without('r')} as row from sessions r order by r.agent_id, r.n`,
  mailboxes: `select ${without('r')} as row from mailboxes r order by r.agent_id`,
  proofs: "select encode(proof, 'hex') as proof, expires_at from seen_proofs order by proof",
  counts: 'select org_id, day, sum(used)::bigint as used from quota_days group by org_id, day',
} as const;
