import { z } from 'zod';
import type { Capabilities } from '../../directory/capabilities.ts';
import type { Gates } from '../../gates/index.ts';
import type { HttpRequest, HttpResponse, Route } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { errorResponse, json } from './errors.ts';
import { readWith } from './parse.ts';

export interface CapabilityDeps {
  gates: Pick<Gates, 'identify'>;
  capabilities: Pick<Capabilities, 'issue' | 'narrow'>;
}

const text = z.string('must be a text').min(1, 'is empty').max(512, 'has more than 512 characters');
const common = {
  sub: text.optional(),
  thread_id: text.optional(),
  org: text.optional(),
};
const fresh = z.object({
  ...common,
  aud: text,
  scope: z.array(text).min(1).max(64),
  expires_in: z.number().default(3_600),
});
const narrowed = z.object({
  ...common,
  token: z.string('must be a text').max(8 * 1024),
  aud: text.optional(),
  scope: z.array(text).min(1).max(64).optional(),
  expires_in: z.number().optional(),
});

/** Tokens with which an owner's agent declares what it comes to ask (confer-wire-facts §6). */
export function capabilityRoutes(deps: CapabilityDeps): Route[] {
  return [
    {
      method: 'POST',
      path: '/api/v1/capabilities',
      handler: (request) =>
        make(deps, request, fresh, (owner, of) =>
          deps.capabilities.issue(owner, { ...optional(of), aud: of.aud, scope: of.scope, expiresIn: of.expires_in }),
        ),
      about: 'Issues a capability token, signed by your key.',
    },
    {
      method: 'POST',
      path: '/api/v1/capabilities/narrow',
      handler: (request) =>
        make(deps, request, narrowed, (owner, of) => deps.capabilities.narrow(owner, of.token, optional(of))),
      about: 'Passes on less than the capability token that you hold.',
    },
  ];
}

type Owner = Parameters<Capabilities['issue']>[0];

async function make<T extends { org?: string | undefined }>(
  { gates }: CapabilityDeps,
  request: HttpRequest,
  schema: z.ZodType<T>,
  act: (owner: Owner, of: T) => Promise<string | Refusal>,
): Promise<HttpResponse> {
  const who = await gates.identify({ wire: 'confer', operation: 'read', request, answers: 'poll', idempotent: false });
  if (who instanceof Refusal) return errorResponse(who);
  if (who.kind !== 'node')
    return errorResponse(refuse('unauthenticated', 'This call takes the bearer token of a node.'));
  const read = readWith(schema, request);
  if (read instanceof Refusal) return errorResponse(read);
  const { members } = who.node;
  const owner = read.org === undefined ? members[0] : members.find(({ org }) => org === read.org);
  if (!owner) return errorResponse(refuse('forbidden', 'You are not in that organisation.'));
  const token = await act(owner, read);
  return token instanceof Refusal ? errorResponse(token) : json(201, { token });
}

function optional(of: {
  sub?: string | undefined;
  aud?: string | undefined;
  scope?: string[] | undefined;
  thread_id?: string | undefined;
  expires_in?: number | undefined;
}): { sub?: string; aud?: string; scope?: string[]; threadId?: string; expiresIn?: number } {
  const { sub, aud, scope, thread_id: threadId, expires_in: expiresIn } = of;
  return {
    ...(sub !== undefined && { sub }),
    ...(aud !== undefined && { aud }),
    ...(scope !== undefined && { scope }),
    ...(threadId !== undefined && { threadId }),
    ...(expiresIn !== undefined && { expiresIn }),
  };
}
