import type { Tx } from '../db/types.ts';
import type { Envelope } from './message.ts';
import type { EndReason } from './state.ts';
import { acceptMessages, exchangeOfRequest } from './store.ts';

/** How long the notice itself waits for the sender. */
const noticeTtl = 7 * 86_400_000;

/** REDSYN "Entrega", word for word. */
export function undeliveredWords(reason: 'expired' | 'worn_out' | 'node_gone', address: string): string {
  if (reason === 'node_gone') return `not delivered: the node that it was sealed for no longer listens as ${address}`;
  return reason === 'worn_out'
    ? `not delivered: ${address} took it 10 times and never confirmed it`
    : `not delivered: it expired before ${address} took it`;
}

/**
 * Ends the exchange of a request that will not be answered, and tells the asker with an error reply from the relay itself. Nothing
 * happens for a message that opened no exchange or whose exchange has ended: an undelivered answer is nobody's request.
 */
export async function endUndelivered(
  tx: Tx,
  requestSeq: number,
  reason: EndReason,
  words: (address: string) => string,
  now: number,
): Promise<void> {
  return endRequest(tx, requestSeq, { state: 'failed', reason }, words, now);
}

/** The same, also for what its owner refused. */
export async function endRequest(
  tx: Tx,
  requestSeq: number,
  { state, reason }: { state: 'failed'; reason: EndReason } | { state: 'rejected'; reason: 'denied' },
  words: (address: string) => string,
  now: number,
): Promise<void> {
  const exchange = await exchangeOfRequest(tx, requestSeq);
  if (!exchange || exchange.ended) return;
  const envelope: Envelope = {
    v: 1,
    id: `undelivered-${requestSeq}`,
    kind: 'reply',
    from: exchange.asked_addr,
    thread: exchange.asker_thread,
    reply_to: exchange.request_id,
    ts: Math.floor(now / 1000),
    body: { type: 'text/plain', text: words(exchange.asked_addr) },
    error: true,
  };
  const [row] = await acceptMessages(
    tx,
    [
      {
        sender: 'system',
        id: envelope.id,
        kind: 'reply',
        from_addr: exchange.asked_addr,
        to_addr: '',
        reply_to: exchange.request_id,
        envelope: JSON.stringify(envelope),
        sig_payload: null,
        sig_node: null,
        a2a: null,
        wire: 'relay',
        expires_at: now + noticeTtl,
        proof: null,
        proof_expires: null,
        quota_org: null,
        reserved_for: null,
        target: 'asker',
        exchange_id: exchange.exchange_id,
        state,
        reason,
      },
    ],
    // The statement's own NOTIFY goes to the other replicas; this process is woken when the transaction has committed.
    '',
    now,
  );
  for (const topic of row?.wakes ?? []) tx.notify(topic);
}
