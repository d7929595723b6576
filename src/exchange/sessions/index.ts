import type { Db } from '../../db/types.ts';
import type { Agent } from '../../directory/types.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import * as store from './store.ts';

/** Who looks: the caller's memberships, and whether one of them is in the agent's org. */
export interface SessionViewer {
  memberIds: readonly string[];
  isColleague: boolean;
}

/** A session as far as its viewer may see it. `messages` null: only that it exists. */
export interface SessionView {
  id: string;
  agent: string;
  state: 'open' | 'closed';
  createdAt: number;
  lastAt: number;
  title: string | null;
  thread: string | null;
  messages: store.SessionMessage[] | null;
  /** There are older ones: the `before` of the next call. */
  before: string | null;
}

export type { SessionMessage } from './store.ts';

/** Messages of one page, the newest. */
export const sessionPage = 500;

/** REDSYN "Sesiones": who sees what of a conversation, and what its owner does with it. */
export class Sessions {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /**
   * The owner sees all of it; who took part sees it and her own messages with what came back; the rest of the org that it exists. To others it
   * does not exist: `not_found`.
   */
  async read(agent: Agent, sid: string, viewer: SessionViewer, before: string | null): Promise<SessionView | Refusal> {
    const found = await this.#find(agent, sid, viewer);
    if (found instanceof Refusal) return found;
    const cursor = before === null ? null : readCursor(before);
    if (cursor instanceof Refusal) return cursor;
    const { row, isOwner } = found;
    const sees = isOwner || row.viewers.length > 0;
    const view = { id: sid, agent: agent.address, state: row.state, createdAt: row.createdAt, lastAt: row.lastAt };
    if (!sees) return { ...view, title: null, thread: null, messages: null, before: null };
    const messages = await store.sessionMessages(this.#db, {
      agentId: agent.id,
      n: row.n,
      of: isOwner ? null : row.viewers,
      before: cursor,
      limit: sessionPage + 1,
    });
    const isMore = messages.length > sessionPage;
    const shown = isMore ? messages.slice(1) : messages;
    return {
      ...view,
      title: row.title,
      thread: row.conversation,
      messages: shown,
      before: isMore ? writeCursor(shown[0]!.seq) : null,
    };
  }

  async setTitle(
    agent: Agent,
    sid: string,
    viewer: SessionViewer,
    title: string | null,
  ): Promise<SessionView | Refusal> {
    const own = await this.#own(agent, sid, viewer);
    if (own instanceof Refusal) return own;
    await store.setTitle(this.#db, agent.id, own.n, title);
    return this.#after(agent, sid, viewer);
  }

  /** A second time changes nothing. */
  async close(agent: Agent, sid: string, viewer: SessionViewer): Promise<SessionView | Refusal> {
    const own = await this.#own(agent, sid, viewer);
    if (own instanceof Refusal) return own;
    await store.closeSession(this.#db, agent.id, own.n);
    return this.#after(agent, sid, viewer);
  }

  async #after(agent: Agent, sid: string, viewer: SessionViewer): Promise<SessionView | Refusal> {
    const view = await this.read(agent, sid, viewer, null);
    return view instanceof Refusal ? view : { ...view, messages: null, before: null };
  }

  async #own(agent: Agent, sid: string, viewer: SessionViewer): Promise<store.SessionRow | Refusal> {
    const found = await this.#find(agent, sid, viewer);
    if (found instanceof Refusal) return found;
    return found.isOwner
      ? found.row
      : refuse('forbidden', `${agent.address} is ${agent.user}'s: only she changes its sessions.`);
  }

  async #find(
    agent: Agent,
    sid: string,
    { memberIds, isColleague }: SessionViewer,
  ): Promise<{ row: store.SessionRow; isOwner: boolean } | Refusal> {
    const [, n] = /^s([1-9]\d{0,8})$/.exec(sid) ?? [];
    const viewers = memberIds.map((id) => `m:${id}`);
    const row = n === undefined ? null : await store.sessionOf(this.#db, { agentId: agent.id, n: Number(n), viewers });
    if (!row || !(isColleague || row.viewers.length > 0)) return refuse('not_found', 'There is no such session.');
    return { row, isOwner: memberIds.includes(row.owner) };
  }
}

/** Where a page ends; opaque to callers. */
export function writeCursor(seq: number): string {
  return seq.toString(36);
}

export function readCursor(text: string): number | Refusal {
  const seq = /^[0-9a-z]{1,10}$/.test(text) ? Number.parseInt(text, 36) : Number.NaN;
  return Number.isSafeInteger(seq)
    ? seq
    : refuse('invalid_field', '`before` must be what an earlier answer gave.', { data: { field: 'before' } });
}
