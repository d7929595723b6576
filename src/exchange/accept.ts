import type { Clock } from '../lib/clock.ts';
import { newId } from '../lib/ids.ts';
import { type Refusal, refuse } from '../lib/refusal.ts';
import type { Admission, Budget, Held } from './admitted.ts';
import { tooMany } from './push/index.ts';
import { notInRoom, type RoomPost } from './rooms/index.ts';
import { stateAfter } from './state.ts';
import type { AcceptItem, AcceptRow } from './store.ts';
import type { Accepted, Beside } from './types.ts';

/** What an admitted message writes, as `accept_messages` reads it. */
export function toItem(
  admission: Admission,
  clock: Clock,
  { goesOn, push, post }: Beside & { post?: RoomPost } = {},
): AcceptItem {
  const { envelope, sender, target, signature, proof } = admission;
  const id = admission.idempotent ? envelope.id : newId(clock);
  const item: AcceptItem = {
    sender: admission.senderKey,
    id,
    kind: envelope.kind,
    from_addr: sender.address,
    to_addr: envelope.to ?? '',
    reply_to: envelope.reply_to ?? null,
    envelope: admission.idempotent ? admission.envelopeText : JSON.stringify({ ...envelope, id }),
    sig_payload: signature?.payload ?? null,
    sig_node: signature?.nodeId ?? null,
    a2a: admission.a2aText,
    wire: admission.wire,
    expires_at: admission.expiresAt,
    proof: proof?.key.toString('hex') ?? null,
    proof_expires: proof?.expiresAt ?? null,
    quota_org: admission.quota?.orgId ?? null,
    quota_limit: admission.quota?.limit ?? null,
    reserved_for: admission.reservedFor,
    sealed: admission.sealed,
    asker_node: admission.senderNode,
    target: target.kind === 'foreign' ? 'remote' : target.kind,
    ...(admission.budget && { weight: weightOf(admission, admission.budget) }),
  };
  if (goesOn && target.kind === 'agent') {
    return { ...item, target: 'follow', exchange_id: goesOn.taskId, agent_id: target.agent.id, ...(push && { push }) };
  }
  if (target.kind === 'asker') return { ...item, exchange_id: target.exchangeId, ...stateAfter(envelope) };
  if (target.kind === 'event') return { ...item, ...eventParts(admission, target, clock) };

  const fresh = newId(clock);
  const asked = target.kind === 'agent' ? target.thread.asked : (envelope.thread ?? null);
  const local = sender.kind === 'local' ? sender : null;
  const asker: AcceptItem = {
    ...item,
    exchange_id: newId(clock),
    asker: admission.senderKey,
    asker_agent: admission.askerHasInbox ? (local?.agent?.id ?? null) : null,
    asker_owner: local?.member.id ?? null,
    asker_addr: sender.address,
    asker_session: sessionOf(sender.address),
    asker_via: admission.askerVia,
    asker_kind: admission.askerVia === null ? null : (admission.askerBy?.kind ?? null),
    asker_ref: admission.askerVia === null ? null : (admission.askerBy?.ref ?? null),
    asker_thread: asked ?? fresh,
    thread_asked: asked,
    ...(push && { push }),
  };
  if (target.kind === 'remote' || target.kind === 'foreign') {
    return {
      ...asker,
      ...(target.kind === 'foreign' && { outbox_kind: 'a2a', outbox_body: JSON.stringify({ card: target.card }) }),
      asked: `p:${target.peerId}`,
      asked_addr: target.address,
      destination: target.domain,
      // One thread of one pair leaves in order; others need not wait for it.
      lane: [target.domain, sender.address, target.address, asker.asker_thread].join(' '),
    };
  }
  return {
    ...asker,
    ...(admission.held && { held: heldItem(admission.held, clock) }),
    // An event for one agent: nobody asked for it, and nothing is owed for it.
    ...(envelope.kind === 'event' && { target: 'note' as const }),
    ...(post && { target: 'room' as const, event: post }),
    agent_id: target.agent.id,
    asked_owner: target.agent.memberId,
    asked: `m:${target.agent.memberId}`,
    asked_addr: target.agent.address,
    session: typeof target.session === 'number' ? target.session : null,
    session_new: target.session === 'new',
    thread_derived: asked === null ? fresh : target.thread.derived,
    may_open: target.thread.mayOpen,
  };
}

