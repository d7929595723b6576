import type { Cancels } from '../../exchange/cancel/index.ts';
import type { Core } from '../../exchange/index.ts';
import type { Route } from '../../lib/http.ts';
import { Refusal } from '../../lib/refusal.ts';
import { type CallDeps, call, json } from './common.ts';
import { storedEnvelope } from './sessions.ts';

export interface ThreadsDeps extends CallDeps {
  exchange: Pick<Core, 'thread'>;
  cancels: Pick<Cancels, 'cancel'>;
}

/** REDSYN "Mensajes": the thread view, and withdrawing. */
export function threadRoutes(deps: ThreadsDeps): Route[] {
  return [
    {
      method: 'GET',
      path: '/redsyn/v1/threads/{id}',
      about: 'A thread, as far as you may see it; the newest 500 messages, older ones with `before`',
      handler: call(deps, async ({ node, params, query }) => {
        const memberIds = node.members.map((member) => member.id);
        const view = await deps.exchange.thread(memberIds, params.id ?? '', query.get('before'));
        if (view instanceof Refusal) return view;
        const { thread, before } = view;
        const messages = view.messages.map((message) => storedEnvelope(message, thread));
        return json(200, { thread, messages, ...(before !== null && { before }) });
      }),
    },
    {
      method: 'POST',
      path: '/redsyn/v1/messages/{id}/cancel',
      about: 'Withdraws a request that nobody took; 202 while another gateway that has it could not be asked',
      handler: call(deps, async ({ node, params }) => {
        const memberIds = node.members.map((member) => member.id);
        const done = await deps.cancels.cancel({ kind: 'member', memberIds }, params.id ?? '');
        if (done instanceof Refusal) return done;
        const { id, pending } = done;
        return json(pending ? 202 : 200, { id, canceled: !pending, ...(pending && { pending }) });
      }),
    },
  ];
}
