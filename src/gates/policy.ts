import type { Agent } from '../directory/types.ts';
import { refuse } from '../lib/refusal.ts';
import type { Arrived, Consented, Gate, Intact, LocalSender, Placed, Tools } from './facts.ts';

/**
 * Does the agent's own policy take this request (REDSYN "Agentes y presencia")? `allow` is asked of its own organisation alone, which is
 * told the exact reason; whoever comes from elsewhere met it at consent. Answers are not asked: the agent asked for them.
 */
export const policy: Gate<Arrived & Placed & Intact & Consented, object> = async (facts, tools) => {
  const { addressed, sender, signature, envelope } = facts;
  if (addressed.kind !== 'agent') return {};
  const { agent } = addressed;
  if (sender.kind === 'local' && sender.member.orgId === agent.orgId && !(await takesFrom(agent, sender, tools))) {
    return refuse('policy_denied', `${agent.address} takes requests only from ${listing(agent)}`);
  }
  if ((agent.signedOnly || agent.trust === 'full') && !signature) {
    return refuse('policy_denied', `${agent.address} takes only requests that the sender's node signed`, {
      data: { signed_only: true },
    });
  }
  if (agent.encryptedOnly && !isSealed(envelope.body)) {
    return refuse('policy_denied', `${agent.address} takes only end-to-end encrypted requests`, {
      data: { encrypted_only: true },
    });
  }
  return {};
};

/** An agent always takes its owner's requests; an empty `allow` is its own team. */
async function takesFrom(agent: Agent, { member }: LocalSender, { directory }: Tools): Promise<boolean> {
  const { allow } = agent;
  if (member.id === agent.memberId) return true;
  if (
    allow.some((word) => word === 'org' || word === 'anyone' || word === member.handle || word === `org:${member.org}`)
  )
    return true;
  const teams =
    allow.length === 0
      ? [agent.team]
      : allow.flatMap((word) => (word.startsWith('team:') ? [word.slice('team:'.length)] : []));
  if (teams.length === 0) return false;
  const own = await directory.teamsOf(member.id);
  return teams.some((team) => own.includes(team));
}

/** `team ops`, `ana, team ops, org globex`. */
function listing({ allow, team, org }: Agent): string {
  if (allow.length === 0) return `team ${team}`;
  return allow.map((word) => (word === 'org' ? `org ${org}` : word.replace(/^(team|org):/, '$1 '))).join(', ');
}

/** The relay looks no further than the outside of a sealed body (REDSYN "Qué hace el relay"). */
export function isSealed(body: { type: string; enc?: unknown }): boolean {
  return body.type === 'application/redsyn+encrypted' && typeof body.enc === 'object' && body.enc !== null;
}
