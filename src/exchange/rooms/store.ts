import type { Queryable } from '../../db/types.ts';

/** What a room forwards, for one member elsewhere that is still in. */
export async function errandBySeq(
  db: Queryable,
  q: { seq: number; room: string; did: string },
): Promise<{ envelope: string; url: string } | null> {
  const sql = `select e.envelope, m.url from messages e join room_members m on m.agent_id = $2 and m.did = $3
    where e.seq = $1 and e.sender = 'room:' || $2 and m.state = 'member' and m.url is not null`;
  return (await db.query<{ envelope: string; url: string }>(sql, [q.seq, q.room, q.did])).rows[0] ?? null;
}
