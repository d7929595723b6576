import { agentDid } from '../src/directory/dids.ts';
import { isPublic } from '../src/directory/entries.ts';
import type { DidFacts } from '../src/directory/facts.ts';
import type { Agent } from '../src/directory/types.ts';
import { agentFacts } from './agent-facts.ts';
import type { Place } from './did.ts';
import { profileOf } from './profile.ts';

/** `/.well-known/agents.json` (confer-wire-facts §5), each row with its AgentFacts beside. Only public agents; the order is by address, so that equal facts give equal bytes. */
export function agentsDocument(place: Place, agents: readonly Agent[], owners: ReadonlyMap<string, DidFacts>): object {
  const rows = agents.filter(isPublic).sort((a, b) => (a.address < b.address ? -1 : 1));
  return {
    agents: rows.map((agent) => {
      const profile = profileOf(agent);
      const { '@context': _context, ...facts } = agentFacts(place, agent, owners.get(agent.memberId) ?? null) as Record<
        string,
        unknown
      >;
      return {
        ...facts,
        did: didOf(place, agent),
        name: profile.name,
        description: agent.description === '' ? null : agent.description,
        primary_language: profile.language,
        capabilities_json: profile.capabilities,
        is_public: true,
      };
    }),
  };
}

export function didOf(place: Place, agent: Agent): string {
  const { user, team } = agent;
  return agentDid(place.authority, { org: agent.orgIsPrimary ? null : agent.org, user, team, agent: agent.handle });
}
