import type { Db } from '../db/types.ts';
import type { Clock } from '../lib/clock.ts';
import { newId, newToken, sha256 } from '../lib/ids.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import * as store from './join-codes/store.ts';
import type { People } from './people.ts';
import type { NodeIdentity } from './types.ts';

export interface JoinCodesDeps {
  db: Db;
  clock: Clock;
  people: Pick<People, 'adminOf'>;
}

export interface NewJoinCode {
  id: string;
  /** Told once: only its SHA-256 is kept. */
  code: string;
  /** Milliseconds. */
  expiresAt: number;
}

/** A code as its org's admins see it. */
export interface JoinCode {
  id: string;
  state: 'open' | 'used' | 'revoked' | 'expired';
  team: string;
  createdAt: number;
  expiresAt: number;
  agentId: string | null;
}

/** Seconds. */
const usualLifetime = 86_400;
const longestLifetime = 90 * 86_400;

/** Codes that register one agent each (replyslip.md "Register with a join code"). The agent will be whose code it was. */
export class JoinCodes {
  readonly #deps: JoinCodesDeps;

  constructor(deps: JoinCodesDeps) {
    this.#deps = deps;
  }

  /** For an admin. `team`: one of hers; without, `general`. `lifetime` in seconds: 24 h unless she says otherwise, 90 days at most. */
  async make(
    node: NodeIdentity,
    q: { org: string; team: string | null; lifetime: number | null },
  ): Promise<NewJoinCode | Refusal> {
    const { db, clock, people } = this.#deps;
    const admin = people.adminOf(node, q.org);
    if (admin instanceof Refusal) return admin;
    const seconds = q.lifetime ?? usualLifetime;
    if (!(Number.isInteger(seconds) && seconds >= 1 && seconds <= longestLifetime)) {
      return refuse('invalid_field', `\`expires_in\` must be from 1 to ${longestLifetime} seconds.`, {
        data: { field: 'expires_in' },
      });
    }
    const teamId = await store.teamFor(db, admin.id, q.team);
    if (teamId === undefined) {
      return refuse('invalid_field', `\`team\` must be a team of ${admin.org} that you are in.`, {
        data: { field: 'team' },
      });
    }
    const [code, now] = [newToken('rsj_'), clock.now()];
    const made = { id: newId(clock), code, expiresAt: now + seconds * 1000 };
    const row = { id: made.id, orgId: admin.orgId, memberId: admin.id, teamId, codeHash: sha256(code), now };
    await store.insertCode(db, { ...row, until: made.expiresAt });
    return made;
  }

  /** Before it is used; twice is once. */
  async revoke(node: NodeIdentity, id: string): Promise<Refusal | undefined> {
    const { db, clock } = this.#deps;
    const code = await store.codeById(db, id);
    const member = code && node.members.find(({ orgId }) => orgId === code.orgId);
    if (!code || !member) return refuse('not_found', 'There is no such join code.');
    if (member.role !== 'admin') return refuse('forbidden', `Only an admin of ${member.org} may do that.`);
    const done = await store.revokeCode(db, id, clock.now());
    return done
      ? undefined
      : refuse('conflict', 'This join code has already been used: revoke the key of its agent instead.', {
          data: { agent_id: code.agentId },
        });
  }

  async list(node: NodeIdentity, org: string): Promise<JoinCode[] | Refusal> {
    const { db, clock, people } = this.#deps;
    const admin = people.adminOf(node, org);
    if (admin instanceof Refusal) return admin;
    const now = clock.now();
    return (await store.codesOf(db, admin.orgId)).map(({ id, team, createdAt, expiresAt, agentId, ...row }) => ({
      id,
      state: row.revokedAt ? 'revoked' : row.usedAt ? 'used' : expiresAt <= now ? 'expired' : 'open',
      team,
      createdAt,
      expiresAt,
      agentId,
    }));
  }
}
