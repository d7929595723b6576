import type { Db } from '../../db/types.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Refusal, refuse } from '../../lib/refusal.ts';
import * as store from './store.ts';

export type { Budget, LimitRow, Most, PausedFor } from './store.ts';

/** The key of a peer: its sender key ('p:…', 'm:…'), and one for all who are nobody in particular. */
export function peerOf(senderKey: string): string {
  return senderKey.startsWith('anonymous:') ? 'anonymous' : senderKey;
}

/**
 * Budgets of agents and their peers (design §4 "Loops"): messages, bytes and tokens of a UTC day, and the length of chains of requests. Counting and
 * pausing is the database's (migrations/fn_accept_limits.sql); here is what owners see and say, and what the answering agent spends.
 */
export class Limits {
  readonly #db: Db;
  readonly #clock: Clock;

  constructor({ db, clock }: { db: Db; clock: Clock }) {
    this.#db = db;
    this.#clock = clock;
  }

  /** Of the owners' agents, and of agents here whose peer an owner is; paused ones first, at most 500. */
  list(owners: readonly string[]): Promise<store.LimitRow[]> {
    return store.listLimits(this.#db, owners, { now: this.#clock.now(), limit: 500 });
  }

  /** Null values go back to the usual limit; what is not named stays. `peer`: DID, `org/user`, 'anonymous' or null for all. Refusal: `not_found`. */
  async choose(
    agentId: string,
    peer: string | null,
    most: Partial<store.Most & { turns: number | null }>,
  ): Promise<true | Refusal> {
    const key = await this.#key(peer);
    if (key === null) return unknownPeer();
    await store.saveLimit(this.#db, { agentId, peer: key, most });
    return true;
  }

  /** False when it was not paused. Refusal: `not_found`. */
  async resume(agentId: string, peer: string | null): Promise<boolean | Refusal> {
    const key = await this.#key(peer);
    if (key === null) return unknownPeer();
    return store.resumeLimit(this.#db, { agentId, peer: key, now: this.#clock.now() });
  }

  /** Whether an agent may go on with a peer now. `did` names the peer where its key is not known. `abroad`: the peer is not of the agent's organisation. */
  async budget(q: { agentId: string; senderKey: string; abroad: boolean; did?: string }): Promise<store.Budget> {
    const { agentId, senderKey, abroad, did } = q;
    const peer = (did && (await store.peerKey(this.#db, did))) ?? peerOf(senderKey);
    return store.readBudget(this.#db, { agentId, peer, abroad, now: this.#clock.now() });
  }

  /** An agent spent tokens of its owner's on a peer. What is over the budget of the day pauses the pair until the owner lets it go on. */
  spend(q: { agentId: string; senderKey: string; abroad: boolean; tokens: number }): Promise<store.Budget> {
    const { agentId, senderKey, abroad, tokens } = q;
    return store.spendTokens(this.#db, { agentId, peer: peerOf(senderKey), abroad, tokens, now: this.#clock.now() });
  }

  async #key(peer: string | null): Promise<string | null> {
    return peer === null ? '' : store.peerKey(this.#db, peer);
  }
}

function unknownPeer(): Refusal {
  return refuse('not_found', 'Nobody by that name has written to an agent here: a DID, org/user or anonymous.');
}
