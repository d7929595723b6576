import { type Did, didWeb, didWebParts, isDidWeb, parseDid } from '../identity/did.ts';
import { Refusal } from '../lib/refusal.ts';
import { authorityOf, formatAddress, isName } from './names.ts';
import type { Address } from './types.ts';

/** An owner on some Gatehouse; `org` is null in the primary org, whose DIDs leave it out (design §3). */
export interface OwnerName {
  org: string | null;
  user: string;
}

export interface AgentName extends OwnerName {
  team: string;
  agent: string;
}

/** What a did:web of design §3 names on the instance at `authority`. `default`: an owner's `…:agent`, her default agent. */
export type DidName = { authority: string } & (
  | { kind: 'instance' }
  | ({ kind: 'owner' } & OwnerName)
  | ({ kind: 'default' } & OwnerName)
  | ({ kind: 'agent' } & AgentName)
);

/** What stands for an owner's default agent in an address: `h/agents/u/agent` (design §3). No team here may be called so. */
export const teamless = { team: 'agents', agent: 'agent' } as const;

export function instanceDid(authority: string): string {
  return didWeb(authority);
}

export function ownerDid(authority: string, { org, user }: OwnerName): string {
  return didWeb(authority, ...orgSegments(org), 'agents', user);
}

export function agentDid(authority: string, { org, user, team, agent }: AgentName): string {
  return didWeb(authority, ...orgSegments(org), 'agents', user, team, agent);
}

/** Reads a did:web of design §3, or null when it is of another kind or shape. */
export function readDid(did: string): DidName | null {
  const parsed: Did | Refusal = parseDid(did, { allowIp: true });
  if (parsed instanceof Refusal || !isDidWeb(parsed)) return null;
  const { authority, segments } = didWebParts(parsed);
  if (segments.length === 0) return { authority, kind: 'instance' };
  if (!segments.every(isName)) return null;
  const [orgs, handle, ...beneath] = segments;
  const [org, [agents, user, team, agent, ...more]] = orgs === 'orgs' ? [handle ?? null, beneath] : [null, segments];
  if ((orgs === 'orgs' && org === null) || agents !== 'agents' || user === undefined || more.length > 0) return null;
  if (team === undefined) return { authority, kind: 'owner', org, user };
  if (agent !== undefined) return { authority, kind: 'agent', org, user, team, agent };
  return team === 'agent' ? { authority, kind: 'default', org, user } : null;
}

/** The owner's DID above an agent's; an owner's own; null for an instance and for what is no DID of design §3. */
export function ownerOfDid(did: string): string | null {
  const name = readDid(did);
  return name && name.kind !== 'instance' ? ownerDid(name.authority, name) : null;
}

/**
 * The address of a foreign DID: `acme.com/finance/ana/close`, or `h/agents/u/agent` for an owner and her default agent. Null where an
 * address would not be unique in the world (an org that is not its instance's primary one): such a principal goes by its DID.
 */
export function addressOfDid(did: string): string | null {
  const name = readDid(did);
  if (!name || name.kind === 'instance' || name.org !== null) return null;
  const { authority: org, user } = name;
  const { team, agent } = name.kind === 'agent' ? name : teamless;
  return formatAddress({ org, team, user, agent, session: null });
}

/** The DID behind an address whose org segment is an authority; null when it is a handle, which only a link can place. */
export function didOfAddress(address: Address): string | null {
  const authority = authorityOf(address.org);
  if (authority === null) return null;
  const { user, team, agent } = address;
  const isTeamless = team === teamless.team && agent === teamless.agent;
  const did = [
    'did:web',
    authority.replace(':', '%3A'),
    'agents',
    user,
    ...(isTeamless ? ['agent'] : [team, agent]),
  ].join(':');
  return parseDid(did, { allowIp: true }) instanceof Refusal ? null : did;
}

function orgSegments(org: string | null): string[] {
  return org === null ? [] : ['orgs', org];
}
