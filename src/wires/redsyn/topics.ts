import { z } from 'zod';
import { formatAddress, readAddress } from '../../directory/names.ts';
import type { Agent, Directory, NodeIdentity } from '../../directory/types.ts';
import type { Topics } from '../../exchange/topics/index.ts';
import type { Route } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { type CallDeps, call, json } from './common.ts';

export interface TopicsWireDeps extends CallDeps {
  directory: Pick<Directory, 'orgById' | 'agentAt'>;
  topics: Pick<Topics, 'subscribe' | 'unsubscribe' | 'list'>;
}

const subscription = z.object({ agent: z.string().max(600), topic: z.string().max(600) });

/** REDSYN "Tópicos y eventos"; publishing is `POST /messages`. */
export function topicRoutes(deps: TopicsWireDeps): Route[] {
  const { topics } = deps;
  return [
    {
      method: 'PUT',
      path: '/redsyn/v1/subscriptions',
      about: 'One of your agents listens to a topic; 202 while the gateway of the topic has not been asked',
      handler: call(deps, subscription, async ({ node, body }) => {
        const agent = await ownAgent(deps, node, body.agent);
        if (agent instanceof Refusal) return agent;
        const done = await topics.subscribe(agent, body.topic);
        if (done instanceof Refusal) return done;
        const { topic, isNew, pending } = done;
        return json(pending ? 202 : isNew ? 201 : 200, { agent: agent.address, topic, ...(pending && { pending }) });
      }),
    },
    {
      method: 'POST',
      path: '/redsyn/v1/subscriptions/remove',
      about: 'One of your agents stops listening to a topic',
      handler: call(deps, subscription, async ({ node, body }) => {
        const agent = await ownAgent(deps, node, body.agent);
        if (agent instanceof Refusal) return agent;
        const done = await topics.unsubscribe(agent, body.topic);
        return done instanceof Refusal ? done : json(200, { agent: agent.address, ...done });
      }),
    },
    {
      method: 'GET',
      path: '/redsyn/v1/topics',
      about: 'The topics of your orgs and those that your orgs listen to, and who listens',
      handler: call(deps, async ({ node, query }) => {
        const orgIds = node.members.map((member) => member.orgId);
        return json(200, await topics.list(orgIds, query.get('after') ?? ''));
      }),
    },
  ];
}

/** Colleagues are told whose it is; to others it does not exist. */
async function ownAgent(deps: TopicsWireDeps, node: NodeIdentity, text: string): Promise<Agent | Refusal> {
  const address = readAddress(text, { field: 'agent' });
  if (address instanceof Refusal) return address;
  const agent = await deps.directory.agentAt(address);
  if (agent?.personId === node.personId) return agent;
  if (agent && node.members.some((member) => member.orgId === agent.orgId)) {
    return refuse('forbidden', `${agent.address} is ${agent.user}'s: only she says what it listens to.`);
  }
  const plain = formatAddress({ ...address, session: null });
  return refuse('address_not_found', `You have no agent ${plain}. Announce it first.`);
}
