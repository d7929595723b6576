import { z } from 'zod';
import { readAddress } from '../../directory/names.ts';
import type { Address } from '../../directory/types.ts';
import type { Limits } from '../../exchange/limits/index.ts';
import type { Route } from '../../lib/http.ts';
import { Refusal } from '../../lib/refusal.ts';
import type { ModelSettings, ModelView } from '../../model/settings/index.ts';
import { json } from './errors.ts';
import { bodyOf, iso, type OwnerCall, type OwnerCallDeps, ownerCall } from './owner-call.ts';

export interface OwnerModelDeps extends OwnerCallDeps {
  models: Pick<ModelSettings, 'set' | 'show' | 'off'>;
  limits: Pick<Limits, 'list'>;
}

const path = '/api/v1/agents/{org}/{team}/{user}/{agent}/model';
const key = z.string().regex(/^[\x21-\x7e]{1,500}$/, 'must be 1 to 500 printable characters without blanks');
const url = z.string().max(500);
const settings = z.object({
  provider: z.string().max(50),
  model: z.string().min(1).max(200),
  base_url: url.nullish(),
  key: key.nullish(),
  system: z.string().max(20_000).nullish(),
  max_tokens: z.number().int().min(16).max(32_000).nullish(),
  stream: z.boolean().nullish(),
  memory: z.boolean().nullish(),
  web_search: z.object({ key: key.optional(), url: url.optional() }).nullish(),
});

/** `/api/v1/agents/…/model`: which model answers for an agent of yours. Keys go in and never come out. */
export function ownerModelRoutes(deps: OwnerModelDeps): Route[] {
  const { models } = deps;
  const shown = async (view: ModelView | Refusal, { owners }: Pick<OwnerCall, 'owners'>) => {
    if (view instanceof Refusal) return view;
    const all = (await deps.limits.list(owners)).find(({ agent, peer }) => agent === view.agent && peer === '');
    return json(200, { model: rendered(view, all?.used.tokens ?? 0) });
  };
  return [
    {
      method: 'PUT',
      path,
      about: 'Lets a model answer for an agent of yours; the key is sealed and never shown again',
      handler: ownerCall(deps, async (call) => {
        const { node, request, params } = call;
        const address = addressIn(params);
        if (address instanceof Refusal) return address;
        const said = bodyOf(settings, request);
        if (said instanceof Refusal) return said;
        const { provider, model } = said;
        const set = await models.set(node, address, {
          provider,
          model,
          baseUrl: said.base_url ?? undefined,
          key: said.key,
          system: said.system ?? undefined,
          maxTokens: said.max_tokens ?? undefined,
          streams: said.stream ?? undefined,
          remembers: said.memory ?? undefined,
          search: said.web_search,
        });
        return shown(set, call);
      }),
    },
    {
      method: 'GET',
      path,
      about: 'Which model answers for it, what went wrong last, and its tokens of today',
      handler: ownerCall(deps, async (call) => {
        const address = addressIn(call.params);
        return address instanceof Refusal ? address : shown(await models.show(call.node, address), call);
      }),
    },
    {
      method: 'DELETE',
      path,
      about: 'The agent is answered for by whoever takes from its inbox; its keys are deleted',
      handler: ownerCall(deps, async ({ node, params }) => {
        const address = addressIn(params);
        if (address instanceof Refusal) return address;
        return (await models.off(node, address)) ?? json(200, { ok: true });
      }),
    },
  ];
}

function addressIn({ org, team, user, agent }: Readonly<Record<string, string>>): Address | Refusal {
  return readAddress(`${org}/${team}/${user}/${agent}`);
}

function rendered(view: ModelView, tokensToday: number): object {
  const { search } = view;
  return {
    agent: view.agent,
    provider: view.provider,
    base_url: view.baseUrl,
    model: view.model,
    key_last4: view.keyLast4,
    system: view.system,
    max_tokens: view.maxTokens,
    stream: view.streams,
    memory: view.remembers,
    web_search: search && { url: search.url, key_last4: search.keyLast4 },
    last_error: view.lastError,
    last_error_at: view.lastErrorAt === null ? null : iso(view.lastErrorAt),
    tokens_today: tokensToday,
  };
}
