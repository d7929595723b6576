import type { Queryable } from '../db/types.ts';
import { backoff } from '../lib/backoff.ts';
import { countFailure, openCircuit } from './store.ts';

/** No pause is longer, whatever a destination asks for. */
export const longestPauseMs = 3_600_000;

const firstPause = 8_000;
/** Design §10: at most 60 s after the last try while the peer was away less than an hour. The rest is for the try itself to begin. */
const firstHourCap = 55_000;
const hour = 3_600_000;

/** Milliseconds until an item is tried again that failed for a reason of its own. */
export function itemDelay(attempts: number, random: () => number): number {
  return backoff(attempts, { baseMs: firstPause, capMs: longestPauseMs }, random);
}

/**
 * Milliseconds until a destination is tried again after its `failures`-th failure in a row: 8 s doubling to 55 s within the first hour
 * (FED-03: at most 10 s after the first), then a tenth of the time it has been away, at most an hour.
 */
export function circuitDelay(failures: number, downMs: number, random: () => number): number {
  const capMs = downMs < hour ? firstHourCap : Math.min(downMs / 10, longestPauseMs);
  return backoff(failures, { baseMs: firstPause, capMs }, random);
}

/** Opens the circuit, or leaves it as a try that failed at the same time has set it. Answers whether it was this one that opened it. */
export async function trip(
  tx: Queryable,
  q: { destination: string; startedAt: number; now: number; error: string; retryAfterMs?: number | undefined },
  random: () => number,
): Promise<boolean> {
  const counted = await countFailure(tx, q);
  if (!counted) return false;
  const asked = Math.min(q.retryAfterMs ?? 0, longestPauseMs);
  await openCircuit(
    tx,
    q.destination,
    q.now + Math.max(asked, circuitDelay(counted.failures, q.now - counted.downSince, random)),
  );
  return true;
}
