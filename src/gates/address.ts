import type { Envelope } from '../exchange/message.ts';
import { newId } from '../lib/ids.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import { findAddressee, findAsker } from './addressee.ts';
import type { Addressed, Arrived, Called, Gate, Placed } from './facts.ts';
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
  if (addressed instanceof Refusal) return addressed;
  if (isCarried(addressed) && isShort(inbound.envelope.from)) {
    return refuse(
      'invalid_field',
      'Another gateway cannot place a short `from`: write the full address of your agent.',
      {
        data: { field: 'from' },
      },
    );
  }
  return { envelope: inPlace(envelope, addressed, column), ...placed, addressed };
};

/** An answer names what it answers; one that answers nothing asks nothing either, whatever it was called. */
function inPlace(envelope: Envelope, addressed: Addressed, column: Arrived['column']): Envelope {
  if (column !== 'answer') return envelope;
  if (addressed.kind === 'asker') return { ...envelope, reply_to: envelope.reply_to ?? addressed.exchange.requestId };
  return { ...envelope, kind: 'event' };
}

/** What its sender wrote, and perhaps signed, goes to another gateway as it stands. */
function isCarried(addressed: Addressed): boolean {
  if (addressed.kind === 'asker') return addressed.exchange.askerVia !== null;
  return addressed.kind === 'remote' || addressed.kind === 'far_topic';
}

function isShort(from: string): boolean {
  return from !== '' && !from.startsWith('did:') && from.split('/').length < 4;
}
