import { readAddress } from '../directory/names.ts';
import type { Member } from '../directory/types.ts';
import { mayLeave } from '../federation/doors.ts';
import { exposes } from '../federation/exposure.ts';
import type { Link } from '../federation/types.ts';
import { networks } from '../lib/ip.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import type { Addressed, Arrived, Gate, Intact, Linked, Placed, Tools } from './facts.ts';
import { mayPublish } from './topic.ts';
import { unseen } from './unseen.ts';

type Facts = Arrived & Intact & Placed;

/**
 * Does the addressee's org take this from another org (REDSYN "Organizaciones y enlaces", design §4 "Two doors")? A link that is not active and
 * an agent that is not exposed are missing addresses; only then do the link's own rules speak. What leaves is judged by the far side.
 */
export const link: Gate<Facts, Linked & Partial<Pick<Placed, 'addressed'>>> = async (facts, tools) => {
  const { addressed, sender } = facts;
  if (addressed.kind === 'topic') return toTopic(addressed, facts, tools);
  if (addressed.kind === 'near_topic') return fromTopic(addressed, facts, tools);
  const agent = addressed.kind === 'agent' ? addressed.agent : addressed.kind === 'asker' ? addressed.asker : null;
  if (addressed.kind === 'missing') return { link: null };
  if (agent === null) return leaving(facts, tools);
  if (sender.kind === 'local' && sender.member.orgId === agent.orgId) {
    tools.note?.('within one organisation');
    return { link: null };
  }
  if (sender.kind !== 'local' && facts.links === null) {
    tools.note?.('it comes as itself, and needs consent instead of a link');
    return asItself(facts, agent.orgId, tools);
  }

  const found =
    sender.kind === 'local'
      ? await linkWithin(agent.orgId, sender.member, tools)
      : facts.links?.find(({ orgId }) => orgId === agent.orgId);
  // Up to here a hidden agent has cost as many look-ups as a missing one: time tells nothing either.
  if (found?.state !== 'active') {
    tools.note?.(found ? `the link with ${found.peerHandle} is ${found.state}` : 'no link with its organisation');
    return unseen();
  }
  const path = `${agent.team}/${agent.user}/${agent.handle}`;
  if (addressed.kind === 'agent' && !exposes(found.ours, path)) {
    tools.note?.(`the link with ${found.peerHandle} exposes ${patternsOf(found)}, not ${path}`);
    return unseen();
  }
  tools.note?.(`the link with ${found.peerHandle} is active and exposes ${patternsOf(found)}`);
  if ('domain' in sender && (await tools.federation.isDomainBlocked(agent.orgId, sender.domain))) return unseen();
  return rules(found, facts) ?? { link: found };
};

/** Another org's agent publishes only where the topic's org lets it. */
async function toTopic(
  { topic, org }: Extract<Addressed, { kind: 'topic' }>,
  facts: Facts,
  tools: Tools,
): Promise<Linked | Refusal> {
  const { sender } = facts;
  if (sender.kind === 'local' && sender.member.orgId === org.id) return { link: null };
  const found =
    sender.kind === 'local'
      ? await linkWithin(org.id, sender.member, tools)
      : facts.links?.find(({ orgId }) => orgId === org.id);
  if (!found || !mayPublish(found, topic)) return unseen();
  if ('domain' in sender && (await tools.federation.isDomainBlocked(org.id, sender.domain))) return unseen();
  return rules(found, facts) ?? { link: found };
}

/** What a topic's gateway hands on enters through every link whose rules let it. */
async function fromTopic(
  addressed: Extract<Addressed, { kind: 'near_topic' }>,
  facts: Facts,
  { federation }: Tools,
): Promise<(Linked & Pick<Placed, 'addressed'>) | Refusal> {
  const judged = await Promise.all(
    addressed.links.map(async (one) => {
      const { orgId, peerDomain } = one.link;
      return (await federation.isDomainBlocked(orgId, peerDomain!)) ? unseen() : (rules(one.link, facts) ?? one);
    }),
  );
  const links = judged.filter((one) => !(one instanceof Refusal)) as typeof addressed.links;
  const [first] = links;
  return first ? { link: first.link, addressed: { ...addressed, links } } : (judged[0] as Refusal);
}

/** An org that bears the name of a partner elsewhere is not that partner. */
async function linkWithin(orgId: string, member: Member, { federation }: Tools): Promise<Link | null> {
  const link = await federation.link(orgId, member.org);
  return link?.peerOrgId === member.orgId ? link : null;
}

/**
 * Who comes as itself needs no link; a new request of its meets its domain's block at consent, an answer here. What was asked through a link
 * is answered through it, in whichever of its names the peer signs.
 */
async function asItself(facts: Facts, orgId: string, { federation }: Tools): Promise<Linked | Refusal> {
  const { addressed, sender } = facts;
  if (addressed.kind !== 'asker' || !('domain' in sender) || sender.domain === '') return { link: null };
  if (await federation.isDomainBlocked(orgId, sender.domain)) return unseen();
  const asked = readAddress(addressed.exchange.askedAddr);
  const found = asked instanceof Refusal ? null : await federation.link(orgId, asked.org);
  if (found === null) return { link: null };
  return found.state === 'active' ? (rules(found, facts) ?? { link: found }) : unseen();
}

/** A request that leaves met its link at the address gate; an answer to somebody elsewhere meets it here, and so does a block of a domain. */
async function leaving({ addressed, sender }: Facts, { federation }: Tools): Promise<Linked | Refusal> {
  if (addressed.kind === 'foreign' && sender.kind === 'local') {
    const blocked = await federation.isDomainBlocked(sender.member.orgId, addressed.domain);
    return blocked ? refuse('policy_denied', `Your organisation has blocked ${addressed.domain}.`) : { link: null };
  }
  if (addressed.kind !== 'asker' || sender.kind !== 'local') return { link: null };
  const { id: owner, orgId } = sender.member;
  if (await mayLeave({ orgId, owner, to: addressed.exchange.askerAddr }, federation)) return { link: null };
  return refuse('exchange_closed', 'The link with the organisation that asked has ended: no answer leaves for it.');
}

function patternsOf({ ours }: Link): string {
  const patterns = ours.flatMap(({ kind, pattern }) => (kind === 'agent' ? [pattern] : []));
  return patterns.join(', ') || 'nothing';
}

function rules({ ips, signedOnly }: Link, { inbound, column, sender, signature }: Facts): Refusal | null {
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
  const isNotice = sender.kind === 'relay' && column === 'answer';
  if (signedOnly && !signature && !isNotice) {
    return refuse('policy_denied', "The link takes only messages that the sender's node signed", {
      data: { signed_only: true },
    });
  }
  return null;
}
