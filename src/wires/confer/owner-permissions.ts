import { z } from 'zod';
import type { Decision, PermissionRow, Tray } from '../../exchange/tray/index.ts';
import type { ConnectionRequest, ConsentOperations } from '../../federation/types.ts';
import type { Policies } from '../../gates/policies/index.ts';
import type { Route } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { json } from './errors.ts';
import { bodyOf, iso, type OwnerCallDeps, ownerCall } from './owner-call.ts';

export interface OwnerPermissionsDeps extends OwnerCallDeps {
  tray: Pick<Tray, 'list' | 'decide'>;
  consent: Pick<ConsentOperations, 'listRequests' | 'decide'>;
  policies: Pick<Policies, 'decided' | 'forget'>;
  now(): number;
}

const decideBody = z.object({
  decision: z.enum(['allow_once', 'allow_always', 'deny', 'deny_always']),
  /** The narrow one, unless somebody says otherwise. */
  scope: z.enum(['peer', 'peer_action', 'global']).default('peer_action'),
});
const shown = 50;

/** `/api/v1/permissions…` (confer-wire-facts §9): what waits for the owner, her decisions, and what they left. */
export function ownerPermissionRoutes(deps: OwnerPermissionsDeps): Route[] {
  const { tray, consent } = deps;
  const list = async (owners: readonly string[], decided: boolean): Promise<object[]> => {
    const [held, ...requests] = await Promise.all([
      tray.list(owners, decided),
      ...owners.map((owner) => consent.listRequests(owner, decided)),
    ]);
    const now = deps.now();
    return [...held.map((row) => ofQuestion(row, now)), ...requests.flat().map(ofConnection)]
      .sort((a, b) => b.at - a.at)
      .slice(0, shown)
      .map(({ view }) => view);
  };
  return [
    {
      method: 'GET',
      path: '/api/v1/permissions/pending',
      about: 'What waits for your decision, newest first',
      handler: ownerCall(deps, async ({ owners }) => json(200, { permissions: await list(owners, false) })),
    },
    {
      method: 'GET',
      path: '/api/v1/permissions/history',
      about: 'What you decided, newest first',
      handler: ownerCall(deps, async ({ owners }) => json(200, { permissions: await list(owners, true) })),
    },
    {
      method: 'POST',
      path: '/api/v1/permissions/{id}/decide',
      about: 'Allows or denies, once or always; the first decision counts',
      handler: ownerCall(deps, async ({ owners, params, request }) => {
        const body = bodyOf(decideBody, request);
        if (body instanceof Refusal) return body;
        const { decision, scope } = body;
        const decided = await tray.decide(owners, params.id!, decision, scope);
        if (!(decided instanceof Refusal)) return json(200, { ok: true });
        if (decided.code !== 'not_found') return decided;
        return (await connect(deps, owners, params.id!, decision)) ?? decided;
      }),
    },
    {
      method: 'GET',
      path: '/api/v1/permissions/rules',
      about: 'What you decided "always"',
      handler: ownerCall(deps, async ({ owners }) => {
        const rules = await deps.policies.decided(owners);
        return json(200, {
          rules: rules.map(({ id, action, peerDid, decision, createdAt }) => ({
            id,
            action,
            peer_did: peerDid || null,
            decision,
            created_at: iso(createdAt),
          })),
        });
      }),
    },
    {
      method: 'DELETE',
      path: '/api/v1/permissions/rules/{id}',
      about: 'Takes back what you decided "always"',
      handler: ownerCall(deps, async ({ owners, params }) =>
        (await deps.policies.forget(owners, params.id!))
          ? json(200, { ok: true })
          : refuse('not_found', 'There is no such rule.'),
      ),
    },
  ];
}

/** A contact is always one peer's, whatever the scope: nobody lets in who has not knocked yet. */
async function connect(
  { consent }: OwnerPermissionsDeps,
  owners: readonly string[],
  id: string,
  decision: Decision,
): Promise<ReturnType<typeof json> | Refusal | undefined> {
  const kind = decision.startsWith('allow') ? 'allow' : 'deny';
  for (const owner of owners) {
    const decided = await consent.decide(owner, id, kind);
    if (!(decided instanceof Refusal)) return json(200, { ok: true });
    if (decided.code !== 'not_found') return decided;
  }
  return undefined;
}

interface Row {
  at: number;
  view: object;
}

function ofQuestion(row: PermissionRow, now: number): Row {
  const { id, level, action, effects, names, content, agentId, createdAt, decidableAt, decision } = row;
  const scope = {
    kind: 'a2a_question',
    conversation_id: row.conversation,
    inbound_message_id: row.requestId,
    sender_did: names[0],
    agent_id: agentId,
    content,
    peer_thread_id: row.peerThread,
  };
  const remaining = Math.max(0, Math.ceil((decidableAt - now) / 1000));
  return {
    at: row.decidedAt ?? createdAt,
    view: {
      id,
      level,
      action,
      scope,
      ...(level === 'L3' && { effects, decidable_at: iso(decidableAt), ...(decision === 'pending' && { remaining }) }),
      peer_name: row.askerAddr,
      peer_did: names.at(-1),
      requested_at: iso(createdAt),
      decision,
      ...(row.decidedAt !== null && { decided_at: iso(row.decidedAt), decision_scope: row.decidedScope }),
    },
  };
}

function ofConnection(row: ConnectionRequest): Row {
  const { id, peerDid, firstMessage, agentId, createdAt, decidedAt, decision } = row;
  return {
    at: decidedAt ?? createdAt,
    view: {
      id,
      level: 'L2',
      action: 'connect',
      scope: { peer_did: peerDid, peer_name: peerDid, first_message: firstMessage, agent_id: agentId },
      peer_name: peerDid,
      peer_did: peerDid,
      requested_at: iso(createdAt),
      decision: decision === 'allowed' ? 'allow_always' : decision === 'denied' ? 'deny' : 'pending',
      ...(decidedAt !== null && { decided_at: iso(decidedAt) }),
    },
  };
}
