import type { Db } from '../db/types.ts';
import { withoutSession } from '../directory/names.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import type { Envelope } from './message.ts';
import { pushErrorsOf } from './push/store.ts';
import { exchangeById, type MessageRow, type TaskRow } from './store.ts';
import { newestMessages } from './task/store.ts';
import type { Beside, TaskMessage, TaskView, Viewer } from './types.ts';

/** Messages of one task that a view holds at most, and what they may weigh: the request and the newest. */
const mostMessages = 4_000;
const mostBytes = 16 * 1024 * 1024;

export async function readTask(db: Db, exchangeId: string, viewer: Viewer): Promise<TaskView | Refusal> {
  const row = await seenBy(db, exchangeId, viewer);
  if (row instanceof Refusal) return row;
  const view = await viewOf(db, row);
  return row.has_push ? { ...view, pushErrors: await pushErrorsOf(db, row.id) } : view;
}

/** The task that a message goes on with, as far as can be said before its lock is held. `sender`: who it comes from, when the task alone tells. */
export async function followed(
  db: Db,
  { taskId, thread, viewer }: NonNullable<Beside['goesOn']>,
): Promise<{ sender?: string } | Refusal> {
  const row = await seenBy(db, taskId, viewer);
  if (row instanceof Refusal) return row;
  if (thread !== undefined && thread !== row.thread) {
    return refuse('invalid_field', 'That is not the context of the task.', { data: { field: 'message.contextId' } });
  }
  return viewer.kind === 'anonymous' ? { sender: row.asker } : {};
}

/** The row of a task that the viewer may see. */
export async function seenBy(db: Db, exchangeId: string, viewer: Viewer): Promise<TaskRow | Refusal> {
  // What cannot be one of our ids need not be looked for, and some texts (NUL) cannot be.
  const row = /^[0-9A-Za-z]{1,64}$/.test(exchangeId) ? await exchangeById(db, exchangeId) : null;
  return row && maySee(row, viewer) ? row : refuse('not_found', 'Task not found.');
}

/** A task as its asker sees it; null when there is none. For what the gateway itself sends there. */
export async function taskForAsker(db: Db, exchangeId: string): Promise<TaskView | null> {
  const row = await exchangeById(db, exchangeId);
  return row && viewOf(db, row);
}

async function viewOf(db: Db, row: TaskRow): Promise<TaskView> {
  const messages = await newestMessages(db, [row.id], mostMessages, mostBytes);
  return {
    id: row.id,
    thread: row.thread,
    asked: { agentId: row.asked_agent, address: row.asked_addr },
    state: row.state,
    reason: row.reason,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    messages: messages.map(toMessage),
  };
}

export function toMessage(row: MessageRow): TaskMessage {
  return {
    seq: row.seq,
    id: row.id,
    kind: row.kind,
    fromAsker: row.kind === 'request',
    envelope: JSON.parse(row.envelope) as Envelope,
    a2aText: row.a2a,
    createdAt: row.created_at,
  };
}

function maySee(row: TaskRow, viewer: Viewer): boolean {
  switch (viewer.kind) {
    case 'member':
      return viewer.memberIds.some((id) => row.asker === `m:${id}`);
    case 'agent':
      return row.asker === `m:${viewer.memberId}` && withoutSession(row.asker_addr) === viewer.address;
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
