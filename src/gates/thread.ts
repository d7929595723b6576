import { derivedId, newId } from '../lib/ids.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import type { Addressed, Arrived, Consented, Gate, Placed, Threaded, Tools } from './facts.ts';

const MAX_THREAD = 256;

/**
 * Which thread may this message be part of (design §4 "Thread binding")? The asked one is only a request: here it gets the id that it has under
 * the addressed owner, and the exchange's transaction decides which of the two it is.
 */
export const thread: Gate<Arrived & Placed & Consented, Threaded> = async (facts, tools) => {
  const { addressed, envelope, inbound } = facts;
  const asked = (inbound.thread ?? envelope.thread) || null;
  if (asked !== null && (asked.length > MAX_THREAD || asked.includes('\0'))) {
    return refuse('invalid_field', `\`thread\` is longer than ${MAX_THREAD} characters or holds a NUL.`, {
      data: { field: 'thread' },
    });
  }
  switch (addressed.kind) {
    case 'asker':
      return {
        target: { kind: 'asker', exchangeId: addressed.exchange.id },
        thread: asked ?? addressed.exchange.requestId,
      };
    case 'remote': {
      const { owner, ...target } = addressed;
      return { target: { ...target, peerId: await tools.federation.peerId(owner) }, thread: asked ?? envelope.id };
    }
    case 'agent':
      return bind(addressed, asked, facts, tools);
  }
};

async function bind(
  { kind, agent, session }: Extract<Addressed, { kind: 'agent' }>,
  asked: string | null,
  { inbound, envelope, sender, senderKey }: Arrived & Placed & Consented,
  { lookups, clock }: Tools,
): Promise<Threaded | Refusal> {
  if (typeof session === 'number') {
    const found = await lookups.session({ agentId: agent.id, n: session, participant: senderKey });
    if (found instanceof Refusal) return found;
  }
  const isLocal = sender.kind === 'local';
  // "Un pedido sin hilo abre uno con su propio id"; an id that its sender may use again opens a new one each time.
  const own = asked ?? (inbound.idempotent ? envelope.id : null);
  const participant = senderKey.slice(senderKey.indexOf(':') + 1);
  const derived = own === null ? newId(clock) : derivedId(['a2a-thread', agent.memberId, participant, own]);
  return {
    target: { kind, agent, session, thread: { asked: own, derived, mayOpen: isLocal } },
    thread: own ?? derived,
  };
}
