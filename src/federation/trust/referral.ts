import type { Db } from '../../db/types.ts';
import { agentUrlPath } from '../../directory/entries.ts';
import type { Keyring } from '../../directory/keyring.ts';
import type { Agent } from '../../directory/types.ts';
import type { Clock } from '../../lib/clock.ts';
import { Refusal } from '../../lib/refusal.ts';
import type { Introductions } from './introductions.ts';
import { standingOf } from './standing.ts';
import * as store from './store.ts';

export interface ReferralDeps {
  db: Db;
  clock: Clock;
  keyring: Pick<Keyring, 'agent' | 'didKey'>;
  directory: { publicAgents(): Promise<readonly Agent[]> };
  introductions: Introductions;
  base: string;
}

/** Who was found: the introduction that the caller shows there, and where that is. */
export interface Referral {
  /** As it was signed; null when nobody fits. */
  credential: string | null;
  url: string | null;
  relay: string | null;
  encPub: string | null;
}

export interface ReferralQuestion {
  topic: string;
  /** The caller's own signed message, when its text is `introduce-me-to:<did>`. */
  request?: Readonly<Record<string, unknown>>;
}

type Expert = { did: string; url: string | null; relay: string | null; encPub: string | null };

const nobody: Referral = { credential: null, url: null, relay: null, encPub: null };
const named = /^introduce-me-to:(did:key:z[1-9A-HJ-NP-Za-km-z]{40,127})$/;
const freshMs = 7 * 86_400_000;

/**
 * "Introduce me to somebody who knows this" (muretai.md "referral/request"). Anybody may ask, but an introduction vouches for who gets it: it is made for
 * callers that the agent trusts, and to those alone of whom the owner said what they know, or who are public here.
 */
export class Referrals {
  readonly #deps: ReferralDeps;

  constructor(deps: ReferralDeps) {
    this.#deps = deps;
  }

  async find(agent: Agent, caller: string, { topic, request }: ReferralQuestion): Promise<Referral> {
    const { db, clock, introductions } = this.#deps;
    const { relation, level, expertise } = await introductions.standing(agent, caller);
    if (relation !== 'direct' && relation !== 'introduced') return nobody;
    const expert = await this.#expert(agent, caller, topic.trim());
    if (!expert) return nobody;
    const { did, ...reach } = expert;
    const until = clock.now() + freshMs;
    const earlier = request
      ? null
      : await store.liveIssued(db, { agentId: agent.id, subject: caller, introducedTo: did, until });
    const issued =
      earlier ??
      (await introductions.issue(agent, {
        subject: caller,
        introducedTo: did,
        expertise,
        level: level ?? 0,
        ...(request && { request }),
      }));
    return issued instanceof Refusal ? nobody : { credential: issued.credential, ...reach };
  }

  async #expert(agent: Agent, caller: string, topic: string): Promise<Expert | undefined> {
    const { db, clock, keyring, directory, base } = this.#deps;
    if (topic === '') return undefined;
    const wanted = named.exec(topic)?.[1];
    if (wanted !== undefined) {
      const { relation, expertise } = await standingOf(db, agent, wanted, clock.now());
      const known = relation === 'direct' && expertise.length > 0 ? await store.peerOf(db, agent.id, wanted) : null;
      if (known) return known.did === caller ? undefined : reachOf(known);
    } else {
      const [expert] = await store.expertsOn(db, { agentId: agent.id, owner: agent.memberId, topic, except: caller });
      if (expert) return reachOf(expert);
    }
    for (const one of await directory.publicAgents()) {
      if (one.orgId !== agent.orgId || one.id === agent.id) continue;
      if (wanted === undefined && !knows(one, topic)) continue;
      const did = await keyring.didKey(keyring.agent(one));
      if (did === caller || (wanted !== undefined && did !== wanted)) continue;
      return { did, url: base + agentUrlPath(one), relay: base, encPub: null };
    }
    return undefined;
  }
}

/** What an agent here says that it knows: the tags of its profile and of its skills. */
export function expertiseOf({ profile }: Agent): string[] {
  const lists = [profile.tags, ...(Array.isArray(profile.skills) ? profile.skills.map((skill) => skill?.tags) : [])];
  const tags = lists.flatMap((list) => (Array.isArray(list) ? list : []));
  return [...new Set(tags.filter((tag): tag is string => typeof tag === 'string' && tag !== ''))].slice(0, 32);
}

function knows(agent: Agent, topic: string): boolean {
  const asked = topic.toLowerCase();
  return expertiseOf(agent).some((tag) => asked.includes(tag.toLowerCase()) || tag.toLowerCase().includes(asked));
}

function reachOf({ did, url, relay, encPub }: store.PeerRow): Expert {
  return { did, url, relay, encPub };
}
