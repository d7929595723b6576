import { ownerDid, ownerOfDid, readDid } from '../directory/dids.ts';
import { formatAddress, readAddress, type Seat, withoutSession } from '../directory/names.ts';
import type { Address, Agent } from '../directory/types.ts';
import type { ExchangeRef } from '../exchange/lookups.ts';
import type { Envelope } from '../exchange/message.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import type { Addressed, Arrived, LocalSender, Placed, Tools } from './facts.ts';
import type { PlacedSender } from './sender.ts';
import { unauthenticated, unseen } from './unseen.ts';

type Facts = Arrived & PlacedSender & Pick<Placed, 'envelope'>;

/** Where a request goes: to an agent here or, for senders of this instance, behind a link. Nobody's message is passed on for a stranger. */
export async function findAddressee(facts: Facts, tools: Tools): Promise<Addressed | Refusal> {
  const { inbound, envelope, sender } = facts;
  const { addressee } = inbound;
  const to = envelope.to ?? '';
  if (addressee === null) return sender.kind === 'anonymous' ? unauthenticated(tools.self) : unseen();
  if (to === '') {
    return addressee ? { kind: 'agent', agent: addressee, session: null } : invalid('`to` is missing.');
  }
  const found = await lookUp(to, sender.kind === 'local' ? sender.agent : null, tools);
  if (found instanceof Refusal) return found;
  if (addressee && found.agent && found.agent.id !== addressee.id) {
    // To outsiders that would tell that both are there (FED-06).
    return sender.kind === 'local' && sender.member.orgId === addressee.orgId
      ? invalid('`to` names another agent than the address that was called.')
      : unseen();
  }
  if (found.agent) return { kind: 'agent', agent: found.agent, session: found.address?.session ?? null };
  if (sender.kind === 'anonymous') return unauthenticated(tools.self);
  if (sender.kind !== 'local' || addressee) return unseen();
  return behindLink(to, found.address, sender, tools);
}

async function lookUp(
  to: string,
  seat: Agent | null,
  { directory }: Tools,
): Promise<{ agent: Agent | null; address: Address | null } | Refusal> {
  if (to.startsWith('did:')) return { agent: await directory.agentByDid(to), address: null };
  const address = readAddress(to, seat ? { seat: seat satisfies Seat } : {});
  if (address instanceof Refusal) return address;
  return { agent: await directory.agentAt(address), address };
}

/** What the far side exposes is for the far side to say: what it told us of it may be old. */
async function behindLink(
  to: string,
  address: Address | null,
  { member }: LocalSender,
  { federation }: Tools,
): Promise<Addressed | Refusal> {
  const peer = address?.org ?? readDid(to)?.authority;
  const link = peer === undefined ? null : await federation.link(member.orgId, peer);
  if (!link?.peerDomain || link.state !== 'active') return unseen();
  const { peerDomain: domain, peerHandle, peerOrg, peerIsPrimary, id: linkId } = link;
  const name = address ?? readDid(to);
  if (!name || !('user' in name)) return unseen();
  const owner = ownerDid(domain, { org: peerIsPrimary ? null : (peerOrg ?? peerHandle), user: name.user });
  if (!address && ownerOfDid(to) !== owner) return unseen();
  // In one spelling and without its session, so that the answer finds its exchange; what leaves keeps `to` as it was written.
  const plain =
    'team' in name
      ? formatAddress({ org: peerHandle, team: name.team, user: name.user, agent: name.agent, session: null })
      : to;
  return { kind: 'remote', address: plain, domain, linkId, owner };
}

/** The exchange that a progress or reply belongs to. Only who was asked may answer, from the agent that was asked. */
export async function findAsker(facts: Facts, tools: Tools): Promise<Addressed | Refusal> {
  const { inbound, envelope, sender } = facts;
  const replyTo = envelope.reply_to;
  if (!replyTo) return invalid('`reply_to` is missing: the id of the request.', 'reply_to');
  if (sender.kind === 'anonymous') return unauthenticated(tools.self);
  const exchange =
    sender.kind === 'local'
      ? await answerable(replyTo, inbound.thread ?? envelope.thread ?? null, envelope, sender, tools)
      : await tools.lookups.answerableByPeer({
          domain: sender.domain,
          from: withoutSession(sender.address),
          replyTo,
          askerAgent: inbound.addressee?.id ?? (await agentIdAt(envelope.to, tools)),
        });
  if (exchange instanceof Refusal) return exchange;
  return {
    kind: 'asker',
    exchange,
    asker: exchange.askerAgent === null ? null : await tools.directory.agentById(exchange.askerAgent),
  };
}

async function answerable(
  replyTo: string,
  thread: string | null,
  { to }: Envelope,
  { agent }: LocalSender,
  { lookups }: Tools,
): Promise<ExchangeRef | Refusal> {
  if (!agent) return refuse('sender_mismatch', 'Only an announced agent can answer.');
  return lookups.answerableByAgent({ agentId: agent.id, replyTo, thread: thread || null, to: to || null });
}

async function agentIdAt(to: string | undefined, tools: Tools): Promise<string | null> {
  if (!to) return null;
  const found = await lookUp(to, null, tools);
  return found instanceof Refusal ? null : (found.agent?.id ?? null);
}

function invalid(words: string, field = 'to'): Refusal {
  return refuse('invalid_field', words, { data: { field } });
}
