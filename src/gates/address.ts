import { newId } from '../lib/ids.ts';
import { Refusal } from '../lib/refusal.ts';
import { findAddressee, findAsker } from './addressee.ts';
import type { Arrived, Called, Gate, Placed } from './facts.ts';
import { placeSender } from './sender.ts';
import { findTopic } from './topic.ts';

/**
 * Who of the caller's own is speaking, and to whom (REDSYN "El sobre", design §3)? The sender comes first, and what it is told does not depend
 * on the addressee: else a false `from` would tell a hidden agent from a missing one (FED-06).
 */
export const address: Gate<Arrived & Called, Placed> = async (facts, tools) => {
  const { inbound, column } = facts;
  if (!inbound.envelope) throw new Error('a message without an envelope');
  const placed = await placeSender(facts, tools);
  if (placed instanceof Refusal) return placed;
  const { id, from } = inbound.envelope;
  const envelope = { ...inbound.envelope, id: id || newId(tools.clock), from: from || placed.sender.address };
  const find = column === 'answer' ? findAsker : column === 'event' ? findTopic : findAddressee;
  const addressed = await find({ ...facts, ...placed, envelope }, tools);
  return addressed instanceof Refusal ? addressed : { envelope, ...placed, addressed };
};
