import { addressOfDid, didOfAddress, ownerDid, ownerOfDid, readDid, teamless } from '../directory/dids.ts';
import { formatAddress, readAddress, type Seat, withoutSession } from '../directory/names.ts';
import type { Address, Agent } from '../directory/types.ts';
import type { ExchangeRef } from '../exchange/lookups.ts';
import type { Envelope } from '../exchange/message.ts';
import { didWebParts, isDidWeb, parseDid } from '../identity/did.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import type { Addressed, Arrived, LocalSender, Placed, Tools } from './facts.ts';
import { isSealed } from './policy.ts';
import type { PlacedSender } from './sender.ts';
import { unauthenticated, unseen } from './unseen.ts';

type Facts = Arrived & PlacedSender & Pick<Placed, 'envelope'>;

/** Where a request goes: to an agent here or, for senders of this instance, behind a link. Nobody's message is passed on for a stranger. */
export async function findAddressee(facts: Facts, tools: Tools): Promise<Addressed | Refusal> {
  const { inbound, envelope, sender } = facts;
  const { addressee } = inbound;
  const to = envelope.to ?? '';
  if (addressee === null) {
    if (sender.kind === 'anonymous') return unauthenticated(tools.self);
    return inbound.named !== undefined && facts.links === null && sender.kind !== 'local'
      ? missing(inbound.named, null, tools)
      : unseen();
  }
  if (to === '') {
    return addressee ? { kind: 'agent', agent: addressee, session: null } : invalid('`to` is missing.');
  }
  if (/^https?:/i.test(to)) return addressee ? unseen() : cardAt(to, facts, tools);
  // Mostly `to` and the address that was called say the same; then it was looked up already.
  const found =
    addressee && withoutSession(to) === addressee.address
      ? placed(addressee, to)
      : await lookUp(to, sender.kind === 'local' ? sender.agent : null, tools);
  if (found instanceof Refusal) return found;
  if (addressee && found.agent && found.agent.id !== addressee.id) {
    // To outsiders that would tell that both are there (FED-06).
    return sender.kind === 'local' && sender.member.orgId === addressee.orgId
      ? invalid('`to` names another agent than the address that was called.')
      : unseen();
  }
  if (found.agent) return { kind: 'agent', agent: found.agent, session: found.address?.session ?? null };
  if (sender.kind === 'anonymous') return unauthenticated(tools.self);
  if (sender.kind !== 'local') return addressee || facts.links !== null ? unseen() : missing(to, found.address, tools);
  if (addressee) return unseen();
  return (await behindLink(to, found.address, sender, tools)) ?? asForeign(to, found.address, facts, tools);
}

type Found = { agent: Agent | null; address: Address | null };

function placed(agent: Agent, to: string): Found | Refusal {
  const address = readAddress(to);
  return address instanceof Refusal ? address : { agent, address };
}

async function lookUp(to: string, seat: Agent | null, { directory }: Tools): Promise<Found | Refusal> {
  if (to.startsWith('did:')) return { agent: await directory.agentByDid(to), address: null };
  const address = readAddress(to, seat ? { seat: seat satisfies Seat } : {});
  if (address instanceof Refusal) return address;
  return { agent: await directory.agentAt(address), address };
}

/** Nobody at an address or DID whose owner may be here all the same. */
async function missing(to: string, address: Address | null, { directory, self }: Tools): Promise<Addressed | Refusal> {
  const name = address ?? readDid(to);
  if (!name || !('user' in name) || ('authority' in name && name.authority !== self.domain)) return unseen();
  const owner = await directory.memberNamed(name.org, name.user);
  return owner ? { kind: 'missing', owner: owner.id, orgId: owner.orgId } : unseen();
}

