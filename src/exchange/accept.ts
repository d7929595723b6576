import type { Clock } from '../lib/clock.ts';
import { newId } from '../lib/ids.ts';
import { type Refusal, refuse } from '../lib/refusal.ts';
import type { Admission } from './admitted.ts';
import { stateAfter } from './state.ts';
import type { AcceptItem, AcceptRow } from './store.ts';
import type { Accepted } from './types.ts';

/** What an admitted message writes, as `accept_messages` reads it. */
export function toItem(admission: Admission, clock: Clock): AcceptItem {
  const { envelope, sender, target, signature, proof } = admission;
  const id = admission.idempotent ? envelope.id : newId(clock);
  const item: AcceptItem = {
    sender: sender.kind === 'relay' ? `relay:${sender.domain}` : admission.senderKey,
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
    quota_org: admission.quotaOrgId,
    reserved_for: admission.reservedFor,
    target: target.kind,
  };
  if (target.kind === 'asker') return { ...item, exchange_id: target.exchangeId, ...stateAfter(envelope) };

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
    asker_thread: asked ?? fresh,
    thread_asked: asked,
  };
  if (target.kind === 'remote') {
    return {
      ...asker,
      asked: `p:${target.peerId}`,
      asked_addr: target.address,
      destination: target.domain,
      // One thread of one pair leaves in order; others need not wait for it.
      lane: [target.domain, sender.address, target.address, asker.asker_thread].join(' '),
    };
  }
  return {
    ...asker,
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
    case 'duplicate':
    case 'accepted':
      return {
        duplicate: row.outcome === 'duplicate',
        exchangeId: row.exchange,
        id: item.id,
        thread: row.thread,
        to: row.addressee,
        signed: row.signed,
        state: item.state ?? 'submitted',
      };
  }
}

function sessionOf(address: string): number | null {
  const found = /#s([1-9]\d{0,8})$/.exec(address);
  return found ? Number(found[1]) : null;
}
