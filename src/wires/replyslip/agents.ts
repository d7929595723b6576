import type { Deliveries, ShownDelivery } from '../../directory/delivery.ts';
import type { Registry } from '../../directory/index.ts';
import type { Lookups } from '../../directory/lookups.ts';
import type { Agent } from '../../directory/types.ts';
import type { HttpResponse, Route } from '../../lib/http.ts';
import { Refusal } from '../../lib/refusal.ts';
import type { Wakes } from '../../outbox/wakes.ts';
import { bodyOf, type CallDeps, iso, personCall } from './call.ts';
import { deliveryOrder } from './delivery-order.ts';
import { json, secret } from './errors.ts';

export interface AgentsDeps extends CallDeps {
  registry: Pick<Registry, 'agentKeys' | 'people'>;
  deliveries: Deliveries;
  directory: Pick<Lookups, 'agentsOf' | 'agentsOfOrg'>;
  wakes: Pick<Wakes, 'standing'>;
}

/** What a person does with the agents that are hers to manage. */
export function agentRoutes(deps: AgentsDeps): Route[] {
  const { directory, deliveries, wakes } = deps;
  const { agentKeys, people } = deps.registry;
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
        const [since, delivery] = await Promise.all([
          agentKeys.since(agents),
          deliveries.showAll(agents.map(({ id }) => id)),
        ]);
        const rows = agents.map((agent) => ({
          ...summary(agent),
          delivery: delivery.get(agent.id) ?? { mode: 'none' },
          key: keyView(since.get(agent.id)),
        }));
        return json(200, { agents: rows });
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
    {
      method: 'GET',
      path: '/api/v1/agents/{id}/delivery',
      about: 'How an agent is woken, without any secret, and what became of its wakes',
      handler: personCall(deps, async ({ node, params }) => {
        const agent = await agentKeys.managed(node, params.id!);
        return agent instanceof Refusal ? agent : shown(agent, await deliveries.show(agent.id));
      }),
    },
    {
      method: 'PUT',
      path: '/api/v1/agents/{id}/delivery',
      about: 'Sets how an agent is woken: `webhook`, `local` or `none`. No key can',
      handler: personCall(deps, async ({ node, params, request }) => {
        const agent = await agentKeys.managed(node, params.id!);
        if (agent instanceof Refusal) return agent;
        const order = bodyOf(deliveryOrder, request);
        if (order instanceof Refusal) return order;
        const delivery = await deliveries.set(agent, order);
        return delivery instanceof Refusal ? delivery : shown(agent, delivery);
      }),
    },
  ];

  async function shown(agent: Agent, delivery: ShownDelivery): Promise<HttpResponse> {
    const { pending, failed, lastError } = await wakes.standing(agent.id);
    return json(200, { agent_id: agent.id, ...delivery, wakes: { pending, failed, last_error: lastError } });
  }
}

/** What the register response and the lists show of an agent. */
export function summary(agent: Agent): { id: string; name: string; description: string; address: string } {
  return { id: agent.id, name: agent.name, description: agent.description, address: agent.address };
}

function keyView(since: number | undefined): object {
  return since === undefined ? { set: false } : { set: true, created_at: iso(since) };
}
