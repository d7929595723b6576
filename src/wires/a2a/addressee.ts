import { agentDid, instanceDid, ownerDid } from '../../directory/dids.ts';
import { isName } from '../../directory/names.ts';
import type { Agent, Directory } from '../../directory/types.ts';
import { type Refusal, refuse } from '../../lib/refusal.ts';

export interface AgentFinder extends Pick<Directory, 'agentAt' | 'agentByDid'> {
  /** The agent at the instance's bare URL, or null. */
  frontDesk(): Promise<Agent | null>;
}

/** Whom a URL or a tenant names. `to`: how an envelope names it; when nobody is there, that is for the gates to say. */
export interface Named {
  agent: Agent | null;
  to: string;
}

/**
 * The agent that a tenant names: `ana` (her default agent), `ana:finance:close`, and before either `orgs:<org>:agents:` for an org that is not
 * the primary one. The same names stand in the paths of `/agents/…`.
 */
export async function findTenant(tenant: string, finder: AgentFinder, authority: string): Promise<Named | Refusal> {
  const names = tenant.split(':');
  const [org, path] =
    names.length > 3 && names[0] === 'orgs' && names[2] === 'agents' ? [names[1]!, names.slice(3)] : [null, names];
  const [user = '', team, agent] = path;
  const isOwner = path.length === 1 || (path.length === 2 && team === 'agent');
  if (!names.every(isName) || !(isOwner || path.length === 3)) {
    return refuse('invalid_field', '`tenant` must be <user> or <user>:<team>:<agent>.', { data: { field: 'tenant' } });
  }
  const did = isOwner
    ? ownerDid(authority, { org, user })
    : agentDid(authority, { org, user, team: team!, agent: agent! });
  const found = isOwner
    ? await finder.agentByDid(did)
    : await finder.agentAt({ org: org ?? authority, team: team!, user, agent: agent!, session: null });
  return { agent: found, to: found?.address ?? did };
}

export async function findFrontDesk(finder: AgentFinder, authority: string): Promise<Named> {
  const agent = await finder.frontDesk();
  return { agent, to: agent?.address ?? instanceDid(authority) };
}

/** The tenant of an agent on another Gatehouse, by its address: an authority is the primary org there, a handle may be any org. */
export function tenantOf(
  address: { org: string; team: string; user: string; agent: string },
  isAuthority: boolean,
): string {
  const { org, team, user, agent } = address;
  return isAuthority ? `${user}:${team}:${agent}` : `orgs:${org}:agents:${user}:${team}:${agent}`;
}
