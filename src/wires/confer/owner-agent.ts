import { readAddress } from '../../directory/names.ts';
import type { Agent, Directory } from '../../directory/types.ts';
import type { Handler, HttpResponse } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { type OwnerCall, type OwnerCallDeps, ownerCall } from './owner-call.ts';

export interface OwnerAgentDeps extends OwnerCallDeps {
  directory: Pick<Directory, 'agentAt'>;
}

/** Beneath the prefix of a route: an agent by its address. */
export const agentSegments = '{org}/{team}/{user}/{agent}';

/** A call about an agent of one's own. Somebody else's is `not_found`, as one that is not there. */
export function agentCall(
  deps: OwnerAgentDeps,
  handler: (agent: Agent, call: OwnerCall) => Promise<HttpResponse | Refusal>,
): Handler {
  return ownerCall(deps, async (call) => {
    const agent = await agentOf(deps, call);
    if (agent instanceof Refusal) return agent;
    return call.owners.includes(agent.memberId) ? handler(agent, call) : noAgent();
  });
}

/** The agent that the path names, of one of the caller's organisations, whoever owns it. */
export async function agentOf({ directory }: OwnerAgentDeps, { node, params }: OwnerCall): Promise<Agent | Refusal> {
  const { org, team, user, agent } = params;
  return namedAgent({ directory }, node.members, `${org}/${team}/${user}/${agent}`);
}

export async function namedAgent(
  { directory }: Pick<OwnerAgentDeps, 'directory'>,
  members: OwnerCall['node']['members'],
  text: string,
): Promise<Agent | Refusal> {
  const address = readAddress(text, { field: 'agent' });
  if (address instanceof Refusal) return address;
  const found = await directory.agentAt({ ...address, session: null });
  return found && members.some(({ orgId }) => orgId === found.orgId) ? found : noAgent();
}

function noAgent(): Refusal {
  return refuse('not_found', 'You have no such agent.');
}
