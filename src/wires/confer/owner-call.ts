import type { z } from 'zod';
import type { Member, NodeIdentity } from '../../directory/types.ts';
import type { Principal } from '../../exchange/sender.ts';
import type { Inbound } from '../../gates/inbound.ts';
import type { Handler, HttpRequest, HttpResponse } from '../../lib/http.ts';
import { containsNul, readJson } from '../../lib/json.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { errorResponse, invalidData } from './errors.ts';

export interface OwnerCallDeps {
  /** The gates' reading of who calls (`createGates`). */
  identify(inbound: Inbound): Promise<Principal | Refusal>;
}

/** A call of a person with a node token. */
export interface OwnerCall {
  node: NodeIdentity;
  /** The ids of all her memberships: what is any of theirs is hers. */
  owners: string[];
  request: HttpRequest;
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
}

/** The owner API (design §10): the owner's node token, and refusals in Confer's form. */
export function ownerCall(deps: OwnerCallDeps, handler: (call: OwnerCall) => Promise<HttpResponse | Refusal>): Handler {
  return async (request) => {
    const principal = await deps.identify({
      wire: 'confer',
      operation: 'read',
      request,
      answers: 'poll',
      idempotent: false,
    });
    if (principal instanceof Refusal) return errorResponse(principal);
    if (principal.kind === 'agent') {
      return errorResponse(refuse('forbidden', 'An agent key may not do that: it takes the token of its owner.'));
    }
    if (principal.kind !== 'node') {
      return errorResponse(refuse('unauthenticated', "This call takes the bearer token of the owner's node."));
    }
    const { node } = principal;
    const answer = await handler({
      node,
      owners: node.members.map(({ id }) => id),
      request,
      params: request.params,
      query: new URLSearchParams(request.search),
    });
    return answer instanceof Refusal ? errorResponse(answer) : answer;
  };
}

/** An empty body is an empty object. Faults go by their fields (confer-wire-facts §2). */
export function bodyOf<T>(schema: z.ZodType<T>, { body, headers }: HttpRequest): T | Refusal {
  const type = headers.get('content-type');
  if (type !== undefined && body.length > 0 && !/^application\/json\s*(?:;|$)/i.test(type)) {
    return refuse('unsupported_media_type');
  }
  const parsed = readJson(body.length === 0 ? '{}' : body);
  if (parsed instanceof Refusal) return parsed;
  if (containsNul(parsed.value)) return invalidData({ body: ['holds U+0000'] });
  const result = schema.safeParse(parsed.value);
  if (result.success) return result.data;
  const faults: Record<string, string[]> = {};
  for (const issue of result.error.issues.slice(0, 20)) {
    const field = issue.path.join('.') || 'body';
    faults[field] = [...(faults[field] ?? []), issue.message];
  }
  return invalidData(faults);
}

/** As which member she acts: of the org that `?org=` names, else her first. */
export function memberFor({ node, query }: OwnerCall): Member | Refusal {
  const org = query.get('org');
  const member = org === null ? node.members[0] : node.members.find((each) => each.org === org);
  if (member) return member;
  return org === null
    ? refuse('forbidden', 'Join an organisation first: nobody can be a contact of who is in none.')
    : refuse('not_found', 'You are in no such organisation.');
}

/** Of a query; what cannot be read is the default (confer-wire-facts §9). */
export function numberIn(query: URLSearchParams, name: string, fallback: number, most: number): number {
  const text = query.get(name);
  if (text === null || !/^\d{1,9}$/.test(text)) return fallback;
  return Math.min(Number(text), most);
}

export function iso(ms: number): string {
  return new Date(ms).toISOString();
}
