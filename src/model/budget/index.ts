import type { Db } from '../../db/types.ts';
import type { Clock } from '../../lib/clock.ts';
import * as store from './store.ts';

/** Who spends: which agent's key, for whom ('m:<member id>', 'p:<peer id>' …). */
export interface Spender {
  agentId: string;
  asker: string;
}

/** What tokens are counted against. */
export interface Budget {
  /** Whether another turn may begin: false once a day's tokens are used up. */
  mayBegin(spender: Spender): Promise<boolean>;
  /** After each call of the model, also of one that failed later. */
  spend(spender: Spender, tokens: number): Promise<void>;
}

const dayMs = 86_400_000;

/** Tokens per agent, asker and UTC day. */
export class Usage {
  readonly #db: Db;
  readonly #clock: Clock;

  constructor(deps: { db: Db; clock: Clock }) {
    this.#db = deps.db;
    this.#clock = deps.clock;
  }

  async add({ agentId, asker }: Spender, tokens: number): Promise<void> {
    if (tokens > 0) await store.addTokens(this.#db, { agentId, asker, day: this.#today(), tokens });
  }

  /** Tokens since 00:00 UTC. */
  today(agentId: string): Promise<number> {
    return store.tokensOf(this.#db, agentId, this.#today());
  }

  #today(): number {
    return Math.floor(this.#clock.now() / dayMs);
  }
}
