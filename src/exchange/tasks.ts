import type { Db } from '../db/types.ts';
import { type Refusal, refuse } from '../lib/refusal.ts';
import type { Envelope } from './message.ts';
import { exchangeById, messagesOf, type TaskRow } from './store.ts';
import type { TaskView, Viewer } from './types.ts';

/** Messages of one task that a view holds at most; the request and the newest. */
const mostMessages = 1_000;

export async function readTask(db: Db, exchangeId: string, viewer: Viewer): Promise<TaskView | Refusal> {
  // What cannot be one of our ids need not be looked for, and some texts (NUL) cannot be.
  const row = /^[0-9A-Za-z]{1,64}$/.test(exchangeId) ? await exchangeById(db, exchangeId) : null;
  if (!row || !maySee(row, viewer)) return refuse('not_found', 'There is no such task.');
  const messages = await messagesOf(db, row.id, mostMessages);
  return {
    id: row.id,
    thread: row.thread,
    asked: { agentId: row.asked_agent, address: row.asked_addr },
    state: row.state,
    reason: row.reason,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    messages: messages.map((message) => ({
      seq: message.seq,
      id: message.id,
      kind: message.kind,
      fromAsker: message.kind === 'request',
      envelope: JSON.parse(message.envelope) as Envelope,
      a2aText: message.a2a,
      createdAt: message.created_at,
    })),
  };
}

function maySee(row: TaskRow, viewer: Viewer): boolean {
  switch (viewer.kind) {
    case 'member':
      return viewer.memberIds.some((id) => row.asker === `m:${id}`);
    case 'peer':
      return row.askerDid !== null && (above(row.askerDid, viewer.did) || above(viewer.did, row.askerDid));
    case 'anonymous':
      return row.asker.startsWith('anonymous:');
  }
}

/** Whether `did` is `root` or one beneath it. */
function above(root: string, did: string): boolean {
  return did === root || did.startsWith(`${root}:`);
}
