import { addressOfDid, agentDid, ownerDid, readDid } from '../directory/dids.ts';
import { formatAddress, namesAuthority, readAddress, readTopic, type Seat } from '../directory/names.ts';
import type { Address, Agent, AgentIdentity, Member, NodeIdentity } from '../directory/types.ts';
import type { Principal } from '../exchange/sender.ts';
import type { Link } from '../federation/types.ts';
import { isAtOrBelow, parseDid } from '../identity/did.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import type { Arrived, Called, LocalSender, Placed, Tools } from './facts.ts';
import { unseen } from './unseen.ts';

type Signer = Extract<Principal, { kind: 'signer' }>;
export type PlacedSender = Pick<Placed, 'sender' | 'names' | 'links'>;

/** Who of the principal's own is speaking. Refusals: `sender_mismatch`, `invalid_field`; `address_not_found` for an org without a link. */
export async function placeSender(facts: Arrived & Called, tools: Tools): Promise<PlacedSender | Refusal> {
  const { principal } = facts;
  switch (principal.kind) {
    case 'node':
      return ownAgent(principal.node, facts, tools);
    case 'agent':
      return itself(principal, facts, tools);
    case 'signer':
      if (facts.column === 'event' && principal.isInstance) return topicKeeper(principal, facts, tools);
      return speaker(principal, facts, tools);
    case 'did-key':
      return asItself(principal.did, '', principal.did);
    case 'anonymous':
      return { sender: { kind: 'anonymous', address: 'anonymous' }, names: [], links: null };
  }
}

async function ownAgent(node: NodeIdentity, { inbound }: Arrived, tools: Tools): Promise<PlacedSender | Refusal> {
  const { directory } = tools;
  const from = inbound.envelope?.from ?? '';
  const member = node.members.find(({ orgId }) => orgId === inbound.addressee?.orgId) ?? node.members[0];
  if (!member) return refuse('forbidden', 'Join an organisation first: nobody can be answered who is in none.');
  if (from === '') {
    const agent = await directory.defaultAgent(member.id);
    if (!agent && inbound.answers === 'inbox') return mismatch('Announce an agent first: answers need an inbox.');
    const address = agent?.address ?? `${member.org}/agents/${member.handle}/agent`;
    return local({ kind: 'local', member, agent, address }, tools);
  }
  const agent = from.startsWith('did:')
    ? await directory.agentByDid(from)
    : await agentNamed(from, await seatOf(from, member, tools), tools);
  if (agent instanceof Refusal) return agent;
  const owner = node.members.find(({ id }) => id === agent?.memberId);
  // Somebody else's agent and none at all are one answer.
  if (!agent || !owner) return mismatch('`from` must be one of your own announced agents.');
  return local({ kind: 'local', member: owner, agent, address: agent.address + sessionOf(from) }, tools);
}

/** An agent key speaks as its agent alone: nobody else's name, and no other agent's of its owner. */
async function itself(
  { agent, member }: AgentIdentity,
  { inbound }: Arrived,
  tools: Tools,
): Promise<PlacedSender | Refusal> {
  const from = inbound.envelope?.from ?? '';
  const named =
    from === ''
      ? agent
      : from.startsWith('did:')
        ? await tools.directory.agentByDid(from)
        : await agentNamed(from, agent, tools);
  if (named instanceof Refusal) return named;
  if (named?.id !== agent.id) return mismatch('`from` must be the agent of this key.');
  return local({ kind: 'local', member, agent, address: agent.address + sessionOf(from) }, tools);
}

/** "La respuesta vuelve a esa sesión": the sender's own session stays with its address. */
function sessionOf(from: string): string {
  return /#s[1-9]\d{0,8}$/.exec(from)?.[0] ?? '';
}

/** A short form is read from the seat of the person's default agent (REDSYN "Direcciones"). */
async function seatOf(from: string, member: Member, { directory }: Tools): Promise<Seat | null> {
  return from.split('/').length < 4 ? directory.defaultAgent(member.id) : null;
}

async function agentNamed(from: string, seat: Seat | null, { directory }: Tools): Promise<Agent | null | Refusal> {
  const address = readAddress(from, { field: 'from', ...(seat && { seat }) });
  return address instanceof Refusal ? address : directory.agentAt({ ...address, session: null });
}

function local(sender: LocalSender, { self }: Tools): PlacedSender {
  const { member, agent } = sender;
  const owner = { org: member.orgIsPrimary ? null : member.org, user: member.handle };
  const own = ownerDid(self.domain, owner);
  const names = agent ? [agentDid(self.domain, { ...owner, team: agent.team, agent: agent.handle }), own] : [own];
  return { sender, names, links: null };
}

