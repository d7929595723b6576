import { z } from 'zod';
import type { Registry } from '../../directory/index.ts';
import type { Watcher } from '../../directory/types.ts';
import type { Inbound } from '../../gates/inbound.ts';
import type { HttpRequest, Route } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import type { Wakes } from '../../outbox/wakes.ts';
import { answered, bodyOf, type CallDeps, iso, orgOf, personCall } from './call.ts';
import { json, secret } from './errors.ts';

export interface WatchDeps extends CallDeps {
  watcher(inbound: Inbound): Promise<Watcher | Refusal>;
  registry: Pick<Registry, 'watcherKeys'>;
  wakes: Pick<Wakes, 'poll' | 'ack' | 'retryDue'>;
}

const newKey = z.object({ org: z.string().max(300).optional(), name: z.string().trim().min(1).max(200) });
const nothing = z.object({});
const acked = z.object({ wake_id: z.string().max(100) });
/** The answer of the cron call tells what became of what it sent, when that is known in this time. */
const cronWaitMs = 20_000;

/** Watchers and the cron of wakes (replyslip.md "Local agent", "When a webhook POST fails"). */
export function watchRoutes(deps: WatchDeps): Route[] {
  const { wakes } = deps;
  const { watcherKeys } = deps.registry;
  const who = (request: HttpRequest): Promise<Watcher | Refusal> =>
    deps.watcher({ wire: 'replyslip', operation: 'watch', request, answers: 'poll', idempotent: false });
  const cron = personCall(deps, async ({ node }) => {
    if (!node.isOperator) return refuse('forbidden', 'Only the operator of this gateway runs the retries.');
    return json(200, await wakes.retryDue(cronWaitMs));
  });
  return [
    {
      method: 'POST',
      path: '/api/v1/watcher-keys',
      about: 'A key for `gatehouse watch`: it polls and acks the wakes of the org. Told once',
      handler: personCall(deps, async ({ node, request }) => {
        const body = bodyOf(newKey, request);
        if (body instanceof Refusal) return body;
        const org = orgOf(node, body.org);
        const made = org instanceof Refusal ? org : await watcherKeys.make(node, { org, name: body.name });
        return made instanceof Refusal ? made : secret(201, made);
      }),
    },
    {
      method: 'GET',
      path: '/api/v1/watcher-keys',
      about: 'The watcher keys of an org, without the keys themselves',
      handler: personCall(deps, async ({ node, query }) => {
        const org = orgOf(node, query.get('org'));
        const keys = org instanceof Refusal ? org : await watcherKeys.list(node, org);
        if (keys instanceof Refusal) return keys;
        const watcher_keys = keys.map(({ id, name, createdAt, lastSeen }) => ({
          id,
          name,
          created_at: iso(createdAt),
          last_seen: lastSeen === null ? null : iso(lastSeen),
        }));
        return json(200, { watcher_keys });
      }),
    },
    {
      method: 'DELETE',
      path: '/api/v1/watcher-keys/{id}',
      about: 'Ends a watcher key at once',
      handler: personCall(deps, async ({ node, params }) => {
        const refusal = await watcherKeys.revoke(node, params.id!);
        return refusal ?? json(200, { id: params.id, revoked: true });
      }),
    },
    {
      method: 'POST',
      path: '/api/v1/watcher/poll',
      about: 'Leases pending local wakes for 60 s: which driver, which target, and no word of what waits',
      handler: answered(async (request) => {
        const watcher = await who(request);
        const body = watcher instanceof Refusal ? watcher : bodyOf(nothing, request);
        if (watcher instanceof Refusal || body instanceof Refusal) return body as Refusal;
        const due = await wakes.poll(watcher.orgId);
        return json(200, { wakes: due.map(({ id, driver, target }) => ({ id, driver, target, pane: target })) });
      }),
    },
    {
      method: 'POST',
      path: '/api/v1/watcher/ack',
      about: 'The agent of a wake was nudged',
      handler: answered(async (request) => {
        const watcher = await who(request);
        const body = watcher instanceof Refusal ? watcher : bodyOf(acked, request);
        if (watcher instanceof Refusal || body instanceof Refusal) return body as Refusal;
        const refusal = await wakes.ack(watcher.orgId, body.wake_id);
        return refusal ?? json(200, { wake_id: body.wake_id, acked: true });
      }),
    },
    { method: 'GET', path: '/api/cron/wakes', about: 'Runs the retries of wakes that are due', handler: cron },
    { method: 'POST', path: '/api/cron/wakes', about: 'Runs the retries of wakes that are due', handler: cron },
  ];
}
