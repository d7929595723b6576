import { LRUCache } from 'lru-cache';
import type { Clock } from '../lib/clock.ts';
import { Windows } from '../lib/windows.ts';

/** What the flood gates remember between requests. */
export interface Flood {
  readonly windows: Windows;
  /** Key ids, and digests of tokens, that proved themselves lately: what a stranger at the same address does is not held against them. */
  readonly proven: LRUCache<string, true>;
}

export function createFlood(clock: Clock): Flood {
  return { windows: new Windows(clock), proven: new LRUCache({ maxSize: 10_000, sizeCalculation: () => 1 }) };
}
