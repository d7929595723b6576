import type { Db } from '../../db/types.ts';
import { agentUrlPath } from '../../directory/entries.ts';
import type { Keyring } from '../../directory/keyring.ts';
import type { Agent, Directory } from '../../directory/types.ts';
import { didKeyOf, type Introduction, readIntroduction, signIntroduction } from '../../identity/introduction.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Fetch } from '../../lib/fetch-types.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { Revocations, revocationsDocument } from './revocations.ts';
import { standingOf } from './standing.ts';
import * as store from './store.ts';

export interface IntroductionsDeps {
  db: Db;
  clock: Clock;
  fetch: Fetch;
  keyring: Pick<Keyring, 'agent' | 'didKey' | 'signer'>;
  directory: Pick<Directory, 'agentByDid' | 'agentById'>;
  /** The public base URL without a slash at its end. */
  base: string;
}

export interface Introducing {
  subject: string;
  introducedTo: string;
  expertise?: readonly string[];
  /** Thousandths; without it the subject's own. */
  level?: number;
  /** Seconds. */
  validFor?: number;
  /** What the subject signed when it asked. */
  request?: Readonly<Record<string, unknown>>;
}

const standardLife = 90 * 86_400;
const longestLife = 2 * 365 * 86_400;
/** How old an issuer's word that an introduction stands may be before it is asked again. */
const recheckMs = 600_000;

/** Introductions: those that agents here issue, and those that are presented to them (muretai-wire-facts §9, §10). */
export class Introductions {
  readonly #deps: IntroductionsDeps;
  readonly #revocations: Revocations;

  constructor(deps: IntroductionsDeps) {
    this.#deps = deps;
    this.#revocations = new Revocations(deps);
  }

  /** Signed by the agent's own did:key. Refusals: `invalid_field`. */
  async issue(agent: Agent, what: Introducing): Promise<store.IssuedRow | Refusal> {
    const { db, clock, keyring, base } = this.#deps;
    const { subject, introducedTo, expertise = [], validFor = standardLife } = what;
    if (!didKeyOf(subject)) return invalid('subject', 'must be an Ed25519 did:key');
    if (!didKeyOf(introducedTo)) return invalid('introducedTo', 'must be an Ed25519 did:key');
    if (subject === introducedTo) return invalid('introducedTo', 'must be another one than the subject');
    if (validFor < 60 || validFor > longestLife) return invalid('validFor', 'must be from a minute to two years');
    const now = clock.now();
    const level = what.level ?? (await this.standing(agent, subject)).level ?? 0;
    const { pair } = await keyring.signer(keyring.agent(agent));
    if (pair.did === subject) return invalid('subject', 'must be another one than the agent itself');
    const { request } = what;
    const validUntil = now + validFor * 1000;
    const { id, text } = signIntroduction(
      {
        subject,
        introducedTo,
        expertise,
        level,
        now,
        validUntil,
        endpoint: base + agentUrlPath(agent),
        ...(request && { request }),
      },
      pair,
    );
    const row = { id, agentId: agent.id, subject, introducedTo, credential: text, validUntil, createdAt: now };
    await store.insertIssued(db, row);
    return { ...row, revokedAt: null };
  }

  /** It ends here at once, and elsewhere when its holders ask. `not_found` when the agent issued no such introduction. */
  async revoke(agent: Agent, id: string): Promise<store.IssuedRow | Refusal> {
    const { db, clock, keyring } = this.#deps;
    const now = clock.now();
    const did = await keyring.didKey(keyring.agent(agent));
    const row = await db.tx(async (tx) => {
      const revoked = await store.revokeIssued(tx, agent.id, id, now);
      if (revoked) await store.markRevokedHere(tx, did, id, now);
      return revoked;
    });
    return row ?? refuse('not_found', 'The agent has issued no such introduction.');
  }

