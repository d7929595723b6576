import { roomOf } from '../directory/rooms.ts';
import type { Agent } from '../directory/types.ts';
import { type Refusal, refuse } from '../lib/refusal.ts';
import { countdownMs, effectsOf, levelOf } from './actions.ts';
import { excerpt } from './excerpt.ts';
import type { Acting, Arrived, Consented, Gate, Intact, Judged, Linked, LocalSender, Placed, Tools } from './facts.ts';
import { strictest } from './policies/evaluate.ts';

type Facts = Arrived & Acting & Placed & Intact & Linked & Consented;

/**
 * Does the agent's own policy take this request (REDSYN "Agentes y presencia")? `allow` is asked of its own organisation alone, which is
 * told the exact reason; whoever comes from elsewhere met it at consent. Answers are not asked: the agent asked for them.
 */
export const policy: Gate<Facts, Judged> = async (facts, tools) => {
  const { addressed, sender, signature, envelope } = facts;
  if (addressed.kind !== 'agent') return { held: null };
  const { agent } = addressed;
  // Who writes to a room was asked at consent: its members.
  const isRoom = roomOf(agent) !== null;
  if (
    !isRoom &&
    sender.kind === 'local' &&
    sender.member.orgId === agent.orgId &&
    !(await takesFrom(agent, sender, tools))
  ) {
    tools.note?.(`the agent's \`allow\`: ${listing(agent)}`);
    return refuse('policy_denied', `${agent.address} takes requests only from ${listing(agent)}`);
  }
  if (sender.kind === 'local' && sender.member.orgId === agent.orgId)
    tools.note?.(`the agent's \`allow\`: ${listing(agent)}`);
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
  return standing(agent, facts, tools);
};

/**
 * And its owner's standing rules (src/gates/policies/evaluate.ts has the order)? They speak of peers: her own organisation met `allow`, and nobody in
 * particular is who she let in with `anyone`.
 */
async function standing(agent: Agent, facts: Facts, tools: Tools): Promise<Judged | Refusal> {
  const { sender, names, contact, link, actions, envelope } = facts;
  if (sender.kind === 'anonymous' || (sender.kind === 'local' && sender.member.orgId === agent.orgId))
    return { held: null };
  const rules = await tools.policies.standing({
    owner: agent.memberId,
    names,
    contactPolicy: contact?.policy ?? null,
  });
  const domain = 'domain' in sender ? sender.domain : tools.self.domain;
  const asker = { names, domain, contact: contact && { alias: contact.alias ?? null }, org: link?.peerHandle ?? null };
  const { verdict, rule, action } = strictest(actions, asker, rules);
  tools.note?.(rule);
  if (verdict === 'allow') return { held: null };
  if (verdict === 'deny') return refuse('policy_denied');
  // What asks nothing is shown, and waits for nobody.
  if (envelope.kind !== 'request') return { held: null };
  // What is said in a room cannot wait for one of those who hear it.
  if (roomOf(agent)) return refuse('policy_denied');
  const level = levelOf(action);
  const decidableAt = tools.clock.now() + (level === 'L3' ? countdownMs : 0);
  const effects = actions.flatMap(effectsOf);
  const linkId = link?.id ?? null;
  return {
    held: {
      level: level === 'L3' ? 'L3' : 'L2',
      action,
      effects,
      names,
      domain,
      linkId,
      content: excerpt(envelope.body),
      decidableAt,
    },
  };
}

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
