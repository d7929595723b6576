import type { Admission } from '../exchange/admitted.ts';
import { peerOf } from '../exchange/limits/index.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import type { Arrived, Budgeted, Consented, Gate, Placed, Threaded } from './facts.ts';

/** Agents that a message may have come through before its sender. */
export const maxHops = 8;
/** How often its addressee may stand among them: it may be asked back, and asked again. */
const maxVisits = 1;
const maxHop = 1_000;

/**
 * Does the chain that the message stands in end, and whose budget does it use (design §4 "Loops")? What it says of the agents that it came through is
 * judged here; what was used, and how fast a chain grows, is counted and judged by the transaction that accepts it (migrations/fn_accept_limits.sql).
 */
export const limits: Gate<Arrived & Placed & Consented & Threaded, Budgeted> = async (facts, tools) => {
  const hops = hopsOf(facts.envelope.hops);
  if (hops instanceof Refusal) return hops;
  const { target } = facts;
  if (target.kind === 'asker' || target.kind === 'event') return { budget: null };
  const to = target.kind === 'agent' ? target.agent.address : target.address;
  const visits = hops.filter((hop) => hop === to).length;
  if (hops.length > maxHops || visits > maxVisits) {
    const words =
      hops.length > maxHops
        ? `It came through ${hops.length} agents, and ${maxHops} are the most.`
        : `It came through ${to} ${visits} times already.`;
    return refuse('loop_detected', words, { data: { hops: hops.length } });
  }
  const budget = budgetOf(facts);
  if (budget && tools.note) {
    const did = facts.names.at(-1);
    const { pausedFor } = await tools.limits.budget({
      agentId: budget.agentId,
      senderKey: budget.peer,
      abroad: budget.abroad,
      ...(did !== undefined && facts.sender.kind === 'peer' && { did }),
    });
    if (pausedFor !== null) {
      tools.note(`paused for ${pausedFor} until the owner lets it go on`);
      return refuse(pausedFor === 'turns' ? 'loop_detected' : 'limit_paused', undefined, { data: { of: pausedFor } });
    }
  }
  return { budget };
};

/** An agent here and whom it has to do with. What a gateway itself tells uses nobody's budget. */
function budgetOf({
  inbound,
  sender,
  senderKey,
  target,
}: Arrived & Placed & Consented & Threaded): Admission['budget'] {
  const turns = inbound.turns ?? 0;
  const seat = sender.kind === 'local' ? sender.agent : null;
  switch (target.kind) {
    case 'agent': {
      if (sender.kind === 'relay') return null;
      const abroad = sender.kind !== 'local' || sender.member.orgId !== target.agent.orgId;
      const agentId = target.agent.id;
      return { agentId, peer: peerOf(senderKey), abroad, senderAgent: seat?.id ?? null, leaves: false, turns };
    }
    case 'remote':
    case 'foreign':
      if (!seat) return null;
      return { agentId: seat.id, peer: `p:${target.peerId}`, abroad: true, senderAgent: seat.id, leaves: true, turns };
    case 'asker':
    case 'event':
      return null;
  }
}

function hopsOf(value: unknown): readonly string[] | Refusal {
  if (value === undefined || value === null) return [];
  const isList = Array.isArray(value) && value.every((hop) => typeof hop === 'string' && hop.length <= maxHop);
  return isList
    ? (value as string[])
    : refuse('invalid_field', '`hops` must be a list of the addresses that it came through.', {
        data: { field: 'hops' },
      });
}
