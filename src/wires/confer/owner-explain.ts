import { readAddress } from '../../directory/names.ts';
import type { Agent, Directory, NodeIdentity } from '../../directory/types.ts';
import { isAction } from '../../gates/actions.ts';
import type { Gates } from '../../gates/index.ts';
import type { Route } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { invalidData, json } from './errors.ts';
import { type OwnerCallDeps, ownerCall } from './owner-call.ts';

export interface OwnerExplainDeps extends OwnerCallDeps {
  explain: Gates['explain'];
  directory: Pick<Directory, 'agentAt' | 'agentByDid'>;
}

const longest = 1_000;

/** `GET /api/v1/explain?from=&to=&action=`: what the gates would make of a request, and which rule decides. */
export function ownerExplainRoutes(deps: OwnerExplainDeps): Route[] {
  return [
    {
      method: 'GET',
      path: '/api/v1/explain',
      about: 'What would become of a request to an agent of yours, gate by gate, without sending one',
      handler: ownerCall(deps, async ({ node, query }) => {
        const from = query.get('from') ?? '';
        const to = query.get('to') ?? '';
        const action = query.get('action') || 'ask';
        if (from === '' || from.length > longest) return invalidData({ from: ['a DID, an address, or anyone'] });
        if (to === '' || to.length > longest) return invalidData({ to: ['the address or DID of an agent of yours'] });
        if (!isAction(action)) return invalidData({ action: ['kind or kind:what, ask:technical'] });
        const agent = await find(to, deps);
        // Somebody else's rules are nobody's to see; that they exist neither.
        if (!agent || !maySee(node, agent)) return refuse('not_found', 'You have no agent by that name.');
        const explanation = await deps.explain({ from, to: agent, action });
        return explanation instanceof Refusal ? explanation : json(200, explanation);
      }),
    },
  ];
}

async function find(to: string, { directory }: OwnerExplainDeps): Promise<Agent | null> {
  if (to.startsWith('did:')) return directory.agentByDid(to);
  const address = readAddress(to);
  return address instanceof Refusal ? null : directory.agentAt({ ...address, session: null });
}

function maySee({ members, isOperator }: NodeIdentity, { memberId, orgId }: Agent): boolean {
  return isOperator || members.some((m) => m.id === memberId || (m.orgId === orgId && m.role === 'admin'));
}