/** Design §4 "Two doors": an address is an org's, a DID is somebody's own. */
async function speaker(signer: Signer, { inbound, column }: Arrived, tools: Tools): Promise<PlacedSender | Refusal> {
  const from = inbound.envelope?.from ?? '';
  const claimed = inbound.claimedDid ?? (from.startsWith('did:') || from === '' ? from || signer.did : undefined);
  if (claimed !== undefined) {
    if (parseDid(claimed, { allowIp: true }) instanceof Refusal)
      return mismatch('The sender is no DID.', 'invalid_field');
    const both = from.startsWith('did:') ? [claimed, from] : [claimed];
    return both.every((did) => isAtOrBelow(did, signer.did))
      ? asItself(signer.did, signer.domain, claimed)
      : mismatch();
  }
  const address = readAddress(from, { field: 'from' });
  if (address instanceof Refusal) return address;
  const active = (await tools.federation.linksWithDomain(signer.domain)).filter(({ state }) => state === 'active');
  if (active.length === 0) return unseen();
  const links = active.filter(
    ({ peerHandle, peerIsPrimary }) =>
      address.org === peerHandle || (peerIsPrimary && namesAuthority(address.org, signer.domain)),
  );
  if (links.length === 0) return mismatch();
  // In one spelling, so that an answer finds its exchange whichever of them the asker used.
  const at = { domain: signer.domain, address: formatAddress({ ...address, org: links[0]!.peerHandle }) };
  if (signer.isInstance) {
    const isNotice = column === 'answer' && inbound.envelope?.kind === 'reply' && inbound.envelope.error === true;
    if (!isNotice) return mismatch("The instance's key speaks for no agent. Sign with the key of the agent's owner.");
    return { sender: { kind: 'relay', ...at, linkId: links[0]!.id }, names: [signer.did], links };
  }
  const own = links.filter((link) => isBeneath(address, signer.did, link));
  if (own.length === 0) return mismatch();
  const names = [...new Set([didBeneath(address, signer.did), signer.did])];
  return {
    sender: { kind: 'peer', did: signer.did, ...at, peerId: null, linkId: own[0]!.id },
    names,
    links: own,
  };
}

/** The gateway of a topic, which hands an event on. Whose it is it says itself; what its node signed is the receiver's to check. */
async function topicKeeper(signer: Signer, { inbound }: Arrived, tools: Tools): Promise<PlacedSender | Refusal> {
  const { handedOn } = inbound;
  const links = (await tools.federation.linksWithDomain(signer.domain)).filter(({ state }) => state === 'active');
  if (links.length === 0) return unseen();
  const topic = handedOn && readTopic(handedOn.topic);
  if (!handedOn || !topic || topic instanceof Refusal) {
    return mismatch("The instance's key speaks for no agent. Sign with the key of the agent's owner.");
  }
  const from = readAddress(handedOn.from, { field: 'from' });
  if (from instanceof Refusal) return from;
  const own = links.filter(({ peerOrg }) => peerOrg === topic.org);
  const [link] = own;
  if (!link) return unseen();
  // In the names that are used here: the topic's own org by the peer's handle, and ours by its own.
  const ours = from.org === link.knownAs ? await tools.directory.orgById(link.orgId) : null;
  const org = from.org === topic.org ? link.peerHandle : (ours?.handle ?? from.org);
  const sender = {
    kind: 'relay' as const,
    domain: signer.domain,
    address: formatAddress({ ...from, org }),
    linkId: link.id,
  };
  return { sender, names: [signer.did], links: own };
}

function asItself(signer: string, domain: string, claimed: string): PlacedSender {
  const address = addressOfDid(claimed) ?? claimed;
  const names = [...new Set([claimed, signer])];
  return { sender: { kind: 'peer', did: signer, domain, address, peerId: null, linkId: null }, names, links: null };
}

/** An owner's DID stands above every agent of that user; an agent's own DID is that agent alone. */
function isBeneath({ user, team, agent }: Address, did: string, { peerIsPrimary, peerOrg, peerHandle }: Link): boolean {
  const name = readDid(did);
  if (!name || name.kind === 'instance' || name.user !== user) return false;
  if (name.org !== (peerIsPrimary ? null : (peerOrg ?? peerHandle))) return false;
  return name.kind !== 'agent' || (name.team === team && name.agent === agent);
}

function didBeneath({ team, agent }: Address, did: string): string {
  return readDid(did)?.kind === 'owner' ? `${did}:${team}:${agent}` : did;
}

function mismatch(words?: string, code: 'sender_mismatch' | 'invalid_field' = 'sender_mismatch'): Refusal {
  return refuse(code, words, code === 'invalid_field' ? { data: { field: 'from' } } : {});
}