  issued(agent: Agent): Promise<store.IssuedRow[]> {
    return store.issuedBy(this.#deps.db, agent.id);
  }

  held(agent: Agent): Promise<store.HeldRow[]> {
    return store.heldOf(this.#deps.db, { agentId: agent.id, subject: null, now: this.#deps.clock.now() });
  }

  /** The owner no longer goes by it. */
  async drop(agent: Agent, issuer: string, id: string): Promise<boolean> {
    const { db, clock } = this.#deps;
    return store.markChecked(db, { agentId: agent.id, issuer, id, revoked: true, now: clock.now() });
  }

  /** `GET <agent>/revocations`; null for an agent that has issued none, so that nobody learns of a hidden one. */
  async revocations(agent: Agent): Promise<object | null> {
    const { db, clock, keyring } = this.#deps;
    const now = clock.now();
    const revoked = await store.revokedBy(db, agent.id, now);
    return revoked && revocationsDocument(revoked, (await keyring.signer(keyring.agent(agent))).pair, now);
  }

  /**
   * `sender` shows `credential` to `agent`. What holds is remembered, so that it need not be shown again. Refusals: `introduction_invalid`;
   * `introducer_unknown` when its issuer is no contact of the owner's and no agent of her organisation: trust goes no further than that.
   */
  async present(agent: Agent, sender: string, credential: string): Promise<Introduction | Refusal> {
    const { db, clock } = this.#deps;
    const now = clock.now();
    const introducedTo = await this.#addressed(agent, credential);
    const found = readIntroduction(credential, { subject: sender, introducedTo, now });
    if (found instanceof Refusal) return found;
    if (!(await this.#countsAsIssuer(agent, found.issuer))) return refuse('introducer_unknown');
    const before = await store.heldById(db, agent.id, found.issuer, found.id);
    if (before?.revokedAt) return refuse('introduction_invalid', 'The introduction does not hold: it was revoked.');
    const revoked = await this.#isRevoked(found);
    await store.holdIntroduction(db, {
      agentId: agent.id,
      introduction: found,
      checkedAt: revoked === null ? null : now,
      now,
    });
    if (!revoked) return found;
    await store.markChecked(db, { agentId: agent.id, issuer: found.issuer, id: found.id, revoked: true, now });
    return refuse('introduction_invalid', 'The introduction does not hold: it was revoked.');
  }

  /** Whether introductions that were shown before still cover the sender. With `ask`, issuers that were not asked lately are asked again. */
  async covers(agent: Agent, sender: string, { ask }: { ask: boolean }): Promise<boolean> {
    const { db, clock } = this.#deps;
    const now = clock.now();
    if (!ask) return (await this.standing(agent, sender)).relation === 'introduced';
    const rows = await store.heldOf(db, { agentId: agent.id, subject: sender, now });
    for (const row of rows) {
      if ((row.checkedAt ?? 0) > now - recheckMs) continue;
      const revoked = await this.#isRevoked(row);
      if (revoked !== null)
        await store.markChecked(db, { agentId: agent.id, issuer: row.issuer, id: row.id, revoked, now });
    }
    return rows.length > 0 && (await this.standing(agent, sender)).relation === 'introduced';
  }

  standing(agent: Agent, did: string): Promise<store.Standing> {
    const { db, clock } = this.#deps;
    return standingOf(db, agent, did, clock.now());
  }

  /** The did:key of the agent that the credential names, so far as it is one of its: its owner's, or one from before a rotation, is the agent's too. */
  async #addressed(agent: Agent, credential: string): Promise<string> {
    const { keyring, directory } = this.#deps;
    const named = /"introducedTo"\s*:\s*"(did:key:z[1-9A-HJ-NP-Za-km-z]{40,127})"/.exec(
      credential.slice(0, 20_000),
    )?.[1];
    if (named !== undefined && (await directory.agentByDid(named))?.id === agent.id) return named;
    return keyring.didKey(keyring.agent(agent));
  }

  async #countsAsIssuer(agent: Agent, issuer: string): Promise<boolean> {
    if ((await this.standing(agent, issuer)).relation === 'direct') return true;
    const colleague = await this.#deps.directory.agentByDid(issuer);
    return colleague?.orgId === agent.orgId;
  }

  async #isRevoked(q: { issuer: string; endpoint: string | null; id: string }): Promise<boolean | null> {
    const { db, directory } = this.#deps;
    const issuer = await directory.agentByDid(q.issuer);
    return issuer ? store.isRevokedHere(db, issuer.id, q.id) : this.#revocations.isRevoked(q);
  }
}

function invalid(field: string, why: string): Refusal {
  return refuse('invalid_field', `\`${field}\` ${why}.`, { data: { field } });
}
