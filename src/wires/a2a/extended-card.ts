import type { CardForm } from '../../../wellknown/agent-card.ts';
import type { Agent } from '../../directory/types.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { findFrontDesk, findTenant } from './addressee.ts';
import { type RpcError, unsupportedOperation } from './errors.ts';
import { readTenant } from './parse.ts';
import type { Answers } from './protocol.ts';
import { type A2aDeps, type Asked, tenantFrom } from './send.ts';

export interface CardDeps {
  /** The card of an agent for callers that have proved who they are, as the directory lets them see it; null: they may not. */
  extendedCard(agent: Agent, viewer: { orgIds: readonly string[] }, form: CardForm): Promise<object | null>;
}

/**
 * GetExtendedAgentCard. Declared, and there, where every caller has to prove itself: not for an agent that takes anyone, whose anonymous clients would
 * run into a 401 when they fetch what the card declares, as the SDK's do by themselves.
 */
export async function extendedCard(
  deps: A2aDeps & CardDeps,
  { params, request, pathTenant, version }: Asked,
): Promise<Answers['extendedCard'] | Refusal | RpcError> {
  const asked = readTenant(params);
  if (asked instanceof Refusal) return asked;
  const tenant = tenantFrom(pathTenant, asked);
  if (tenant instanceof Refusal) return tenant;
  const named =
    tenant === undefined
      ? await findFrontDesk(deps.finder, deps.authority)
      : await findTenant(tenant, deps.finder, deps.authority);
  if (named instanceof Refusal) return named;
  if (named.agent?.allow.includes('anyone'))
    return unsupportedOperation('There is no extended card: the card says so.');
  const principal = await deps.gates.identify({
    wire: 'a2a',
    operation: 'read',
    request,
    answers: 'poll',
    idempotent: false,
  });
  if (principal instanceof Refusal) return principal;
  const orgIds = principal.kind === 'node' ? principal.node.members.map((member) => member.orgId) : [];
  const form = version === '1.0' ? '1.0' : 'hybrid';
  const card = named.agent && (await deps.extendedCard(named.agent, { orgIds }, form));
  return card ?? refuse('address_not_found');
}