/** What the far side exposes is for the far side to say: what it told us of it may be old. Null when no active link leads there. */
async function behindLink(
  to: string,
  address: Address | null,
  { member }: LocalSender,
  { federation }: Tools,
): Promise<Addressed | null> {
  const name = address ?? readDid(to);
  if (!name || !('user' in name)) return null;
  const link = await federation.link(member.orgId, 'authority' in name ? name.authority : name.org);
  if (!link?.peerDomain || link.state !== 'active') return null;
  const { peerDomain: domain, peerHandle, peerOrg, peerIsPrimary, id: linkId } = link;
  const owner = ownerDid(domain, { org: peerIsPrimary ? null : (peerOrg ?? peerHandle), user: name.user });
  if (!address && ownerOfDid(to) !== owner) return null;
  // In one spelling and without its session, so that the answer finds its exchange; what leaves keeps `to` as it was written.
  const { team, agent } = 'team' in name ? name : teamless;
  const plain = formatAddress({ org: peerHandle, team, user: name.user, agent, session: null });
  return { kind: 'remote', address: plain, domain, linkId, owner };
}

/**
 * An agent on any A2A server, which the sender meets as itself (design §3, §4 "Two doors"): by its did:web, or by the address that stands for one
 * without a team. An org that no link leads to is a missing address, whether it exists or not.
 */
function asForeign(to: string, address: Address | null, facts: Facts, { self }: Tools): Addressed | Refusal {
  const did = address === null ? to : isTeamless(address) ? didOfAddress(address) : null;
  const parsed = did === null ? null : parseDid(did, { allowIp: true });
  if (parsed === null || parsed instanceof Refusal || !isDidWeb(parsed)) return unseen();
  const { authority: domain } = didWebParts(parsed);
  if (domain === self.domain) return unseen();
  const owner = ownerOfDid(parsed) ?? parsed;
  return foreign({ address: addressOfDid(parsed) ?? parsed, domain, owner, card: parsed }, facts);
}

/** An agent by the URL of its card. Whether that may be fetched at all is for the guard on what leaves to say. */
function cardAt(to: string, facts: Facts, { self }: Tools): Addressed | Refusal {
  if (facts.sender.kind === 'anonymous') return unauthenticated(self);
  if (facts.sender.kind !== 'local') return unseen();
  const url = URL.canParse(to) ? new URL(to) : null;
  if (url === null || [url.username, url.password, url.hash].some((part) => part !== '')) {
    return invalid('`to` must be an address, a DID, or the https URL of an agent card.');
  }
  if (url.host === self.domain) return invalid('That card is of an agent here: write its address or its DID.');
  return foreign({ address: url.href, domain: url.host, owner: url.href, card: url.href }, facts);
}

function foreign(to: Omit<Extract<Addressed, { kind: 'foreign' }>, 'kind'>, { envelope }: Facts): Addressed | Refusal {
  if (isSealed(envelope.body)) return invalid('An agent on an A2A server cannot open a sealed body.', 'body');
  return { kind: 'foreign', ...to };
}

function isTeamless({ team, agent }: Address): boolean {
  return team === teamless.team && agent === teamless.agent;
}

/** The exchange that a progress or reply belongs to. Only who was asked may answer, from the agent that was asked. */
export async function findAsker(facts: Facts, tools: Tools): Promise<Addressed | Refusal> {
  const { inbound, envelope, sender } = facts;
  const replyTo = envelope.reply_to;
  if (!replyTo && inbound.namesNoRequest) return inThread(facts, tools);
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

/** An answer to what was asked of its sender in its thread; else its addressee, who is told of it as a request would be brought. */
async function inThread(facts: Facts, tools: Tools): Promise<Addressed | Refusal> {
  const { inbound, envelope, sender, names } = facts;
  if (sender.kind === 'anonymous') return unauthenticated(tools.self);
  const found = await lookUp(envelope.to ?? '', null, tools);
  if (found instanceof Refusal) return found;
  const { agent } = found;
  if (!agent) return unseen();
  const exchange =
    sender.kind === 'peer' && inbound.thread
      ? await tools.lookups.openInThread({ owner: agent.memberId, dids: names, thread: inbound.thread })
      : null;
  if (!exchange) return { kind: 'agent', agent, session: null };
  const asker = exchange.askerAgent === null ? null : await tools.directory.agentById(exchange.askerAgent);
  return { kind: 'asker', exchange, asker };
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
