import { z } from 'zod';
import type { Deliveries } from '../../directory/delivery.ts';
import type { Registry } from '../../directory/index.ts';
import type { Registrations } from '../../directory/registrations.ts';
import { bearerToken } from '../../gates/index.ts';
import type { HttpRequest, Route } from '../../lib/http.ts';
import { Refusal } from '../../lib/refusal.ts';
import { summary } from './agents.ts';
import { type Answer, answered, bodyOf, type CallDeps, iso, orgOf, personCall } from './call.ts';
import { webhook } from './delivery-order.ts';
import { json, secret } from './errors.ts';

export interface JoinDeps extends CallDeps {
  registry: Pick<Registry, 'joinCodes'>;
  registrations: Registrations;
  deliveries: Pick<Deliveries, 'show'>;
  /** The public URL of the gateway. */
  base: string;
}

const newCode = z.object({
  org: z.string().max(300).optional(),
  team: z.string().max(100).nullish(),
  expires_in: z.number().nullish(),
});
const newAgent = z.object({
  name: z.string().max(200),
  description: z.string().max(2_000).default(''),
  webhook: webhook.nullish(),
});

/** replyslip.md "Register with a join code". */
export function joinRoutes(deps: JoinDeps): Route[] {
  const { joinCodes } = deps.registry;
  return [
    {
      method: 'POST',
      path: '/api/v1/join-codes',
      about: 'A single-use code that registers one agent; told once',
      handler: personCall(deps, async ({ node, request }) => {
        const body = bodyOf(newCode, request);
        if (body instanceof Refusal) return body;
        const org = orgOf(node, body.org);
        if (org instanceof Refusal) return org;
        const made = await joinCodes.make(node, { org, team: body.team ?? null, lifetime: body.expires_in ?? null });
        if (made instanceof Refusal) return made;
        return secret(201, { id: made.id, code: made.code, expires_at: iso(made.expiresAt) });
      }),
    },
    {
      method: 'GET',
      path: '/api/v1/join-codes',
      about: 'The join codes of an org, newest first, without the codes themselves',
      handler: personCall(deps, async ({ node, query }) => {
        const org = orgOf(node, query.get('org'));
        const codes = org instanceof Refusal ? org : await joinCodes.list(node, org);
        if (codes instanceof Refusal) return codes;
        const join_codes = codes.map(({ id, state, team, createdAt, expiresAt, agentId }) => ({
          id,
          status: state,
          team,
          created_at: iso(createdAt),
          expires_at: iso(expiresAt),
          agent_id: agentId,
        }));
        return json(200, { join_codes });
      }),
    },
    {
      method: 'DELETE',
      path: '/api/v1/join-codes/{id}',
      about: 'Revokes a join code that was not used yet',
      handler: personCall(deps, async ({ node, params }) => {
        const refusal = await joinCodes.revoke(node, params.id!);
        return refusal ?? json(200, { id: params.id, revoked: true });
      }),
    },
    {
      method: 'POST',
      path: '/api/v1/agents/register',
      about: 'Registers an agent with a join code as the bearer token; its key is told once',
      handler: answered((request) => register(deps, request)),
    },
  ];
}

async function register({ registrations, deliveries, base }: JoinDeps, request: HttpRequest): Promise<Answer> {
  const code = bearerToken(request.headers.get('authorization')) ?? null;
  const no = registrations.knock(request.ip) ?? (await registrations.check(code, request.ip));
  if (no) return no;
  const body = bodyOf(newAgent, request);
  if (body instanceof Refusal) return body;
  const { name, description, webhook } = body;
  const delivery = webhook ? { mode: 'webhook' as const, webhook } : { mode: 'none' as const };
  const done = await registrations.register(code, { name, description, delivery }, request.ip);
  if (done instanceof Refusal) return done;
  const { agent, apiKey } = done;
  const url = `${base}/api/mcp`;
  const header = 'Bearer <api_key>';
  return secret(201, {
    agent: { ...summary(agent), delivery: await deliveries.show(agent.id) },
    api_key: apiKey,
    mcp: { url, header },
    docs: { guide: `${base}/llms.txt`, api: `${base}/docs/api.md`, skill: `${base}/skill.md` },
    next_steps: [
      'Keep api_key now: it is shown only this once, and stored here only as a hash.',
      `Connect to MCP over Streamable HTTP at ${url}. Send the header "Authorization: ${header}" with every request, with api_key in the place of <api_key>.`,
      'Send "Accept: application/json, text/event-stream" and "Content-Type: application/json".',
      webhook
        ? 'A notice is POSTed to your webhook when something waits for you; then call list_tasks and get_task.'
        : 'Nothing wakes you: call list_tasks yourself, for example at the start of each session.',
      `Read ${base}/skill.md before the first task.`,
    ],
  });
}
