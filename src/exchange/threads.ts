import type { Db } from '../db/types.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import { readCursor, type SessionMessage, writeCursor } from './sessions/index.ts';
import { threadMessages } from './store.ts';

/** Messages of one page, the newest. */
export const threadPage = 500;

export interface ThreadView {
  thread: string;
  /** Oldest first. */
  messages: SessionMessage[];
  /** There are older ones: the `before` of the next call. */
  before: string | null;
}

/**
 * A thread as its owner sees it. Thread ids stand under their owner, so a member finds only conversations of her own; what she does
 * not take part in does not exist for her.
 */
export async function readThread(
  db: Db,
  memberIds: readonly string[],
  thread: string,
  before: string | null,
): Promise<ThreadView | Refusal> {
  const cursor = before === null ? null : readCursor(before);
  if (cursor instanceof Refusal) return cursor;
  const rows = await threadMessages(db, { owners: memberIds, thread, before: cursor, limit: threadPage + 1 });
  if (rows.length === 0) return refuse('not_found', 'There is no such thread, or you take no part in it.');
  const isMore = rows.length > threadPage;
  const messages = isMore ? rows.slice(1) : rows;
  return { thread, messages, before: isMore ? writeCursor(messages[0]!.seq) : null };
}
