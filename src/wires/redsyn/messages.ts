import type { Admitted } from '../../exchange/admitted.ts';
import type { Core } from '../../exchange/index.ts';
import type { Inbound } from '../../gates/inbound.ts';
import type { Route } from '../../lib/http.ts';
import { Refusal } from '../../lib/refusal.ts';
import { type CallDeps, json, openCall, versionOf } from './common.ts';
import { currentVersion } from './errors.ts';
import { parseEnvelope } from './parse.ts';

export interface MessagesDeps extends CallDeps {
  admit(inbound: Inbound): Promise<Admitted | Refusal>;
  exchange: Pick<Core, 'accept'>;
}

/** A body of 64 KB, as many references, and room for escapes and the rest. */
const maxRequest = 512 * 1024;
/** With a zip of 5 MB, as base64. */
const maxLargeRequest = 8 * 1024 * 1024;

/** REDSYN "Mensajes": sending. */
export function messageRoutes(deps: MessagesDeps): Route[] {
  return [
    {
      method: 'POST',
      path: '/redsyn/v1/messages',
      about: 'Sends an envelope',
      hot: true,
      maxBody: maxRequest,
      large: {
        maxBody: maxLargeRequest,
        async allow(request) {
          const caller = await deps.identify({
            wire: 'redsyn',
            operation: 'knock',
            request,
            answers: 'poll',
            idempotent: false,
          });
          return caller instanceof Refusal ? caller : undefined;
        },
      },
      handler: openCall(parseEnvelope, async ({ request, body }) => {
        const admitted = await deps.admit({
          wire: 'redsyn',
          operation: 'message',
          request,
          envelope: body.envelope,
          envelopeText: body.text,
          zip: body.zip,
          answers: 'inbox',
          idempotent: true,
        });
        if (admitted instanceof Refusal) return admitted;
        const accepted = await deps.exchange.accept(admitted);
        if (accepted instanceof Refusal) return accepted;
        const { id, thread, to, signed, duplicate, state, warning } = accepted;
        const { sender } = admitted;
        const version = sender.kind === 'local' ? await versionOf(deps, sender.member.orgId) : currentVersion;
        const headers = { 'redsyn-version': version };
        const answer = { id, thread, to, signed, ...(duplicate && { duplicate }), ...(warning && { warning }) };
        return state === 'auth_required'
          ? json(202, { ...answer, status: 'pending_approval' }, { headers })
          : json(201, answer, { headers });
      }),
    },
  ];
}
