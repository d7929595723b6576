import type { Db, Queryable } from '../db/types.ts';
import { Batcher } from '../lib/batch.ts';

/** The longest lease that can be asked for; a lease that seems longer was written by a clock that ran ahead. */
export const longestLeaseMs = 12 * 3_600_000;

/** A message as it is handed to an agent: the envelope as it arrived, and what this delivery adds. Times in milliseconds. */
export interface Delivered {
  deliveryId: number;
  seq: number;
  /** The message's own id: what the agent acks. */
  id: string;
  kind: string;
  from: string;
  replyTo: string | null;
  envelope: string;
  sigPayload: string | null;
  sigNode: string | null;
  a2a: string | null;
  /** Of an event: its topic. */
  topic: string | null;
  createdAt: number;
  /** The conversation, the addressee with its session, and the session, as this agent sees them. */
  thread: string;
  to: string;
  session: number | null;
  expiresAt: number;
  /** Takes so far, this one included. */
  attempts: number;
  leaseUntil: number;
}

export interface TakeQuery {
  agentId: string;
  nodeId: string;
  leaseMs: number;
  max: number;
  maxBytes: number;
  replyTo: string | null;
}

export interface Taken {
  items: Delivered[];
  /** The answer was full: there may be more at once. */
  more: boolean;
  /** When nothing was there: the end of the earliest lease that hides a message, or null. */
  wakeAt: number | null;
  /** When nothing was there: a message waits until another node has finished with its session. */
  blocked: boolean;
}

/** A delivery that ends without an ack. */
export interface Ended {
  deliveryId: number;
  messageSeq: number;
  agentId: string;
  kind: string;
  /** `node_gone`: it was sealed for a node that is no longer there. */
  reason: 'expired' | 'worn_out' | 'node_gone';
  attempts: number;
}

/** One lease: what it takes to undo it and no other. */
export type Lease = Pick<Delivered, 'deliveryId' | 'attempts' | 'leaseUntil'> & { nodeId: string };

export interface DeliveredRow {
  i: number;
  id: number | null;
  seq: number;
  message_id: string;
  kind: string;
  from_addr: string;
  reply_to: string | null;
  envelope: string;
  sig_payload: string | null;
  sig_node: string | null;
  a2a: string | null;
  topic: string | null;
  created_at: number;
  thread: string;
  to_addr: string;
  session: number | null;
  expires_at: number;
  attempts: number;
  lease_until: number;
  more: boolean;
  wake_at: number | null;
  blocked: boolean;
}

export interface MailboxStore {
  take(query: TakeQuery): Promise<Taken>;
  peek(query: Omit<TakeQuery, 'leaseMs'>): Promise<Delivered[]>;
  /** The message ids that were acked just now, of those that `nodeId` took and nobody else took since. */
  ack(ack: { agentId: string; nodeId: string; ids: readonly string[] }): Promise<string[]>;
  /** Whether the lease was still there, and now ends at `until`. */
  extend(lease: Lease, until: number): Promise<boolean>;
  /** The agents whose mailboxes got something back. */
  release(leases: readonly Lease[]): Promise<string[]>;
  drain(): Promise<void>;
}

/** Takes and acks of one tick share a round trip and a commit (design §5). `now` is asked when the batch leaves, not when a caller came. */
export function mailboxStore(db: Db, now: () => number): MailboxStore {
  const takes = new Batcher<TakeQuery, Taken>({
    max: 64,
    key: (take) => take.agentId,
    run: (batch) => takeAll(db, batch, now()),
  });
  const acks = new Batcher<{ agentId: string; nodeId: string; ids: readonly string[] }, string[]>({
    max: 64,
    run: (batch) => ackAll(db, batch),
  });
  return {
    take: (query) => takes.submit(query),
    peek: (query) => peek(db, query, now()),
    ack: (ack) => (ack.ids.length === 0 ? Promise.resolve([]) : acks.submit(ack)),
    extend: (lease, until) => extend(db, lease, until),
    release: (leases) => release(db, leases),
    async drain() {
      await Promise.all([takes.drain(), acks.drain()]);
    },
  };
}

async function takeAll(db: Queryable, batch: TakeQuery[], now: number): Promise<Taken[]> {
  const taken = batch.map((): Taken => ({ items: [], more: false, wakeAt: null, blocked: false }));
  const items = batch.map((take, i) => ({
    i,
    agent: take.agentId,
    node: take.nodeId,
    lease: take.leaseMs,
    max: take.max,
    bytes: take.maxBytes,
    reply: take.replyTo,
  }));
  const { rows } = await db.query<DeliveredRow>('select * from take_deliveries($1, $2, $3)', [
    JSON.stringify(items),
    now,
    longestLeaseMs,
  ]);
  for (const row of rows) {
    const answer = taken[row.i];
    if (!answer) continue;
    if (row.id === null) {
      answer.wakeAt = row.wake_at;
      answer.blocked = row.blocked;
    } else {
      answer.items.push(delivered(row));
      answer.more ||= row.more;
    }
  }
  return taken;
}

async function peek(db: Queryable, query: Omit<TakeQuery, 'leaseMs'>, now: number): Promise<Delivered[]> {
  const { rows } = await db.query<DeliveredRow>('select * from peek_deliveries($1, $2, $3, $4, $5, $6, $7)', [
    query.agentId,
    query.nodeId,
    query.replyTo,
    query.max,
    query.maxBytes,
    now,
    longestLeaseMs,
  ]);
  return rows.map(delivered);
}

