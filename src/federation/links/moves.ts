import type { LinkState } from '../types.ts';

/**
 * Where a link stands. Each side alone decides its own half and numbers its changes; the halves are told as they are, never as steps, so lost,
 * repeated and reordered news do no harm.
 *
 * A want is the revision at which a side's admin said yes (0: does not want). Who ends a link also names the newest want of the other
 * side that it ends, so that a yes from before a revocation never counts after it, while a later one does.
 */
export interface Standing {
  ourWant: number;
  theirWant: number;
  /** The newest of their wants that was ended here. */
  voided: number;
  ourRev: number;
  theirRev: number;
}

/** What a side tells of its half. */
export interface Half {
  rev: number;
  want: number;
  /** The newest want of the receiver that the teller ended. */
  voids: number;
}

export const unlinked: Standing = { ourWant: 0, theirWant: 0, voided: 0, ourRev: 0, theirRev: 0 };

export function stateOf({ ourWant, theirWant }: Pick<Standing, 'ourWant' | 'theirWant'>): LinkState {
  if (ourWant > 0 && theirWant > 0) return 'active';
  return ourWant > 0 || theirWant > 0 ? 'proposed' : 'revoked';
}

export function halfOf({ ourRev, ourWant, voided }: Standing): Half {
  return { rev: ourRev, want: ourWant, voids: voided };
}

/** Revisions follow the clock, so that a gateway whose database was lost is not taken for its own past. */
function next(standing: Standing, now: number): number {
  return Math.max(standing.ourRev + 1, now);
}

/** Our admin says yes: a proposal, or the acceptance of theirs. Null: it was said already. */
export function propose(standing: Standing, now: number): Standing | null {
  if (standing.ourWant > 0) return null;
  const rev = next(standing, now);
  return { ...standing, ourRev: rev, ourWant: rev };
}

/** Exposures or rules change. Null: not while we do not want the link. */
export function change(standing: Standing, now: number): Standing | null {
  return standing.ourWant > 0 ? { ...standing, ourRev: next(standing, now) } : null;
}

/** Our admin ends it, declines theirs or takes ours back. Null: nothing stands. */
export function revoke(standing: Standing, now: number): Standing | null {
  if (stateOf(standing) === 'revoked') return null;
  return {
    ...standing,
    ourRev: next(standing, now),
    ourWant: 0,
    theirWant: 0,
    voided: Math.max(standing.voided, standing.theirWant),
  };
}

/** They tell their half. Null: old news. */
export function learn(standing: Standing, half: Half, now: number): Standing | null {
  if (half.rev <= standing.theirRev) return null;
  const theirWant = half.want > standing.voided ? half.want : 0;
  const ended = half.voids >= standing.ourWant || (standing.theirWant > 0 && theirWant === 0);
  const learnt = { ...standing, theirRev: half.rev, theirWant };
  return standing.ourWant > 0 && ended ? { ...learnt, ourWant: 0, ourRev: next(standing, now) } : learnt;
}