function weightOf({ envelopeText, files }: Admission, budget: Budget): NonNullable<AcceptItem['weight']> {
  const { agentId, peer, abroad, senderAgent, leaves, turns } = budget;
  const bytes = Buffer.byteLength(envelopeText) + (files?.zip.length ?? 0);
  return { agent: agentId, peer, abroad, leaves, bytes, sender: senderAgent, turns };
}

function heldItem({ decidableAt, ...held }: Held, clock: Clock): NonNullable<AcceptItem['held']> {
  return { id: newId(clock), ...held, decidable_at: decidableAt, link_id: held.linkId };
}

/** An event stands in its publisher's own thread, and in a session of each agent that listens. */
function eventParts(
  { envelope, sender }: Admission,
  target: Extract<Admission['target'], { kind: 'event' }>,
  clock: Clock,
): Partial<AcceptItem> {
  const { address, team, name, spread } = target;
  const local = sender.kind === 'local' ? sender : null;
  return {
    to_addr: address,
    asker_agent: local?.agent?.id ?? null,
    asker_owner: local?.member.id ?? null,
    asker_session: sessionOf(sender.address),
    asker_thread: envelope.thread ?? envelope.id,
    event:
      spread.to === 'own'
        ? { ...spread, org: spread.orgId, team, name, topic: newId(clock) }
        : spread.to === 'behind'
          ? { to: 'behind', links: spread.revs, team, name, skip: spread.skip }
          : {
              to: 'far',
              destination: spread.domain,
              lane: `${spread.domain} ${sender.address} ${address}`,
              link: spread.linkId,
            },
    ...(spread.to === 'far' && { destination: spread.domain }),
  };
}

/** What the sender is told. */
export function toAccepted(row: AcceptRow, item: AcceptItem): Accepted | Refusal {
  switch (row.outcome) {
    case 'replayed':
      return refuse('signature_replayed').by('integrity');
    case 'closed':
      return refuse('exchange_closed').by('thread');
    case 'no_session':
      return refuse('address_not_found').by('thread');
    case 'session_closed':
      return refuse('session_closed').by('thread');
    case 'day_used':
      return refuse(
        'quota_exceeded',
        `The plan of ${item.from_addr.split('/', 1)[0]} allows ${item.quota_limit} messages a day. The count starts anew at 00:00 UTC.`,
        { data: { quota: true, limit: item.quota_limit } },
      ).by('quota');
    case 'no_member':
      return notInRoom();
    case 'missing':
      return refuse('not_found', 'Task not found.').by('thread');
    case 'held':
      return refuse('pending_approval').by('policy');
    case 'paused':
      return paused(row.budget!);
    case 'push_full':
      return tooMany();
    case 'no_room':
      return refuse('quota_exceeded', 'That organisation has as many topics as one may have.', {
        status: 403,
        data: { quota: true },
      });
    case 'duplicate':
    case 'accepted':
      return {
        duplicate: row.outcome === 'duplicate',
        // An event opens none: what stands in its place names nothing.
        exchangeId: row.exchange ?? item.id,
        id: item.id,
        thread: row.thread,
        to: row.addressee,
        signed: row.signed,
        state:
          item.state ??
          (item.held ? 'auth_required' : item.target === 'event' || item.target === 'room' ? 'completed' : 'submitted'),
        ...(row.budget && { warning: row.budget }),
      };
  }
}

function paused({ of, limit }: NonNullable<AcceptRow['budget']>): Refusal {
  const data = { of, ...(limit !== undefined && { limit }) };
  return refuse(of === 'turns' ? 'loop_detected' : 'limit_paused', undefined, { data }).by('limits');
}

function sessionOf(address: string): number | null {
  const found = /#s([1-9]\d{0,8})$/.exec(address);
  return found ? Number(found[1]) : null;
}
