import { formatTopic } from '../directory/names.ts';
import { derivedId, newId } from '../lib/ids.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import type { Addressed, Arrived, Consented, Gate, Linked, Placed, Threaded, Tools } from './facts.ts';
import { isSealed } from './policy.ts';
import { topicPath } from './topic.ts';
import { unseen } from './unseen.ts';

const MAX_THREAD = 256;

type Topical = Extract<Addressed, { kind: 'topic' | 'near_topic' | 'far_topic' }>;

/**
 * Which thread may this message be part of (design §4 "Thread binding")? The asked one is only a request: here it gets the id that it has under
 * the addressed owner, and the exchange's transaction decides which of the two it is.
 */
export const thread: Gate<Arrived & Placed & Linked & Consented, Threaded> = async (facts, tools) => {
  const { addressed, envelope, inbound } = facts;
  const asked = (inbound.thread ?? envelope.thread) || null;
  if (asked !== null && (asked.length > MAX_THREAD || asked.includes('\0'))) {
    return refuse('invalid_field', `\`thread\` is longer than ${MAX_THREAD} characters or holds a NUL.`, {
      data: { field: 'thread' },
    });
  }
  switch (addressed.kind) {
    case 'asker':
      return {
        target: { kind: 'asker', exchangeId: addressed.exchange.id },
        thread: asked ?? addressed.exchange.requestId,
        reservedFor: null,
      };
    case 'topic':
    case 'near_topic':
    case 'far_topic':
      return { target: topicTarget(addressed, facts), thread: asked ?? envelope.id, reservedFor: null };
    case 'remote':
    case 'foreign': {
      const { owner, ...target } = addressed;
      return {
        target: { ...target, peerId: await tools.federation.peerId(owner) },
        thread: asked ?? envelope.id,
        reservedFor: null,
      };
    }
    case 'missing':
      return unseen();
    case 'agent':
      return bind(addressed, asked, facts, tools);
  }
};

/** A publisher of another org is checked against its link again whenever a copy is handed out. */
function topicTarget(addressed: Topical, { link, sender }: Arrived & Placed & Linked): Threaded['target'] {
  const { topic } = addressed;
  const { team, name } = topic;
  const to = { kind: 'event' as const, address: formatTopic(topic), team, name };
  switch (addressed.kind) {
    case 'topic': {
      const checks = link ? [`pub ours ${link.id} ${topicPath(topic)}`] : [];
      const skip = sender.kind === 'local' ? (sender.agent?.id ?? null) : null;
      return { ...to, spread: { to: 'own', orgId: addressed.org.id, org: addressed.org.handle, checks, skip } };
    }
    case 'near_topic': {
      const revs = Object.fromEntries(addressed.links.map(({ link: { id }, rev }) => [id, rev]));
      return { ...to, spread: { to: 'behind', revs, skip: addressed.skip?.id ?? null } };
    }
    case 'far_topic':
      return { ...to, spread: { to: 'far', domain: addressed.domain, linkId: addressed.linkId } };
  }
}

async function bind(
  { kind, agent, session }: Extract<Addressed, { kind: 'agent' }>,
  asked: string | null,
  { inbound, envelope, sender, senderKey }: Arrived & Placed & Consented,
  { lookups, directory, clock }: Tools,
): Promise<Threaded | Refusal> {
  if (typeof session === 'number') {
    const found = await lookups.session({ agentId: agent.id, n: session, participant: senderKey });
    if (found instanceof Refusal) return found;
  }
  const isLocal = sender.kind === 'local';
  // "Un pedido sin hilo abre uno con su propio id"; an id that its sender may use again opens a new one each time.
  const own = asked ?? (inbound.idempotent ? envelope.id : null);
  const participant = senderKey.slice(senderKey.indexOf(':') + 1);
  const derived = own === null ? newId(clock) : derivedId(['a2a-thread', agent.memberId, participant, own]);
  return {
    target: { kind, agent, session, thread: { asked: own, derived, mayOpen: isLocal } },
    thread: own ?? derived,
    reservedFor: isSealed(envelope.body) ? await directory.sealedFor(agent.id, sealer(sender)) : null,
  };
}

/** As whom the sender was told the key that it seals for. */
function sealer(sender: Placed['sender']): string | null {
  if (sender.kind === 'local') return `m:${sender.member.id}`;
  return sender.kind === 'peer' ? `d:${sender.did}` : null;
}
