import { randomBytes } from 'node:crypto';
import { type BootstrapOptions, type Bootstrapped, bootstrap } from '../../src/directory/bootstrap.ts';
import { createDirectory, type DirectoryOptions, type Registry } from '../../src/directory/index.ts';
import type { NodeIdentity } from '../../src/directory/types.ts';
import { Sealer } from '../../src/identity/sealing.ts';
import { ManualClock } from '../../src/lib/clock.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { type FreshDatabase, freshDatabase, type Lifetime } from '../support/database.ts';

export const authority = 'acme.example';
export const first: BootstrapOptions = { org: 'acme', admin: 'joel', adminToken: 'ghn_admin-token-of-the-tests' };

export interface House {
  database: FreshDatabase;
  clock: ManualClock;
  registry: Registry;
  /** Another replica: its own pool and caches on the same database. */
  replica(): Promise<Registry>;
  start(registry?: Registry, options?: Partial<BootstrapOptions>): Promise<Bootstrapped>;
}

export async function house(lifetime: Lifetime, more: Partial<DirectoryOptions> = {}): Promise<House> {
  const database = await freshDatabase(lifetime);
  const clock = new ManualClock();
  const sealer = new Sealer(randomBytes(32));
  const options = { clock, sealer, authority, plan: 'enterprise' as const, apiVersion: '2026-09-25', ...more };
  const registry = createDirectory({ ...options, db: database.db });
  return {
    database,
    clock,
    registry,
    replica: async () => createDirectory({ ...options, db: await database.replica() }),
    start: (on = registry, given = {}) =>
      bootstrap({ db: database.db, clock, ...on }, { ...first, ...given } as BootstrapOptions),
  };
}

/** The value, or the test fails with the refusal's words. */
export function ok<T>(value: T | Refusal): T {
  if (value instanceof Refusal) throw new Error(`${value.code}: ${value.words}`);
  return value;
}

export function codes(results: ReadonlyArray<unknown>): string[] {
  return results.map((result) => (result instanceof Refusal ? result.code : 'ok')).sort();
}

export async function caller(registry: Registry, token: string): Promise<NodeIdentity> {
  const node = await registry.lookups.nodeByToken(token);
  if (!node) throw new Error('that token names nobody');
  return node;
}

/** Somebody new in `org`, by invitation of `admin`. */
export async function newcomer(registry: Registry, admin: NodeIdentity, org: string, me: string, team = 'general') {
  const { code } = ok(await registry.people.invite(admin, org, { email: `${me}@example.com`, team }));
  const { token } = ok(await registry.people.login(code, `${me}-laptop`));
  ok(await registry.people.join(await caller(registry, token), org, { me, code: null }));
  return { token, node: await caller(registry, token) };
}

export const listening = {
  listening: true,
  policy: { allow: [], trust: 'none' as const, signedOnly: false, encryptedOnly: false },
};

export function at(org: string, team: string, user: string, agent: string) {
  return { org, team, user, agent, session: null };
}
