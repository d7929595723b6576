import type { AgentKeys } from '../../directory/agent-keys.ts';
import type { Lookups } from '../../directory/lookups.ts';
import type { People } from '../../directory/people.ts';
import type { Agent } from '../../directory/types.ts';
import type { Route } from '../../lib/http.ts';
import { Refusal } from '../../lib/refusal.ts';
import { type CallDeps, iso, personCall } from './call.ts';
import { json, secret } from './errors.ts';

export interface AgentsDeps extends CallDeps {
  agentKeys: AgentKeys;
  people: Pick<People, 'memberOf'>;
  directory: Pick<Lookups, 'agentsOf' | 'agentsOfOrg'>;
}

/** What a person does with the agents that are hers to manage. */
export function agentRoutes(deps: AgentsDeps): Route[] {
  const { agentKeys, people, directory } = deps;
  return [
    {
      method: 'GET',
      path: '/api/v1/agents',
      about: 'The agents that you manage: your own, and as an admin all of the org',
      handler: personCall(deps, async ({ node, query }) => {
        const org = query.get('org');
        const member = org === null ? node.members[0] : people.memberOf(node, org);
        if (member === undefined) return json(200, { agents: [] });
        if (member instanceof Refusal) return member;
        const agents =
          member.role === 'admin' ? await directory.agentsOfOrg(member.orgId) : await directory.agentsOf(member.id);
        const since = await agentKeys.since(agents);
        return json(200, { agents: agents.map((agent) => ({ ...summary(agent), key: keyView(since.get(agent.id)) })) });
      }),
    },
    {
      method: 'POST',
      path: '/api/v1/agents/{id}/keys',
      about:
        'A fresh key for an agent, told once; the one before ends. Also for agents that were announced over REDSYN',
      handler: personCall(deps, async ({ node, params }) => {
        const made = await agentKeys.make(node, params.id!);
        return made instanceof Refusal ? made : secret(201, { id: made.id, api_key: made.key });
      }),
    },
    {
      method: 'POST',
      path: '/api/v1/agents/{id}/revoke',
      about: "Ends an agent's key at once",
      handler: personCall(deps, async ({ node, params }) => {
        const agent = await agentKeys.revoke(node, params.id!);
        return agent instanceof Refusal ? agent : json(200, { id: agent.id, name: agent.name, revoked: true });
      }),
    },
  ];
}

/** What the register response and the lists show of an agent. */
export function summary(agent: Agent): { id: string; name: string; description: string; address: string } {
  return { id: agent.id, name: agent.name, description: agent.description, address: agent.address };
}

function keyView(since: number | undefined): object {
  return since === undefined ? { set: false } : { set: true, created_at: iso(since) };
}
