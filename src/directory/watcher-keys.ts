import type { Db } from '../db/types.ts';
import type { Clock } from '../lib/clock.ts';
import { newId, newToken, sha256 } from '../lib/ids.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import type { People } from './people.ts';
import type { NodeIdentity } from './types.ts';
import * as store from './watcher-keys/store.ts';

export type { WatcherKeyRow } from './watcher-keys/store.ts';

export interface WatcherKeysDeps {
  db: Db;
  clock: Clock;
  people: Pick<People, 'adminOf'>;
}

/** Keys of `gatehouse watch` on some machine: they poll and ack the wakes of an org (replyslip.md "Keys"). */
export class WatcherKeys {
  readonly #deps: WatcherKeysDeps;

  constructor(deps: WatcherKeysDeps) {
    this.#deps = deps;
  }

  /** For an admin. The key, `rsw_…`, is told once: only its SHA-256 is kept. */
  async make(node: NodeIdentity, q: { org: string; name: string }): Promise<{ id: string; key: string } | Refusal> {
    const { db, clock, people } = this.#deps;
    const admin = people.adminOf(node, q.org);
    if (admin instanceof Refusal) return admin;
    const made = { id: newId(clock), key: newToken('rsw_') };
    const row = { id: made.id, orgId: admin.orgId, name: q.name, keyHash: sha256(made.key) };
    await store.insertKey(db, { ...row, by: node.personId, now: clock.now() });
    return made;
  }

  async list(node: NodeIdentity, org: string): Promise<store.WatcherKeyRow[] | Refusal> {
    const admin = this.#deps.people.adminOf(node, org);
    return admin instanceof Refusal ? admin : store.keysOf(this.#deps.db, admin.orgId);
  }

  async revoke(node: NodeIdentity, id: string): Promise<Refusal | undefined> {
    const { db, clock } = this.#deps;
    const key = await store.keyById(db, id);
    const member = key && node.members.find(({ orgId }) => orgId === key.orgId);
    if (!key || !member) return refuse('not_found', 'There is no such watcher key.');
    if (member.role !== 'admin') return refuse('forbidden', `Only an admin of ${member.org} may do that.`);
    await store.revokeKey(db, id, clock.now());
    return undefined;
  }
}
