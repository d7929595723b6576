import { plans } from '../directory/plans.ts';
import type { Arrived, Consented, Counted, Gate, Placed } from './facts.ts';

const DEFAULT_TTL = 86_400;

/**
 * Whose plan bounds the message, and how long may it wait (REDSYN "Límites")? Whoever sends pays: a foreign message adds to no count here,
 * else strangers could silence an org, and its files wait in a space apart. A repeat of a message costs nothing, so the counts themselves
 * are asked in the transaction that knows whether it is one (migrations/fn_accept.sql, src/exchange/files).
 */
export const quota: Gate<Arrived & Placed & Consented, Counted> = async (
  { envelope, sender, addressed, inbound },
  tools,
) => {
  const now = tools.clock.now();
  const payer = sender.kind === 'local' ? sender.member.orgId : null;
  const keeper = payer ?? keeperOf(addressed);
  const org = keeper === undefined ? null : await tools.directory.orgById(keeper);
  const plan = plans[org?.plan ?? 'free'];
  const ttl = Math.min(envelope.ttl ?? DEFAULT_TTL, plan.maxTtl);
  const { zip } = inbound;
  return {
    expiresAt: now + ttl * 1000,
    // What a model says in between is the gateway's own doing: a stream of words does not use up the day of its org.
    quota:
      payer === null || (inbound.resident && envelope.kind === 'progress')
        ? null
        : { orgId: payer, limit: plan.messagesPerDay },
    files: zip
      ? {
          zip,
          sha256: envelope.files!.sha256,
          payer: payer === null ? `in:${keeper ?? ''}` : `out:${payer}`,
          limit: plan.fileBytes,
        }
      : null,
  };
};

/** The org here in whose mailboxes it waits. */
function keeperOf(addressed: Placed['addressed']): string | undefined {
  switch (addressed.kind) {
    case 'agent':
      return addressed.agent.orgId;
    case 'asker':
      return addressed.asker?.orgId;
    case 'topic':
      return addressed.org.id;
    case 'near_topic':
      return addressed.links[0]?.link.orgId;
    case 'missing':
    case 'remote':
    case 'foreign':
    case 'far_topic':
      return undefined;
  }
}
