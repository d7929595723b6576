import type { Tx } from '../../db/types.ts';
import type { Standing } from './moves.ts';
import type { LinkRow } from './store.ts';
import * as store from './store.ts';

/** Writes where a link now stands, and what ends with it: a link starts anew with nothing exposed and only signed messages. */
export async function settle(tx: Tx, link: LinkRow, standing: Standing, now: number): Promise<void> {
  if (link.ourWant > 0 && standing.ourWant === 0) {
    await store.replaceExposures(tx, link.id, 'ours', []);
    await store.saveRules(tx, link.id, { signedOnly: true, ips: link.ips });
  }
  if (link.theirWant > 0 && standing.theirWant === 0) await store.replaceExposures(tx, link.id, 'theirs', []);
  await store.saveStanding(tx, link.id, standing, now);
}
