import { isName } from '../../directory/names.ts';
import type { Directory } from '../../directory/types.ts';
import type { Trust } from '../../federation/trust/index.ts';
import type { Route } from '../../lib/http.ts';
import { type Refusal, refuse } from '../../lib/refusal.ts';

export interface RevocationDeps {
  trust: Pick<Trust, 'introductions'>;
  directory: Pick<Directory, 'agentAt'>;
  /** Of the public URL. */
  authority: string;
}

/** `GET <issuerEndpoint>/revocations` (muretai-wire-facts §10): who holds an introduction asks its issuer whether it still stands. */
export function revocationRoutes({ trust, directory, authority }: RevocationDeps): Route[] {
  return ['/agents/{user}/{team}/{agent}', '/orgs/{org}/agents/{user}/{team}/{agent}'].map((path) => ({
    method: 'GET',
    path: `${path}/revocations`,
    about: 'The introductions of an agent that no longer hold, signed by its did:key',
    async handler({ params }) {
      const { org = authority, user = '', team = '', agent: name = '' } = params;
      const found = [user, team, name].every(isName)
        ? await directory.agentAt({ org, team, user, agent: name, session: null })
        : null;
      const document = found && (await trust.introductions.revocations(found));
      if (!document) return missing(refuse('not_found'));
      return {
        status: 200,
        headers: {
          'content-type': 'application/json',
          'cache-control': 'max-age=60',
          'access-control-allow-origin': '*',
        },
        body: JSON.stringify(document),
      };
    },
  }));
}

function missing({ words }: Refusal) {
  return { status: 404, headers: { 'content-type': 'application/json' }, body: JSON.stringify({ error: words }) };
}
