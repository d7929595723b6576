import { plans } from '../directory/plans.ts';
import { refuse } from '../lib/refusal.ts';
import type { Arrived, Consented, Counted, Gate, Placed } from './facts.ts';

const DAY = 86_400_000;
const DEFAULT_TTL = 86_400;

/**
 * May the sender's org send another message today, and how long may this one wait (REDSYN "Límites")? Whoever sends pays: a foreign
 * message adds to no count here, else strangers could silence an org. The exchange adds the count in its own transaction.
 */
export const quota: Gate<Arrived & Placed & Consented, Counted> = async ({ envelope, sender, addressed }, tools) => {
  const now = tools.clock.now();
  const payer = sender.kind === 'local' ? sender.member.orgId : null;
  const keeper = payer ?? keeperOf(addressed);
  const org = keeper === undefined ? null : await tools.directory.orgById(keeper);
  const plan = plans[org?.plan ?? 'free'];
  if (payer !== null && plan.messagesPerDay !== null) {
    const used = await tools.store.usedOn(payer, Math.floor(now / DAY));
    if (used >= plan.messagesPerDay) {
      return refuse(
        'quota_exceeded',
        `The plan of ${org?.handle} allows ${plan.messagesPerDay} messages a day. The count starts anew at 00:00 UTC.`,
        { data: { quota: true } },
      );
    }
  }
  const ttl = Math.min(envelope.ttl ?? DEFAULT_TTL, plan.maxTtl);
  return { expiresAt: now + ttl * 1000, quotaOrgId: payer };
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
    case 'remote':
    case 'far_topic':
      return undefined;
  }
}
