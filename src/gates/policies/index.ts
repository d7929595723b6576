import { LRUCache } from 'lru-cache';
import type { Db } from '../../db/types.ts';
import { Batcher } from '../../lib/batch.ts';
import type { Clock } from '../../lib/clock.ts';
import { Refusal } from '../../lib/refusal.ts';
import type { Standing } from './evaluate.ts';
import * as store from './store.ts';
import { readPolicy } from './text.ts';
import type { Policy } from './types.ts';

export type { DecidedRow } from './store.ts';

/** What the policy gate asks. Never cached: a policy that was just written counts for the next message, on every replica. */
export interface StandingPolicies {
  standing(q: { owner: string; names: readonly string[]; contactPolicy: string | null }): Promise<Standing>;
}

/** The owner's side. */
export class Policies implements StandingPolicies {
  readonly #db: Db;
  readonly #clock: Clock;
  readonly #rows: Batcher<{ owner: string; names: readonly string[] }, store.StandingRows>;
  /** By kind and source: the same text is the same policy. */
  readonly #read = new LRUCache<string, Policy>({ max: 2_000, maxSize: 64 * 1024 * 1024, sizeCalculation: sizeOf });

  constructor({ db, clock }: { db: Db; clock: Clock }) {
    this.#db = db;
    this.#clock = clock;
    this.#rows = new Batcher({ max: 500, inFlight: 4, run: (asked) => store.standingFor(db, asked) });
  }

  async standing({ owner, names, contactPolicy }: Parameters<StandingPolicies['standing']>[0]): Promise<Standing> {
    const { decided, source } = await this.#rows.submit({ owner, names });
    return { decided, owner: this.#policy(source, 'owner'), contact: this.#policy(contactPolicy, 'contact') };
  }

  source(owner: string): Promise<{ source: string; updatedAt: number } | null> {
    return store.readSource(this.#db, owner);
  }

  /** Replaces the owner's policy; '' removes it. Refusal: `invalid_field` with line and column. */
  async save(owner: string, source: string): Promise<Policy | Refusal> {
    const policy = readPolicy(source, 'owner');
    if (policy instanceof Refusal) return policy;
    await store.saveSource(this.#db, owner, source.trim() === '' ? null : source, this.#clock.now());
    return policy;
  }

  /** Decisions "always", newest first. */
  decided(owners: readonly string[]): Promise<store.DecidedRow[]> {
    return store.decidedRules(this.#db, owners);
  }

  forget(owners: readonly string[], id: string): Promise<boolean> {
    return store.deleteDecidedRule(this.#db, owners, id);
  }

  #policy(source: string | null, kind: 'owner' | 'contact'): Policy | null {
    if (source === null) return null;
    const key = `${kind} ${source}`;
    const known = this.#read.get(key);
    if (known) return known;
    const policy = readPolicy(source, kind);
    // What was stored had been read without fault; a later version that reads it otherwise must not open what it closed.
    if (policy instanceof Refusal) throw new Error(`a stored policy cannot be read: ${policy.words}`);
    this.#read.set(key, policy);
    return policy;
  }
}

function sizeOf(_policy: Policy, key: string): number {
  return key.length * 4 + 1_000;
}
