import { randomBytes } from 'node:crypto';
import type { Db } from '../../db/types.ts';
import { attempt } from '../../directory/attempt.ts';
import { agentUrlPath } from '../../directory/entries.ts';
import type { Keyring } from '../../directory/keyring.ts';
import type { Agent } from '../../directory/types.ts';
import { signInvitation } from '../../identity/invitation.ts';
import type { Clock } from '../../lib/clock.ts';
import { newId, sha256 } from '../../lib/ids.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import type { Admission } from './admission.ts';
import { standingOf } from './standing.ts';
import * as store from './store.ts';

export interface InvitesDeps {
  db: Db;
  clock: Clock;
  keyring: Pick<Keyring, 'agent' | 'signer' | 'didKey'>;
  admission: Admission;
  base: string;
}

const standardLife = 7 * 86_400;
const longestLife = 90 * 86_400;

/** Invitations (muretai-wire-facts §11): a value that is worth mutual trust, to the first who shows it. */
export class Invites {
  readonly #deps: InvitesDeps;

  constructor(deps: InvitesDeps) {
    this.#deps = deps;
  }

  /** The signed card. Its value is kept as a hash: it is shown this once. `validFor` in seconds. Refusals: `invalid_field`. */
  async create(
    agent: Agent,
    { purpose = '', validFor = standardLife }: { purpose?: string; validFor?: number },
  ): Promise<{ id: string; card: object; expiresAt: number } | Refusal> {
    const { db, clock, keyring, base } = this.#deps;
    if (validFor < 60 || validFor > longestLife) {
      return refuse('invalid_field', '`valid_for` must be from a minute to 90 days.', { data: { field: 'valid_for' } });
    }
    const now = clock.now();
    const expiresAt = now + validFor * 1000;
    const nonce = randomBytes(16).toString('hex');
    const { pair } = await keyring.signer(keyring.agent(agent));
    const { name, tags } = agent.profile;
    const card = signInvitation(
      {
        did: pair.did,
        name: typeof name === 'string' ? name.slice(0, 200) : agent.handle,
        url: base + agentUrlPath(agent),
        specialty: Array.isArray(tags) && typeof tags[0] === 'string' ? tags[0].slice(0, 64) : 'general',
        nonce,
        relay: base,
        expiresAt,
        ...(purpose !== '' && { purpose }),
      },
      pair,
    );
    const id = newId(clock);
    await store.insertInvite(db, { id, agentId: agent.id, nonceHash: hashed(nonce), purpose, now, expiresAt });
    return { id, card, expiresAt };
  }

  list(agent: Agent): Promise<store.InviteRow[]> {
    return store.invitesOf(this.#deps.db, agent.id);
  }

  /** False when it is none of the agent's, or spent. */
  revoke(agent: Agent, id: string): Promise<boolean> {
    const { db, clock } = this.#deps;
    return store.revokeInvite(db, agent.id, id, clock.now());
  }

  /**
   * `caller` shows the value: it is spent and the caller a contact, in one transaction; of two at once, one. Repeating it changes nothing and is answered
   * the same. Refusals: `introduction_invalid` for a value that is unknown, spent by another one, expired or revoked.
   */
  async claim(
    agent: Agent,
    caller: string,
    { nonce, ...reach }: store.Reach & { nonce: string },
  ): Promise<{ status: 'connected'; did: string; name: string } | Refusal> {
    const { db, clock, admission, keyring } = this.#deps;
    const now = clock.now();
    const q = { agentId: agent.id, nonceHash: hashed(nonce), by: caller };
    const done = await attempt(db, async (tx): Promise<true | Refusal> => {
      const { relation } = await standingOf(tx, agent, caller, now);
      if (relation !== 'blocked' && (await store.spendInvite(tx, { ...q, now }))) {
        return admission.letIn(tx, agent, caller, { reach, via: 'muretai_invite' });
      }
      // Whoever was removed since does not come back by the value it spent before.
      const isRepeat =
        (await store.isSpentBy(tx, q)) && (await standingOf(tx, agent, caller, now)).relation === 'direct';
      return isRepeat || refuse('introduction_invalid', 'That invitation is not known here, was used, or has ended.');
    });
    if (done instanceof Refusal) return done;
    const { name } = agent.profile;
    return {
      status: 'connected',
      did: await keyring.didKey(keyring.agent(agent)),
      name: typeof name === 'string' ? name.slice(0, 200) : agent.handle,
    };
  }
}

function hashed(nonce: string): Buffer {
  return sha256(`invite:${nonce}`);
}
