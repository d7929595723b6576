import { namesAuthority } from '../directory/names.ts';
import type { Agent } from '../directory/types.ts';
import type { Sender } from '../exchange/sender.ts';
import type { Link } from '../federation/types.ts';
import { newId } from '../lib/ids.ts';
import type { Refusal } from '../lib/refusal.ts';
import type { Arrived, Called, Consented, Gate, Linked, Placed, Tools } from './facts.ts';
import { pending, unauthenticated } from './unseen.ts';

/**
 * May this principal reach this owner at all (design §4 "Consent")? Who may not leaves one connection request with the owner and nothing
 * else. An answer needs no consent: its asker asked for it.
 */
export const consent: Gate<Arrived & Called & Placed & Linked, Consented & Pick<Placed, 'sender'>> = async (
  facts,
  tools,
) => {
  const refusal = facts.addressed.kind === 'agent' ? await mayReach(facts.addressed.agent, facts, tools) : null;
  return refusal ?? known(facts, tools);
};

async function mayReach(agent: Agent, facts: Placed & Linked, { federation, self }: Tools): Promise<Refusal | null> {
  const { sender, names, link, envelope } = facts;
  if (sender.kind === 'local' && sender.member.orgId === agent.orgId) return null;
  const takesAnyone = agent.allow.includes('anyone');
  if (sender.kind === 'anonymous') return takesAnyone ? null : unauthenticated(self);
  const [contact, blocked] = await Promise.all([
    federation.contact(agent.memberId, names),
    // Who comes as an org met its domain's block at the link gate; there it is a missing address, here an unanswered request.
    sender.kind === 'peer' && sender.domain !== '' && federation.isDomainBlocked(agent.orgId, sender.domain),
  ]);
  if (blocked || contact?.blocked) return pending();
  if (contact || takesAnyone || (link && namesOrg(agent.allow, link))) return null;
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
  { federation, lookups, clock }: Tools,
): Promise<Consented & { sender: Sender }> {
  if (sender.kind === 'local') return { sender, senderKey: `m:${sender.member.id}` };
  if (sender.kind === 'anonymous') {
    // Whoever names a thread that nobody but an earlier such caller was told is that caller.
    const owner = addressed.kind === 'agent' && inbound.thread ? addressed.agent.memberId : null;
    const before = owner === null ? null : await lookups.anonymousIn({ owner, thread: inbound.thread! });
    return { sender, senderKey: before ?? `anonymous:${newId(clock)}` };
  }
  if (sender.kind === 'relay') {
    // Ids of events are their publishers' own.
    const whose = addressed.kind === 'near_topic' ? ` ${sender.address}` : '';
    return { sender, senderKey: `relay:${sender.domain}${whose}` };
  }
  const peerId = await federation.peerId(names.at(-1)!);
  return { sender: { ...sender, peerId }, senderKey: `p:${peerId}` };
}

function excerpt(body: { type: string; text?: string }): string {
  return body.text === undefined ? `(${body.type.slice(0, 100)})` : [...body.text].slice(0, 500).join('');
}
