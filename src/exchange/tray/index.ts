import type { Db, Tx } from '../../db/types.ts';
import { attempt } from '../../directory/attempt.ts';
import type { Clock } from '../../lib/clock.ts';
import { newId } from '../../lib/ids.ts';
import { type Refusal, refuse } from '../../lib/refusal.ts';
import { endRequest, undeliveredWords } from '../undelivered.ts';
import * as store from './store.ts';

export type { Decision, PermissionRow, Scope } from './store.ts';

export interface TrayDeps {
  db: Db;
  clock: Clock;
  /** Whether the asker would be let in now (the gates' own question). */
  stillReaches(q: {
    agentId: string;
    names: readonly string[];
    domain: string;
    linkId: string | null;
  }): Promise<boolean>;
}

const shown = 50;
const expiredAtOnce = 100;

/** Questions that wait for the owner of the agent that they are for (confer.md "Bandeja de pendientes"). */
export class Tray {
  readonly #deps: TrayDeps;

  constructor(deps: TrayDeps) {
    this.#deps = deps;
  }

  /** Newest first, at most 50. */
  list(owners: readonly string[], decided = false): Promise<store.PermissionRow[]> {
    return store.listPermissions(this.#deps.db, owners, decided, { now: this.#deps.clock.now(), limit: shown });
  }

  /**
   * The first decision counts: it delivers the question, or ends it as `rejected` and tells the asker. A later one changes nothing and answers what stands.
   * Who would not be let in any more is not answered, whatever the decision. Refusals: `not_found` (also somebody else's), `conflict` while the
   * countdown of L3 runs (with `remaining` seconds), `expired`.
   */
  async decide(
    owners: readonly string[],
    id: string,
    decision: store.Decision,
    scope: store.Scope,
  ): Promise<store.PermissionRow | Refusal> {
    const { db, clock, stillReaches } = this.#deps;
    const seen = await store.permissionById(db, owners, id);
    if (!seen) return refuse('not_found', 'There is no such request.');
    if (seen.decision !== 'pending') return seen;
    const isAllowed = decision.startsWith('allow');
    const isKnown = !isAllowed || (await stillReaches(seen));
    return attempt(db, async (tx) => {
      const row = await store.lockPermission(tx, owners, id);
      if (!row) return refuse('not_found', 'There is no such request.');
      if (row.decision !== 'pending') return row;
      const now = clock.now();
      if (now < row.decidableAt) return tooEarly(row.decidableAt - now);
      if (row.expiresAt <= now) return refuse('expired', 'Nobody decided in time: whoever asked was told so.');
      await store.saveDecision(tx, { id, decision, scope, now });
      if (decision.endsWith('_always')) await this.#remember(tx, row, isAllowed ? 'allow' : 'deny', scope, now);
      if (isAllowed && isKnown) for (const topic of await store.release(tx, row.exchangeId, now)) tx.notify(topic);
      else {
        const words = isAllowed ? 'not answered: no longer connected' : 'not answered: the owner of the agent said no';
        await endRequest(tx, row.requestSeq, { state: 'rejected', reason: 'denied' }, () => words, now);
      }
      return { ...row, decision, decidedScope: scope, decidedAt: now };
    });
  }

  /** Ends what nobody decided in time; answers how many. */
  async expire(): Promise<number> {
    const { db, clock } = this.#deps;
    const overdue = await store.expiredPermissions(db, clock.now(), expiredAtOnce);
    for (const { id, owner } of overdue) {
      await db.tx(async (tx) => {
        const row = await store.lockPermission(tx, [owner], id);
        const now = clock.now();
        if (row?.decision !== 'pending') return;
        await store.saveDecision(tx, { id, decision: 'expired', scope: null, now });
        const words = (address: string): string => undeliveredWords('expired', address);
        await endRequest(tx, row.requestSeq, { state: 'failed', reason: 'expired' }, words, now);
      });
    }
    return overdue.length;
  }

  /** With the narrow scope that was chosen. L3 is asked every time: an `allow` of it is remembered by nobody. */
  async #remember(
    tx: Tx,
    { owner, action, level, names }: store.PermissionRow,
    decision: 'allow' | 'deny',
    scope: store.Scope,
    now: number,
  ): Promise<void> {
    if (level === 'L3' && decision === 'allow') return;
    await store.saveRule(tx, {
      id: newId(this.#deps.clock),
      owner,
      action: scope === 'peer' ? '*' : action,
      peerDid: scope === 'global' ? '' : names.at(-1)!,
      decision,
      now,
    });
  }
}

function tooEarly(ms: number): Refusal {
  const remaining = Math.ceil(ms / 1000);
  return refuse('conflict', `This may be decided in ${remaining} s: read first what it would bring about.`, {
    data: { remaining },
    retryAfter: remaining,
  });
}
