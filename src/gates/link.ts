import { exposes } from '../federation/exposure.ts';
import type { Link } from '../federation/types.ts';
import { networks } from '../lib/ip.ts';
import { type Refusal, refuse } from '../lib/refusal.ts';
import type { Arrived, Gate, Intact, Linked, Placed, Tools } from './facts.ts';
import { unseen } from './unseen.ts';

type Facts = Arrived & Intact & Placed;

/**
 * Does the addressee's org take this from another org (REDSYN "Organizaciones y enlaces", design §4 "Two doors")? A link that is not active and
 * an agent that is not exposed are missing addresses; only then do the link's own rules speak. What leaves is judged by the far side.
 */
export const link: Gate<Facts, Linked> = async (facts, tools) => {
  const { addressed, sender } = facts;
  const agent = addressed.kind === 'agent' ? addressed.agent : addressed.kind === 'asker' ? addressed.asker : null;
  if (agent === null) return { link: null };
  if (sender.kind === 'local' && sender.member.orgId === agent.orgId) return { link: null };
  if (sender.kind !== 'local' && facts.links === null) return asItself(facts, agent.orgId, tools);

  const found =
    sender.kind === 'local'
      ? await tools.federation.link(agent.orgId, sender.member.org)
      : facts.links?.find(({ orgId }) => orgId === agent.orgId);
  // Up to here a hidden agent has cost as many look-ups as a missing one: time tells nothing either.
  if (found?.state !== 'active') return unseen();
  if (addressed.kind === 'agent' && !exposes(found.ours, `${agent.team}/${agent.user}/${agent.handle}`))
    return unseen();
  if ('domain' in sender && (await tools.federation.isDomainBlocked(agent.orgId, sender.domain))) return unseen();
  return rules(found, facts) ?? { link: found };
};

/** Who comes as itself needs no link; a new request of its meets its domain's block at consent, an answer here. */
async function asItself({ addressed, sender }: Facts, orgId: string, { federation }: Tools): Promise<Linked | Refusal> {
  if (addressed.kind !== 'asker' || !('domain' in sender) || sender.domain === '') return { link: null };
  return (await federation.isDomainBlocked(orgId, sender.domain)) ? unseen() : { link: null };
}

function rules({ ips, signedOnly }: Link, { inbound, sender, signature }: Facts): Refusal | null {
  if (ips.length > 0 && !networks(ips)(inbound.request.ip)) {
    return refuse(
      'policy_denied',
      'The link takes messages only from addresses that the receiving organisation has listed',
      {
        detail: inbound.request.ip,
      },
    );
  }
  // What became of a message is told by the other gateway itself, whose request signature vouches for it; no node signs such a notice.
  if (signedOnly && !signature && sender.kind !== 'relay') {
    return refuse('policy_denied', "The link takes only messages that the sender's node signed", {
      data: { signed_only: true },
    });
  }
  return null;
}
