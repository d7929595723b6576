import type { Db } from '../../db/types.ts';
import type { Clock } from '../../lib/clock.ts';
import { newId } from '../../lib/ids.ts';
import { type Audience, plainText } from '../types.ts';
import { queryOf, wordsOf } from '../words.ts';
import * as store from './store.ts';

export type { MemoryRow } from './store.ts';

const most = { owner: 2_000, peer: 500 } as const;
const longestFact = 500;
const factsOfTurn = 5;

/** What an owner's agents keep of their turns, for her alone (confer.md: "no se recupera memoria a largo plazo" in a turn of a peer). */
export class Memory {
  readonly #db: Db;
  readonly #clock: Clock;

  constructor(deps: { db: Db; clock: Clock }) {
    this.#db = deps.db;
    this.#clock = deps.clock;
  }

  list(owners: readonly string[], page: { limit: number; offset: number }): Promise<store.MemoryRow[]> {
    return store.list(this.#db, owners, page);
  }

  /** Best first; none for a peer. */
  async search(audience: Audience, q: { owner: string; question: string; limit: number }): Promise<store.MemoryRow[]> {
    const query = queryOf(q.question);
    if (audience !== 'owner' || query === '') return [];
    return store.search(this.#db, audience, { owner: q.owner, query, limit: q.limit });
  }

  /** `audience`: of the turn that it was learnt in, which marks it. At most 5 facts of 500 characters. 2,000 are kept of an
   * owner's own turns and 500 of others'; the oldest go. */
  async keep(audience: Audience, q: { owner: string; source: string; facts: readonly string[] }): Promise<void> {
    const facts = q.facts
      .map((fact) => plainText(fact.trim().slice(0, longestFact)))
      .filter((fact) => fact !== '')
      .slice(0, factsOfTurn)
      .map((text) => ({ id: newId(this.#clock), text, words: wordsOf(text).join(' ') }));
    if (facts.length === 0) return;
    const { owner, source } = q;
    await store.insert(this.#db, {
      owner,
      origin: audience,
      source,
      facts,
      now: this.#clock.now(),
      most: most[audience],
    });
  }

  /** One row, or all of them (null). Answers how many there were. */
  forget(owners: readonly string[], id: string | null): Promise<number> {
    return store.remove(this.#db, owners, id);
  }
}
