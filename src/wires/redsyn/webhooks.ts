import { z } from 'zod';
import type { Webhooks } from '../../directory/webhooks.ts';
import type { Route } from '../../lib/http.ts';
import { Refusal } from '../../lib/refusal.ts';
import { addressOf, type CallDeps, call, json } from './common.ts';

export interface WebhooksWireDeps extends CallDeps {
  webhooks: Pick<Webhooks, 'set' | 'remove' | 'show'>;
}

const path = '/redsyn/v1/agents/{org}/{team}/{user}/{agent}/webhook';
const target = z.object({ url: z.string().max(10_000) });

/** REDSYN "Webhooks". */
export function webhookRoutes(deps: WebhooksWireDeps): Route[] {
  const { webhooks } = deps;
  return [
    {
      method: 'PUT',
      path,
      about: "Pushes an agent's messages to a URL; the signing secret is told once",
      handler: call(deps, target, async ({ node, params, body }) => {
        const address = addressOf(params);
        if (address instanceof Refusal) return address;
        const set = await webhooks.set(node, address, body.url);
        if (set instanceof Refusal) return set;
        const { url, secret, created } = set;
        return json(created ? 201 : 200, { url, secret }, { headers: { 'cache-control': 'no-store' } });
      }),
    },
    {
      method: 'GET',
      path,
      about: "An agent's webhook, as its owner sees it: without the secret, with the last failure",
      handler: call(deps, async ({ node, params }) => {
        const address = addressOf(params);
        if (address instanceof Refusal) return address;
        const webhook = await webhooks.show(node, address);
        if (webhook instanceof Refusal) return webhook;
        const { url, lastError, lastErrorAt } = webhook;
        return json(200, {
          url,
          last_error: lastError,
          last_error_at: lastErrorAt === null ? null : Math.floor(lastErrorAt / 1000),
        });
      }),
    },
    {
      method: 'DELETE',
      path,
      about: 'Back to the inbox',
      handler: call(deps, async ({ node, params }) => {
        const address = addressOf(params);
        if (address instanceof Refusal) return address;
        const refused = await webhooks.remove(node, address);
        return refused ?? json(200, { url: null });
      }),
    },
  ];
}
