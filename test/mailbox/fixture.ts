import type { Db, Notifier } from '../../src/db/types.ts';
import { ManualClock } from '../../src/lib/clock.ts';
import { createLog } from '../../src/lib/log.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import {
  createMailbox,
  type Delivered,
  type Ended,
  type Mailbox,
  type MailboxOptions,
} from '../../src/mailbox/index.ts';
import { type FreshDatabase, freshDatabase, type Lifetime } from '../support/database.ts';

export const quiet = createLog({ level: 'silent' });

/** An org with one person, two nodes ('n1', 'n2') and the agents that are asked for. */
export async function people(db: Db, agents: readonly string[] = ['billing']): Promise<void> {
  await db.tx(async (tx) => {
    await tx.query(
      `insert into orgs (id, handle, api_version, plan, created_at) values ('o', 'globex', '2026-09-25', 'pro', 0)`,
    );
    await tx.query(`insert into people (id, created_at) values ('p', 0)`);
    await tx.query(
      `insert into members (id, org_id, person_id, handle, role, created_at) values ('m', 'o', 'p', 'bob', 'admin', 0)`,
    );
    await tx.query(`insert into teams (id, org_id, handle, created_at) values ('t', 'o', 'erp', 0)`);
    for (const node of ['n1', 'n2']) {
      await tx.query(`insert into nodes (id, person_id, name, token_hash, created_at) values ($1, 'p', $1, $2, 0)`, [
        node,
        Buffer.from(node),
      ]);
    }
    for (const agent of agents) {
      await tx.query(
        `insert into agents (id, org_id, team_id, member_id, handle, created_at, updated_at) values ($1, 'o', 't', 'm', $1, 0, 0)`,
        [agent],
      );
      await tx.query('insert into mailboxes (agent_id) values ($1)', [agent]);
    }
  });
}

export interface Letter {
  agent?: string;
  id?: string;
  session?: number;
  replyTo?: string;
  reservedFor?: string;
  ttl?: number;
  text?: string;
}

let letters = 0;

/** Puts a message into a mailbox as the exchange does: one transaction that wakes the agent's waiters. Answers its id. */
export async function post(db: Db, clock: ManualClock, letter: Letter = {}): Promise<string> {
  const {
    agent = 'billing',
    id = `letter-${++letters}`,
    session = null,
    replyTo = null,
    reservedFor = null,
    ttl = 86_400_000,
  } = letter;
  await db.tx(async (tx) => {
    const expires = clock.now() + ttl;
    const { rows } = await tx.query<{ seq: number }>(
      `insert into messages (sender, id, kind, from_addr, to_addr, reply_to, envelope, wire, created_at, expires_at)
       values ('m:m', $1, $2, 'acme/dev/joel/reviewer', 'globex/erp/bob/billing', $3, $4, 'redsyn', $5, $6) returning seq`,
      [
        id,
        replyTo ? 'reply' : 'request',
        replyTo,
        JSON.stringify({ id, body: { text: letter.text ?? 'Is it paid?' } }),
        clock.now(),
        expires,
      ],
    );
    await tx.query(
      `insert into deliveries (agent_id, message_seq, message_id, reply_to, thread, to_addr, session, reserved_for, expires_at)
       values ($1, $2, $3, $4, 'thread', $5, $6, $7, $8)`,
      [agent, rows[0]!.seq, id, replyTo, `globex/erp/bob/${agent}#s${session ?? 1}`, session, reservedFor, expires],
    );
    tx.notify(`inbox:${agent}`);
  });
  return id;
}

export interface Post {
  database: FreshDatabase;
  db: Db;
  notifier: Notifier;
  clock: ManualClock;
  mailbox: Mailbox;
  ended: Ended[];
  another(options?: Partial<MailboxOptions>): Mailbox;
  post(letter?: Letter): Promise<string>;
  take(options?: Partial<Parameters<Mailbox['take']>[0]>, from?: Mailbox): Promise<Delivered[]>;
  ids(options?: Partial<Parameters<Mailbox['take']>[0]>, from?: Mailbox): Promise<string[]>;
}

/** A fresh database with one mailbox service on it. */
export async function postOffice(lifetime: Lifetime, agents?: readonly string[]): Promise<Post> {
  const database = await freshDatabase(lifetime);
  const { db, notifier } = database;
  const clock = new ManualClock();
  const ended: Ended[] = [];
  await people(db, agents);
  const another = (options: Partial<MailboxOptions> = {}): Mailbox =>
    createMailbox({
      db,
      notifier,
      clock,
      log: quiet,
      giveUp: async (_tx, some) => void ended.push(...some),
      ...options,
    });
  const mailbox = another();
  const take: Post['take'] = async (options = {}, from = mailbox) => {
    const taken = await from.take({ agentId: 'billing', nodeId: 'n1', ...options });
    if (taken instanceof Refusal) throw new Error(taken.code);
    return taken;
  };
  return {
    database,
    db,
    notifier,
    clock,
    mailbox,
    ended,
    another,
    post: (letter) => post(db, clock, letter),
    take,
    ids: async (options, from) => (await take(options, from)).map((each) => each.id),
  };
}

/** Lets what is under way in the event loop and at the database come to an end, up to 3 s. */
export async function until(what: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + 3_000;
  while (!(await what())) {
    if (Date.now() > end) throw new Error('it did not come to pass within 3 s');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Mailboxes of this process whose looks `waits` lets come to an end. */
const open = new Set<Mailbox>();

/** Whether `promise` is still pending after what is under way had time to settle. */
export async function waits(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol('pending');
  await until(() => [...open].every((mailbox) => mailbox.stats().looking === 0));
  const later = new Promise((resolve) => setTimeout(resolve, 80, pending));
  return (await Promise.race([promise, later])) === pending;
}
