import type { Registry } from '../../directory/index.ts';
import type { Route } from '../../lib/http.ts';
import { type CallDeps, call, json } from './common.ts';
import { currentVersion, versions } from './errors.ts';

export interface MeDeps extends CallDeps {
  registry: Pick<Registry, 'people' | 'lookups' | 'keyring'>;
}

/** REDSYN "Agentes y presencia": who you are, your orgs, teams and open invitations, and the known versions. */
export function meRoutes(deps: MeDeps): Route[] {
  const { people, lookups, keyring } = deps.registry;
  return [
    {
      method: 'GET',
      path: '/redsyn/v1/me',
      about: 'Who you are',
      handler: call(deps, async ({ node }) => {
        const [orgs, invites] = await Promise.all([
          Promise.all(
            node.members.map(async (member) => ({
              org: member.org,
              me: member.handle,
              role: member.role,
              did: keyring.owner(member).did,
              teams: await lookups.teamsOf(member.id),
              agents: (await lookups.agentsOf(member.id)).map((agent) => agent.address),
            })),
          ),
          node.email === null ? [] : people.openInvites(node.email),
        ]);
        return json(200, {
          person: { id: node.personId, email: node.email, operator: node.isOperator },
          node: { id: node.nodeId, name: node.nodeName, public_key: node.publicKey, enc_key: node.encKey },
          orgs,
          invites: invites.map(({ org, team, expiresAt }) => ({ org, team, expires_at: Math.floor(expiresAt / 1000) })),
          versions: { known: versions, current: currentVersion },
        });
      }),
    },
  ];
}
