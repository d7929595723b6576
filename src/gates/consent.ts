import { namesAuthority } from '../directory/names.ts';
import { type RoomAxes, roomOf } from '../directory/rooms.ts';
import type { Agent } from '../directory/types.ts';
import { notInRoom } from '../exchange/rooms/index.ts';
import type { Sender } from '../exchange/sender.ts';
import { exposes } from '../federation/exposure.ts';
import type { Contact, Link } from '../federation/types.ts';
import { newId } from '../lib/ids.ts';
import { Refusal } from '../lib/refusal.ts';
import { excerpt } from './excerpt.ts';
import type { Arrived, Called, Consented, Gate, Linked, Placed, Tools } from './facts.ts';
import { floodByStranger } from './flood.ts';
import { pending, unauthenticated, unseen } from './unseen.ts';

/**
 * May this principal reach this owner at all (design §4 "Consent")? Who may not leaves one connection request with the owner and nothing
 * else. An answer needs no consent: its asker asked for it.
 */
export const consent: Gate<Arrived & Called & Placed & Linked, Consented & Pick<Placed, 'sender'>> = async (
  facts,
  tools,
) => {
  const { addressed } = facts;
  if (addressed.kind === 'missing') return nobody(addressed, facts, tools);
  const admitted = addressed.kind === 'agent' ? await mayReach(addressed.agent, facts, tools) : null;
  return admitted instanceof Refusal ? admitted : known(facts, admitted, tools);
};

/** Who would reach a hidden agent of that owner learns that this one is missing; everybody else waits for the owner, as before a hidden one. */
async function nobody(
  { owner, orgId }: Extract<Placed['addressed'], { kind: 'missing' }>,
  { sender, names, envelope }: Placed,
  tools: Tools,
): Promise<Refusal> {
  const { federation, note } = tools;
  const [contact, blocked] = await Promise.all([
    federation.contact(owner, names),
    'domain' in sender && sender.domain !== '' && federation.isDomainBlocked(orgId, sender.domain, owner),
  ]);
  if (contact && !contact.blocked && !blocked) return unseen();
  const flooding = await tooManyKnocks(sender, tools);
  if (flooding) return flooding;
  if (blocked || contact?.blocked) return pending();
  note?.('the owner has no such agent; a stranger is told what it would be told of a hidden one');
  const firstMessage = excerpt(envelope.body);
  await federation.requestConnection({ owner, peerDid: names.at(-1)!, agentId: null, firstMessage });
  return pending();
}

async function mayReach(
  agent: Agent,
  facts: Arrived & Placed & Linked,
  tools: Tools,
): Promise<Refusal | Contact | null> {
  const { federation, self, note } = tools;
  const { sender, names, link, envelope } = facts;
  const room = roomOf(agent);
  if (room) return mayPost(agent, room, facts, tools);
  if (sender.kind === 'local' && sender.member.orgId === agent.orgId) {
    note?.('of the same organisation');
    return null;
  }
  const takesAnyone = agent.allow.includes('anyone');
  if (takesAnyone) note?.("the agent's `allow`: anyone");
  if (sender.kind === 'anonymous') return takesAnyone ? null : unauthenticated(self);
  const [contact, blocked] = await Promise.all([
    federation.contact(agent.memberId, names),
    // Who comes as an org met its domain's block at the link gate; there it is a missing address, here an unanswered request.
    sender.kind === 'peer' &&
      sender.domain !== '' &&
      federation.isDomainBlocked(agent.orgId, sender.domain, agent.memberId),
  ]);
  const isListed =
    !blocked &&
    !contact?.blocked &&
    (contact !== null || takesAnyone || (link !== null && namesOrg(agent.allow, link)));
  const flooding = isListed ? null : await tooManyKnocks(sender, tools);
  if (flooding) return flooding;
  if (blocked || contact?.blocked) {
    note?.(blocked ? `blocked domain ${(sender as { domain: string }).domain}` : blockedWords(contact!));
    return pending();
  }
  if (contact) {
    note?.(`contact ${contact.id}: ${contact.alias ?? contact.peerDid}`);
    return contact;
  }
  if (takesAnyone) return null;
  const introduced = await isIntroduced(agent, facts, tools);
  if (introduced instanceof Refusal) return introduced;
  if (introduced) {
    note?.('introduced by somebody whom its owner trusts');
    return null;
  }
  if (link && namesOrg(agent.allow, link)) {
    note?.(`the agent's \`allow\`: org:${link.peerHandle}`);
    return null;
  }
  note?.(`no contact, and the agent's \`allow\` (${agent.allow.join(', ') || 'its own team'}) does not name it`);
  // One row per signer: a stranger that names ever new agents of its own is still one stranger.
  const firstMessage = excerpt(envelope.body);
  await federation.requestConnection({
    owner: agent.memberId,
    peerDid: names.at(-1)!,
    agentId: agent.id,
    firstMessage,
  });
  return pending();
}

