import { isTopic, readAddress, readTopic, type Topic } from '../directory/names.ts';
import { exposes } from '../federation/exposure.ts';
import type { Link } from '../federation/types.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import type { Addressed, Arrived, Placed, Tools } from './facts.ts';
import type { PlacedSender } from './sender.ts';
import { unauthenticated, unseen } from './unseen.ts';

type Facts = Arrived & PlacedSender & Pick<Placed, 'envelope'>;

/**
 * Where an event goes (REDSYN "Tópicos y eventos"): to a topic of an org here, to the gateway of a linked org's topic, or, when that gateway hands it
 * on, to whoever listens here. A topic is made by its first use, so what is missing and what is hidden differ in nothing (FED-06).
 */
export async function findTopic(facts: Facts, tools: Tools): Promise<Addressed | Refusal> {
  const { inbound, envelope, sender } = facts;
  if (sender.kind === 'anonymous') return unauthenticated(tools.self);
  if (sender.kind === 'relay') return handedOn(facts, tools);
  const to = envelope.to ?? '';
  if (inbound.addressee !== undefined || !isTopic(to)) {
    return refuse('invalid_field', 'An event goes to a topic: topic:org/team/name.', { data: { field: 'to' } });
  }
  const seat = sender.kind === 'local' ? sender.agent : null;
  const topic = readTopic(to, seat ? { seat } : {});
  if (topic instanceof Refusal) return topic;
  const org = await tools.directory.org(topic.org);
  if (org) return { kind: 'topic', topic: { ...topic, org: org.handle }, org };
  if (sender.kind !== 'local') return unseen();
  const link = await tools.federation.link(sender.member.orgId, topic.org);
  if (!link?.peerDomain || link.state !== 'active') return unseen();
  const { peerDomain: domain, peerHandle, id: linkId } = link;
  return { kind: 'far_topic', topic: { ...topic, org: peerHandle }, domain, linkId };
}

/** The links here that it is for: of the orgs that the topic's gateway names, and that follow that very org. */
async function handedOn({ inbound, links, sender }: Facts, { directory }: Tools): Promise<Addressed | Refusal> {
  const given = inbound.handedOn;
  const topic = given && readTopic(given.topic);
  if (!given || !links || !topic || topic instanceof Refusal) return unseen();
  const orgs = await Promise.all(links.map((link) => directory.orgById(link.orgId)));
  const meant = links.flatMap((link, i) => {
    const named = given.audience.find(({ org }) => org === orgs[i]?.handle);
    return named && link.peerOrg === topic.org ? [{ link, rev: named.rev }] : [];
  });
  const [first] = meant;
  if (!first) return unseen();
  const from = readAddress(sender.address);
  const skip = from instanceof Refusal ? null : await directory.agentAt({ ...from, session: null });
  return { kind: 'near_topic', topic: { ...topic, org: first.link.peerHandle }, links: meant, skip };
}

/** `team/name`: a topic within its org, as exposures name it. */
export function topicPath({ team, name }: Pick<Topic, 'team' | 'name'>): string {
  return `${team}/${name}`;
}

/** Whether the org of a topic lets the peer of `link` publish. */
export function mayPublish(link: Link, topic: Topic): boolean {
  return link.state === 'active' && exposes(link.ours, topicPath(topic), 'pub');
}
