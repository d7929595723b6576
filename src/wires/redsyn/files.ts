import type { Core } from '../../exchange/index.ts';
import type { Route } from '../../lib/http.ts';
import { Refusal } from '../../lib/refusal.ts';
import { type CallDeps, call, json } from './common.ts';

export interface FilesDeps extends CallDeps {
  exchange: Pick<Core, 'files'>;
}

/** REDSYN "Mensajes": the zip of a message, apart from it. */
export function fileRoutes(deps: FilesDeps): Route[] {
  return [
    {
      method: 'GET',
      path: '/redsyn/v1/messages/{id}/files',
      about: 'The zip of a message, until it is delivered; `from` names its sender where several used the id',
      handler: call(deps, async ({ node, params, query }) => {
        const zip = await deps.exchange.files({
          id: params.id ?? '',
          from: query.get('from') || null,
          memberIds: node.members.map((member) => member.id),
          orgIds: node.members.map((member) => member.orgId),
        });
        return zip instanceof Refusal ? zip : json(200, { zip: zip.toString('base64') });
      }),
    },
  ];
}
