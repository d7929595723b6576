import type { Db } from '../db/types.ts';
import { type Refusal, refuse } from '../lib/refusal.ts';
import { type MessageRow, threadMessages } from './store.ts';

const mostMessages = 500;

export interface ThreadView {
  thread: string;
  messages: MessageRow[];
}

/**
 * A thread as its owner sees it. Thread ids stand under their owner, so a member finds only conversations of her own; what she does
 * not take part in does not exist for her.
 */
export async function readThread(db: Db, memberIds: readonly string[], thread: string): Promise<ThreadView | Refusal> {
  const rows = await threadMessages(db, memberIds, thread, mostMessages);
  if (rows.length === 0) return refuse('not_found', 'There is no such thread, or you take no part in it.');
  const seen = new Set<number>();
  return { thread, messages: rows.filter(({ seq }) => !seen.has(seq) && seen.add(seq)) };
}
