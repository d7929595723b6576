import { z } from 'zod';
import type { LinkOperations, LinkView, Outcome } from '../../federation/types.ts';
import type { Route } from '../../lib/http.ts';
import { Refusal } from '../../lib/refusal.ts';
import { type Answer, type CallDeps, call, json } from './common.ts';

export interface LinksDeps extends CallDeps {
  links: Omit<LinkOperations, 'receive' | 'sender'>;
}

const proposal = z.object({ other: z.string().max(400) });
const exposure = z.object({ kind: z.string().max(20), pattern: z.string().max(400), on: z.boolean().nullish() });
const rules = z.object({
  signed_only: z.boolean().nullish(),
  ips: z.union([z.string().max(20_000), z.array(z.string().max(100)).max(500)]).nullish(),
});

const path = '/redsyn/v1/orgs/{org}/links';

/** REDSYN "Organizaciones y enlaces": the links. */
export function linkRoutes(deps: LinksDeps): Route[] {
  const { links } = deps;
  return [
    {
      method: 'POST',
      path,
      about: 'Proposes a link, or accepts the one that the other side proposed',
      handler: call(deps, proposal, async ({ node, params, body }) =>
        shown(await links.propose(node, params.org!, body.other)),
      ),
    },
    {
      method: 'PUT',
      path: `${path}/{other}/expose`,
      about: 'Exposes an agent or a topic to the other side; `"on": false` takes it back',
      handler: call(deps, exposure, async ({ node, params, body }) => {
        const { kind, pattern, on } = body;
        return shown(await links.expose(node, params.org!, params.other!, { kind, pattern, on: on ?? true }));
      }),
    },
    {
      method: 'PUT',
      path: `${path}/{other}/rules`,
      about: 'What may enter from the other side',
      handler: call(deps, rules, async ({ node, params, body }) => {
        const change = {
          ...(body.signed_only != null && { signedOnly: body.signed_only }),
          ...(body.ips != null && { ips: body.ips }),
        };
        return shown(await links.rules(node, params.org!, params.other!, change));
      }),
    },
    {
      method: 'POST',
      path: `${path}/{other}/revoke`,
      about: 'Ends a link, from either side',
      handler: call(deps, async ({ node, params }) => shown(await links.revoke(node, params.org!, params.other!))),
    },
    {
      method: 'GET',
      path: '/redsyn/v1/links',
      about: 'The links of your orgs: state, what each side exposes, rules and the last changes',
      handler: call(deps, async ({ node }) => json(200, { links: await links.list(node) })),
    },
  ];
}

function shown(outcome: Outcome<LinkView>): Answer {
  return outcome instanceof Refusal ? outcome : json(200, outcome);
}
