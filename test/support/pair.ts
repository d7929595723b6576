import type { Lifetime } from './database.ts';
import { eventually, type TestGateway, type TestGatewayOptions, team, testGateway } from './gateway.ts';

export interface Pair {
  acme: TestGateway;
  globex: TestGateway;
}

export const reviewer = 'acme/dev/joel/reviewer';
export const billing = 'globex/erp/bob/billing';

/** Two companies, each on a gateway and a database of its own, with their agents announced but no link yet. */
export async function strangers(
  lifetime: Lifetime,
  options: { acme?: TestGatewayOptions; globex?: TestGatewayOptions } = {},
): Promise<Pair> {
  const [acme, globex] = await Promise.all([
    testGateway(lifetime, { org: 'acme', admin: 'joel', ...options.acme }),
    testGateway(lifetime, { org: 'globex', admin: 'bob', ...options.globex }),
  ]);
  await team(acme, 'dev', ['joel']);
  await team(globex, 'erp', ['bob']);
  await acme.admin.announce(reviewer);
  await globex.admin.announce(billing, { allow: ['org:acme'] });
  return { acme, globex };
}

/** The same, linked with the consent of both; globex exposes billing. */
export async function linkedPair(
  lifetime: Lifetime,
  options: { acme?: TestGatewayOptions; globex?: TestGatewayOptions } = {},
): Promise<Pair> {
  const pair = await strangers(lifetime, options);
  const { acme, globex } = pair;
  await acme.admin.call('POST', '/orgs/acme/links', { other: globex.authority });
  await globex.admin.call('POST', '/orgs/globex/links', { other: acme.authority });
  await globex.admin.call('PUT', '/orgs/globex/links/acme/expose', {
    kind: 'agent',
    pattern: 'erp/bob/billing',
    on: true,
  });
  await eventually('the link is active and the exposure known at acme', async () => {
    const { links } = await acme.admin.call<{ links: Array<{ state: string; exposed: unknown[] }> }>('GET', '/links');
    return links[0]?.state === 'active' && links[0].exposed.length === 1;
  });
  return pair;
}
