import type { Db } from '../db/types.ts';
import type { Clock } from '../lib/clock.ts';
import { newId } from '../lib/ids.ts';
import { Refusal } from '../lib/refusal.ts';
import { attempt } from './attempt.ts';
import type { Keyring } from './keyring.ts';
import { readNewName } from './names.ts';
import { insertNode } from './nodes/store.ts';
import { type Nodes, tokenHash } from './nodes.ts';
import * as store from './people/store.ts';
import type { People } from './people.ts';
import type { Member } from './types.ts';

export { firstAdmin } from './people/store.ts';

export interface BootstrapOptions {
  /** Handle of the primary org (GATEHOUSE_ORG, or `handleOfAuthority`). Counts at the very first start. */
  org: string;
  /** Handle of the first admin (GATEHOUSE_ADMIN). Counts at the very first start. */
  admin: string;
  /** GATEHOUSE_ADMIN_TOKEN: a token of the first admin from now on, unless she revoked it. */
  adminToken?: string;
  /** The first admin's owner key, out of `gatehouse identity restore`. Counts at the very first start. */
  ownerSeed?: Uint8Array;
}

export interface Bootstrapped {
  admin: Member;
  /** This process made the primary org. */
  created: boolean;
  /** The generated admin token, for the one process that made it: print it once and keep it. */
  newToken: string | null;
}

/**
 * Design §7 "Getting in": the primary org, its team `general`, the admin and the instance's key. Does nothing when they are there; of two
 * replicas that start at once, one does it. Throws when the configured names cannot be.
 */
export async function bootstrap(
  deps: { db: Db; clock: Clock; keyring: Keyring; nodes: Nodes; people: People },
  options: BootstrapOptions,
): Promise<Bootstrapped> {
  for (const [variable, name, noun] of [
    ['GATEHOUSE_ORG', options.org, 'org'],
    ['GATEHOUSE_ADMIN', options.admin, 'user'],
  ] as const) {
    const fault = readNewName(name, variable, noun);
    if (fault instanceof Refusal) throw new Error(fault.words);
  }
  const { db, clock, keyring, nodes } = deps;
  const first = (await store.primaryOrg(db)) ? null : await create(deps, options);
  const admin = await store.firstAdmin(db);
  if (!admin) throw new Error('the primary org has no operator');
  await keyring.signer(keyring.instance());
  if (options.adminToken !== undefined) {
    const row = { id: newId(clock), personId: admin.personId, name: 'admin', tokenHash: tokenHash(options.adminToken) };
    await insertNode(db, { ...row, now: clock.now() });
  }
  return { admin, created: first !== null, newToken: first?.token ?? null };

  async function create({ people }: typeof deps, { org, admin: me, adminToken, ownerSeed }: BootstrapOptions) {
    const made = await attempt(db, async (tx) => {
      const personId = newId(clock);
      await store.insertPerson(tx, { id: personId, email: null, isOperator: true, isVouched: true, now: clock.now() });
      const seed = ownerSeed && { ownerSeed };
      const member = await people.insertOrg(tx, { handle: org, me, personId, isPrimary: true, ...seed });
      if (member instanceof Refusal) return member;
      return { token: adminToken === undefined ? (await nodes.insert(tx, personId, 'admin')).token : null };
    });
    // A refusal here means that another replica made it meanwhile.
    return made instanceof Refusal ? null : made;
  }
}
