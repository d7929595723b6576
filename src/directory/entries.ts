import type { Db } from '../db/types.ts';
import type { Clock } from '../lib/clock.ts';
import * as store from './agents/store.ts';
import type { Keyring } from './keyring.ts';
import { presenceOf } from './presence.ts';
import type { Agent, DirectoryEntry, SessionSummary } from './types.ts';

/** Who looks at agents, and therefore what is shown of them. */
export interface Audience {
  /** Null: somebody of the agent's own org. Else the names that the looking org goes by in `allow` (its handle, its authority). */
  outsider: readonly string[] | null;
  /** As participants of conversations: `m:<member id>`, `p:<peer id>`. */
  viewers: readonly string[];
}

export interface EntriesDeps {
  db: Db;
  clock: Clock;
  keyring: Keyring;
}

const SESSIONS_SHOWN = 100;
const PAGE = 1_000;

/** Agents as others see them. Whether somebody may see an agent at all is decided before. */
export class Entries {
  readonly #deps: EntriesDeps;

  constructor(deps: EntriesDeps) {
    this.#deps = deps;
  }

  async of(agents: readonly Agent[], audience: Audience, options: { sessions: boolean }): Promise<DirectoryEntry[]> {
    const { db, clock, keyring } = this.#deps;
    const ids = agents.map((agent) => agent.id);
    const [presence, sessions] = await Promise.all([
      presenceOf(db, ids, clock.now()),
      options.sessions && ids.length > 0 ? this.#sessions(ids, audience) : null,
    ]);
    return agents.map((agent) => {
      const { online, lastSeen, node } = presence(agent.id);
      return {
        address: agent.address,
        did: keyring.agent(agent).did,
        description: agent.description,
        adapter: agent.adapter,
        online,
        last_seen: lastSeen,
        node,
        accepts: acceptsOf(agent, audience),
        trust: agent.trust,
        signed_only: agent.signedOnly,
        encrypted_only: agent.encryptedOnly,
        ...(sessions && { sessions: sessions.get(agent.id) ?? [] }),
      };
    });
  }

  /** An org's agents in the order of their addresses, at most 1,000 after `after` (`team/user/agent`, '' for the first). */
  agentsOfOrg(orgId: string, after = ''): Promise<Agent[]> {
    return store.agentsOfOrg(this.#deps.db, { orgId, after, limit: PAGE });
  }

  /** All of them. */
  async everyAgentOfOrg(orgId: string): Promise<Agent[]> {
    const all: Agent[] = [];
    for (let after = ''; ; ) {
      const page = await this.agentsOfOrg(orgId, after);
      all.push(...page);
      const last = page.at(-1);
      if (!last || page.length < PAGE) return all;
      after = agentPath(last);
    }
  }

  async #sessions(agentIds: readonly string[], audience: Audience): Promise<Map<string, SessionSummary[]>> {
    const rows = await store.sessionsOf(this.#deps.db, {
      agentIds,
      viewers: audience.viewers,
      perAgent: SESSIONS_SHOWN,
    });
    const shown = new Map<string, SessionSummary[]>();
    for (const { agentId, n, state, lastAt, title, thread } of rows) {
      // Others of the org see that it exists; outsiders only what they take part in.
      if (audience.outsider && thread === null) continue;
      const list = shown.get(agentId) ?? [];
      shown.set(agentId, list);
      list.push({
        id: `s${n}`,
        state,
        last_at: Math.floor(lastAt / 1000),
        ...(title !== null && { title }),
        ...(thread !== null && { thread }),
      });
    }
    return shown;
  }
}

/** `team/user/agent`: an agent within its org, as exposures name it. */
export function agentPath({ team, user, handle }: Pick<Agent, 'team' | 'user' | 'handle'>): string {
  return `${team}/${user}/${handle}`;
}

/** Where the agent has its own URL: `/agents/<user>/<team>/<agent>`, beneath `/orgs/<org>` outside the primary org (design §7). */
export function agentUrlPath({ org, orgIsPrimary, user, team, handle }: Agent): string {
  return `${orgIsPrimary ? '' : `/orgs/${org}`}/agents/${user}/${team}/${handle}`;
}

/** Whether the instance names the agent to strangers. */
export function isPublic(agent: Pick<Agent, 'isListed' | 'allow'>): boolean {
  return agent.isListed || agent.allow.includes('anyone');
}

function acceptsOf(agent: Agent, { outsider }: Audience): readonly string[] {
  const accepts = agent.allow.length > 0 ? agent.allow : [`team:${agent.team}`];
  if (outsider === null) return accepts;
  return accepts.filter((entry) => entry === 'anyone' || outsider.some((org) => entry === `org:${org}`));
}
