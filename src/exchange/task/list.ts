import type { Db } from '../../db/types.ts';
import { didWebParts, isDidWeb, parseDid } from '../../identity/did.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import type { MessageRow } from '../store.ts';
import { toMessage } from '../tasks.ts';
import type { ExchangeState, TaskView, Viewer } from '../types.ts';
import * as store from './store.ts';

export interface ListQuery {
  /** The asker's own thread id. */
  thread: string | null;
  state: ExchangeState | null;
  /** Milliseconds: tasks that changed then or later. */
  since: number | null;
  /** Of one agent here. */
  agentId: string | null;
  /** Whose agents are looked at by a caller that proves nothing: it finds tasks of a thread whose id it can only know from us. */
  owner: string | null;
  /** 1 to 100. */
  pageSize: number;
  /** '' for the first page. */
  pageToken: string;
}

export interface ListPage {
  tasks: TaskView[];
  /** '' on the last page. */
  nextPageToken: string;
  /** Of all pages. */
  totalSize: number;
}

/** A page holds fewer tasks than asked for when their messages would be more than this. */
const mostBytes = 8 * 1024 * 1024;
const mostMessages = 1_000;
const mostBytesEach = 2 * 1024 * 1024;
const atOnce = 10;

/**
 * What a viewer asked, newest change first. A page token says where the last page ended in that order, so tasks that are added or change move no
 * page: they stand in front of it. Refusals: `invalid_field` for a token that is none of ours.
 */
export async function listTasks(db: Db, viewer: Viewer, q: ListQuery): Promise<ListPage | Refusal> {
  const after = q.pageToken === '' ? null : readToken(q.pageToken);
  if (after instanceof Refusal) return after;
  const askers = await askersOf(db, viewer, q);
  if (askers.length === 0) return { tasks: [], nextPageToken: '', totalSize: 0 };
  const askerAddr = viewer.kind === 'agent' ? viewer.address : null;
  const filter = { askers, askerAddr, thread: q.thread, state: q.state, since: q.since, agentId: q.agentId };
  const [totalSize, rows] = await Promise.all([
    store.countTasks(db, filter),
    store.listTasks(db, filter, after, q.pageSize + 1),
  ]);
  const tasks = await withMessages(db, rows.slice(0, q.pageSize));
  const last = rows[tasks.length - 1];
  const nextPageToken = rows.length > tasks.length && last ? writeToken(last) : '';
  return { tasks, nextPageToken, totalSize };
}

async function withMessages(db: Db, rows: readonly store.ListedRow[]): Promise<TaskView[]> {
  const tasks: TaskView[] = [];
  let bytes = 0;
  for (let at = 0; at < rows.length && bytes < mostBytes; at += atOnce) {
    const some = rows.slice(at, at + atOnce);
    const found = await store.newestMessages(
      db,
      some.map(({ id }) => id),
      mostMessages,
      mostBytesEach,
    );
    for (const row of some) {
      if (bytes >= mostBytes) break;
      const messages = found.filter(({ exchange_id }) => exchange_id === row.id);
      bytes += messages.reduce((sum, message) => sum + sizeOf(message), 0);
      tasks.push({
        id: row.id,
        thread: row.thread,
        asked: { agentId: row.asked_agent, address: row.asked_addr },
        state: row.state,
        reason: row.reason,
        createdAt: row.created_at,
        updatedAt: row.updated_at,
        messages: messages.map(toMessage),
      });
    }
  }
  return tasks;
}

function sizeOf({ envelope, a2a }: MessageRow): number {
  return envelope.length + (a2a?.length ?? 0);
}

async function askersOf(db: Db, viewer: Viewer, { thread, owner }: ListQuery): Promise<string[]> {
  switch (viewer.kind) {
    case 'member':
      return viewer.memberIds.map((id) => `m:${id}`);
    case 'agent':
      return [`m:${viewer.memberId}`];
    case 'peer':
      return store.peersAround(db, { did: viewer.did, ...namesAbove(viewer.did) });
    case 'anonymous': {
      const one = thread && owner ? await store.anonymousParticipant(db, owner, thread) : null;
      return one === null ? [] : [one];
    }
  }
}

/** The DID itself and every DID above it on its instance. */
function namesAbove(did: string): { above: string[]; domain: string } {
  const parsed = parseDid(did, { allowIp: true });
  if (parsed instanceof Refusal || !isDidWeb(parsed)) return { above: [did], domain: '' };
  const names = did.split(':');
  const above = names.map((_, i) => names.slice(0, i + 1).join(':')).slice(2);
  return { above, domain: didWebParts(parsed).authority };
}

function writeToken({ updated_at, id }: store.ListedRow): string {
  return Buffer.from(`${updated_at}.${id}`).toString('base64url');
}

function readToken(token: string): { updatedAt: number; id: string } | Refusal {
  const [, at, id] =
    /^(\d{1,15})\.([0-9A-Za-z]{1,64})$/.exec(Buffer.from(token.slice(0, 200), 'base64url').toString('latin1')) ?? [];
  if (at === undefined || id === undefined) {
    return refuse('invalid_field', '`pageToken` is none that was given out here.', { data: { field: 'pageToken' } });
  }
  return { updatedAt: Number(at), id };
}
