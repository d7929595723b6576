import type { Db } from '../db/types.ts';
import { refuse } from '../lib/refusal.ts';
import type { ExchangeLookups } from './lookups.ts';
import { type AnswerableRow, askedOfAgent, askedOfPeer, openInThread, sessionFor } from './store.ts';
import { anonymousParticipant } from './task/store.ts';

export function createLookups(db: Db): ExchangeLookups {
  return {
    async answerableByAgent({ agentId, replyTo, thread, to }) {
      const rows = await askedOfAgent(db, agentId, replyTo);
      return theOne(
        narrow(rows, (row) => thread !== null && (row.askedThread === thread || null), [
          (row) => to !== null && row.askerAddr === to,
          (row) => !row.ended,
        ]),
        replyTo,
      );
    },

    async answerableByPeer({ domain, from, replyTo, askerAgent }) {
      const rows = await askedOfPeer(db, domain, from, replyTo);
      return theOne(
        narrow(rows, () => null, [(row) => askerAgent !== null && row.askerAgent === askerAgent, (row) => !row.ended]),
        replyTo,
      );
    },

    openInThread: (q) => openInThread(db, q),

    anonymousIn: async ({ owner, thread }) =>
      /^[0-9A-Z]{26}$/.test(thread) ? anonymousParticipant(db, owner, thread) : null,

    async session({ agentId, n, participant }) {
      const row = await sessionFor(db, agentId, n, participant);
      if (!row?.takesPart) return refuse('address_not_found');
      if (row.state === 'closed') return refuse('session_closed');
      return { conversation: row.conversation };
    },
  };
}

/** Each test keeps what it likes, unless it likes nothing: hints choose among several, they never exclude the only one. */
function narrow(
  rows: AnswerableRow[],
  first: (row: AnswerableRow) => boolean | null,
  rest: Array<(row: AnswerableRow) => boolean>,
): AnswerableRow[] {
  let left = rows;
  for (const test of [first, ...rest]) {
    if (left.length < 2) break;
    const liked = left.filter((row) => test(row) === true);
    if (liked.length > 0) left = liked;
  }
  return left;
}

function theOne(rows: AnswerableRow[], replyTo: string) {
  const [row, another] = rows;
  if (!row) return refuse('not_found', `No request ${JSON.stringify(replyTo)} was asked of this agent.`);
  if (another) {
    return refuse(
      'conflict',
      `Several senders used the id ${JSON.stringify(replyTo)}. Name the thread that you answer in.`,
      {
        data: { field: 'thread' },
      },
    );
  }
  return row;
}
