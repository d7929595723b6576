import type { z } from 'zod';
import type { AgentIdentity, NodeIdentity } from '../../directory/types.ts';
import type { Principal } from '../../exchange/sender.ts';
import type { Inbound } from '../../gates/inbound.ts';
import type { Handler, HttpRequest, HttpResponse } from '../../lib/http.ts';
import { containsNul, readJson } from '../../lib/json.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { errorResponse } from './errors.ts';

export interface CallDeps {
  /** The gates' reading of who calls (`createGates`). */
  identify(inbound: Inbound): Promise<Principal | Refusal>;
}

export interface Call {
  request: HttpRequest;
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
}

export type Answer = HttpResponse | Refusal;

/** "Signed-in human only": the node token of a person. A key that leaked from an agent's configuration decides nothing here. */
export function personCall(deps: CallDeps, handler: (call: Call & { node: NodeIdentity }) => Promise<Answer>): Handler {
  return answered(async (request) => {
    const principal = await whoCalls(deps, request);
    if (principal instanceof Refusal) return principal;
    if (principal.kind === 'node') return handler({ ...parts(request), node: principal.node });
    return principal.kind === 'agent'
      ? refuse('forbidden', 'Only the signed-in person may do that. An agent key cannot.')
      : refuse('unauthenticated', "This call takes a person's bearer token.");
  });
}

/** A call of an agent with its own key. */
export function agentCall(deps: CallDeps, handler: (call: Call & { as: AgentIdentity }) => Promise<Answer>): Handler {
  return answered(async (request) => {
    const principal = await whoCalls(deps, request);
    if (principal instanceof Refusal) return principal;
    if (principal.kind === 'agent') return handler({ ...parts(request), as: principal });
    return refuse('unauthenticated', 'This call takes the `rsk_` key of an agent.');
  });
}

/** A call whose caller the handler finds out. */
export function openCall(handler: (call: Call) => Promise<Answer>): Handler {
  return answered((request) => handler(parts(request)));
}

export function answered(handler: (request: HttpRequest) => Promise<Answer>): Handler {
  return async (request) => {
    const answer = await handler(request);
    return answer instanceof Refusal ? errorResponse(answer) : answer;
  };
}

/** The org that is named, else the caller's first. */
export function orgOf(node: NodeIdentity, named: string | null | undefined): string | Refusal {
  const org = named ?? node.members[0]?.org;
  return org ?? refuse('forbidden', 'Join an organisation first.');
}

function whoCalls(deps: CallDeps, request: HttpRequest): Promise<Principal | Refusal> {
  return deps.identify({ wire: 'replyslip', operation: 'read', request, answers: 'poll', idempotent: false });
}

function parts(request: HttpRequest): Call {
  return { request, params: request.params, query: new URLSearchParams(request.search) };
}

/** An empty body is an empty object. `details.field` names the first field that is wrong. */
export function bodyOf<T>(schema: z.ZodType<T>, { body, headers }: HttpRequest): T | Refusal {
  const type = headers.get('content-type');
  if (type !== undefined && body.length > 0 && !/^application\/json\s*(?:;|$)/i.test(type)) {
    return refuse('unsupported_media_type');
  }
  const parsed = readJson(body.length === 0 ? '{}' : body);
  if (parsed instanceof Refusal) return parsed;
  if (containsNul(parsed.value)) return refuse('invalid_field', 'The body holds U+0000, which no text here may.');
  const result = schema.safeParse(parsed.value);
  if (result.success) return result.data;
  const issue = result.error.issues[0]!;
  const field = issue.path.join('.') || 'body';
  return refuse('invalid_field', `\`${field}\`: ${issue.message}`, { data: { field } });
}

export function iso(ms: number): string {
  return new Date(ms).toISOString();
}