/** A room takes what its members write, whoever they are else. A did:key that may ask to join leaves that question. */
async function mayPost(room: Agent, axes: RoomAxes, facts: Placed, tools: Tools): Promise<Refusal | null> {
  const { federation, self, note } = tools;
  const { sender, names, envelope } = facts;
  if (sender.kind === 'anonymous') return unauthenticated(self);
  const localAgent = sender.kind === 'local' ? (sender.agent?.id ?? null) : null;
  const [isMember, contact, blocked] = await Promise.all([
    federation.isRoomMember(room, { dids: names, localAgent }),
    federation.contact(room.memberId, names),
    'domain' in sender && sender.domain !== '' && federation.isDomainBlocked(room.orgId, sender.domain, room.memberId),
  ]);
  if (isMember && !contact?.blocked && !blocked) {
    note?.('a member of the room');
    return null;
  }
  note?.('no member of the room');
  if (sender.kind === 'local' && sender.member.orgId === room.orgId) return notInRoom();
  const peerDid = names.at(-1)!;
  const mayAsk = axes.join === 'request' && peerDid.startsWith('did:key:') && !contact?.blocked;
  if (mayAsk) {
    const firstMessage = excerpt(envelope.body);
    await federation.requestConnection({
      owner: room.memberId,
      peerDid,
      agentId: room.id,
      firstMessage,
      room: room.id,
    });
  }
  return pending();
}

/** An introduction covers a did:key: the one that it shows, else one that it showed before (muretai-wire-facts §9). */
async function isIntroduced(
  agent: Agent,
  { sender, inbound }: Placed & Arrived,
  { federation, note }: Tools,
): Promise<boolean | Refusal> {
  if (sender.kind !== 'peer' || !sender.did.startsWith('did:key:')) return false;
  const { introduction } = inbound;
  // An explanation asks nobody.
  if (introduction === undefined || note) return federation.isIntroduced(agent, sender.did, { ask: !note });
  const held = await federation.presentIntroduction(agent, sender.did, introduction);
  return held instanceof Refusal ? held : true;
}

/** Whether it would be let in now: what its owner allows counts only for whom she still knows. */
export async function stillReaches(
  q: { agentId: string; names: readonly string[]; domain: string; linkId: string | null },
  { directory, federation }: Pick<Tools, 'directory' | 'federation'>,
): Promise<boolean> {
  const agent = await directory.agentById(q.agentId);
  if (agent === null) return false;
  const [link, contact, blocked] = await Promise.all([
    q.linkId === null ? null : federation.linkById(q.linkId),
    federation.contact(agent.memberId, q.names),
    q.domain !== '' && federation.isDomainBlocked(agent.orgId, q.domain, agent.memberId),
  ]);
  if (blocked || contact?.blocked) return false;
  if (roomOf(agent)) return federation.isRoomMember(agent, { dids: q.names, localAgent: null });
  if (q.linkId !== null) {
    const path = `${agent.team}/${agent.user}/${agent.handle}`;
    if (link?.state !== 'active' || !exposes(link.ours, path)) return false;
  }
  if (contact !== null || agent.allow.includes('anyone') || (link !== null && namesOrg(agent.allow, link))) return true;
  const key = q.names.find((name) => name.startsWith('did:key:'));
  return key !== undefined && federation.isIntroduced(agent, key, { ask: true });
}

/** The same for whoever is blocked and whoever is unknown. An explanation counts nothing. */
async function tooManyKnocks(sender: Sender, tools: Tools): Promise<Refusal | null> {
  const domain = 'domain' in sender ? sender.domain : '';
  return domain === '' || tools.note ? null : floodByStranger(domain, tools);
}

function blockedWords({ id, alias, peerDid }: Contact): string {
  return `contact ${id} is blocked: ${alias ?? peerDid}`;
}

/** `org:<handle>`, or its authority in either spelling (design §10). */
function namesOrg(allow: readonly string[], { peerHandle, peerDomain }: Link): boolean {
  return allow.some((word) => {
    if (!word.startsWith('org:')) return false;
    const org = word.slice('org:'.length);
    return org === peerHandle || (peerDomain !== null && namesAuthority(org, peerDomain));
  });
}

/** Gives the sender the row of its DID, and the key that its ids are unique under: its own, never one that others share (REL-07). */
async function known(
  { sender, names, addressed, inbound }: Arrived & Placed,
  contact: Contact | null,
  { federation, lookups, clock }: Tools,
): Promise<Consented & { sender: Sender }> {
  if (sender.kind === 'local') return { sender, contact, senderKey: `m:${sender.member.id}` };
  if (sender.kind === 'anonymous') {
    // Whoever names a thread that nobody but an earlier such caller was told is that caller.
    const owner = addressed.kind === 'agent' && inbound.thread ? addressed.agent.memberId : null;
    const before = owner === null ? null : await lookups.anonymousIn({ owner, thread: inbound.thread! });
    return { sender, contact, senderKey: before ?? `anonymous:${newId(clock)}` };
  }
  if (sender.kind === 'relay') {
    // Ids of events are their publishers' own.
    const whose = addressed.kind === 'near_topic' ? ` ${sender.address}` : '';
    return { sender, contact, senderKey: `relay:${sender.domain}${whose}` };
  }
  const peerId = await federation.peerId(names.at(-1)!);
  return { sender: { ...sender, peerId }, contact, senderKey: `p:${peerId}` };
}