async function ackAll(
  db: Queryable,
  batch: { agentId: string; nodeId: string; ids: readonly string[] }[],
): Promise<string[][]> {
  const items = batch.map((ack, i) => ({ i, agent: ack.agentId, node: ack.nodeId, ids: ack.ids }));
  const { rows } = await db.query<{ i: number; message_id: string }>('select * from ack_deliveries($1)', [
    JSON.stringify(items),
  ]);
  const acked = batch.map((): string[] => []);
  for (const row of rows) acked[row.i]?.push(row.message_id);
  return acked;
}

/** `attempts` tells one take from the next by the same node. */
async function extend(db: Queryable, lease: Lease, until: number): Promise<boolean> {
  // The tenth take ends the delivery with its lease (fn_take.sql), so both move.
  const sql = `update deliveries set lease_until = $4, expires_at = case when attempts >= 10 then greatest(expires_at, $4) else expires_at end
    where id = $1 and lease_node = $2 and attempts = $3`;
  const { rowCount } = await db.query(sql, [lease.deliveryId, lease.nodeId, lease.attempts, until]);
  return rowCount > 0;
}

async function release(db: Queryable, leases: readonly Lease[]): Promise<string[]> {
  const items = leases.map((lease) => ({
    id: lease.deliveryId,
    node: lease.nodeId,
    attempts: lease.attempts,
    until: lease.leaseUntil,
  }));
  const { rows } = await db.query<{ agent_id: string }>('select * from release_deliveries($1)', [
    JSON.stringify(items),
  ]);
  return [...new Set(rows.map((row) => row.agent_id))];
}

/**
 * Up to `limit` deliveries after `after` that are over and under no live lease, oldest expiry first, locked until the transaction ends;
 * what another replica holds is passed over.
 */
export async function lockEnded(
  tx: Queryable,
  q: { now: number; limit: number; after: { expiresAt: number; id: number } },
): Promise<(Ended & { expiresAt: number })[]> {
  const { rows } = await tx.query<{
    id: number;
    message_seq: number;
    agent_id: string;
    kind: string;
    attempts: number;
    expires_at: number;
  }>(
    `select d.id, d.message_seq, d.agent_id, m.kind, d.attempts, d.expires_at
       from deliveries d join messages m on m.seq = d.message_seq
      where d.expires_at <= $1 and d.expires_at >= $3 and (d.expires_at, d.id) > ($3, $4)
        and (d.lease_until <= $1 or d.lease_until > $1 + $5::bigint)
      order by d.expires_at, d.id limit $2 for update of d skip locked`,
    [q.now, q.limit, q.after.expiresAt, q.after.id, longestLeaseMs],
  );
  return rows.map((row) => ({
    deliveryId: row.id,
    messageSeq: row.message_seq,
    agentId: row.agent_id,
    kind: row.kind,
    reason: row.attempts >= 10 ? 'worn_out' : 'expired',
    attempts: row.attempts,
    expiresAt: row.expires_at,
  }));
}

/**
 * Reservations for nodes that were revoked. A sealed request ends: nobody else can open it, and its sender can seal it anew. All else, answers
 * mostly, is for whichever node comes, so that it is seen that something came. Answers the requests, locked, and the agents that got something back.
 */
export async function lockOrphaned(
  tx: Queryable,
  q: { now: number; limit: number },
): Promise<{ ended: Ended[]; freed: string[] }> {
  const { rows } = await tx.query<{
    id: number;
    message_seq: number;
    agent_id: string;
    kind: string;
    attempts: number;
  }>(
    `select d.id, d.message_seq, d.agent_id, m.kind, d.attempts
       from nodes n join deliveries d on d.reserved_for = n.id join messages m on m.seq = d.message_seq
      where n.revoked_at is not null and (d.lease_until <= $1 or d.lease_until > $1 + $3::bigint)
      order by d.id limit $2 for update of d skip locked`,
    [q.now, q.limit, longestLeaseMs],
  );
  const freed = rows.filter((row) => row.kind !== 'request');
  if (freed.length > 0) {
    await tx.query('update deliveries set reserved_for = null where id = any($1)', [freed.map((row) => row.id)]);
  }
  const ended = rows
    .filter((row) => row.kind === 'request')
    .map((row) => ({
      deliveryId: row.id,
      messageSeq: row.message_seq,
      agentId: row.agent_id,
      kind: row.kind,
      reason: 'node_gone' as const,
      attempts: row.attempts,
    }));
  return { ended, freed: [...new Set(freed.map((row) => row.agent_id))] };
}

export async function removeDeliveries(tx: Queryable, ids: readonly number[]): Promise<void> {
  await tx.query('delete from deliveries where id = any($1)', [ids]);
}

export function delivered(row: Omit<DeliveredRow, 'i' | 'more' | 'wake_at' | 'blocked'>): Delivered {
  return {
    deliveryId: row.id as number,
    seq: row.seq,
    id: row.message_id,
    kind: row.kind,
    from: row.from_addr,
    replyTo: row.reply_to,
    envelope: row.envelope,
    sigPayload: row.sig_payload,
    sigNode: row.sig_node,
    a2a: row.a2a,
    topic: row.topic,
    createdAt: row.created_at,
    thread: row.thread,
    to: row.to_addr,
    session: row.session,
    expiresAt: row.expires_at,
    attempts: row.attempts,
    leaseUntil: row.lease_until,
  };
}
