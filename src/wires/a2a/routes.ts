import type { HttpRequest, HttpResponse, RenderRefusal, Route } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { ofRefusal, type RpcError } from './errors.ts';
import { carriesProof } from './get.ts';
import { type A2aDeps, activated, type Outcome, run } from './operations.ts';
import { isRestPath, renderRestRefusal, restRoutes } from './rest.ts';
import { answerError, answeredId, answerResult, type Call, type RequestId, readCall, resultText } from './rpc.ts';
import type { Asked } from './send.ts';
import { streamResponse } from './sse.ts';
import { answerToV03, eventToV03, paramsFromV03 } from './v03.ts';

export type { A2aDeps } from './operations.ts';

/** An envelope may stand in a request twice: whole in the metadata, and shown as parts. */
const maxBody = 1024 * 1024;
/** With a zip of 5 MB in it, as base64. */
const maxLargeBody = 8 * 1024 * 1024;

const INVALID_PARAMS = -32602;

/** The agent that a path names, as a tenant. */
type TenantOf = (params: Readonly<Record<string, string>>) => string | undefined;

const paths: readonly (readonly [path: string, tenant: TenantOf, about: string])[] = [
  ['/', () => undefined, 'A2A JSON-RPC of the front desk.'],
  ['/a2a/v1', () => undefined, 'A2A JSON-RPC of the agent that `tenant` names, else of the front desk.'],
  ['/a2a/v1/{tenant}', ({ tenant }) => tenant, 'A2A JSON-RPC of one agent: <user> or <user>:<team>:<agent>.'],
  ['/agents/{user}', ({ user }) => user, "A2A JSON-RPC of a person's default agent."],
  [
    '/agents/{user}/{team}/{agent}',
    ({ user, team, agent }) => [user, team, agent].join(':'),
    'A2A JSON-RPC of an agent.',
  ],
  ['/orgs/{org}/agents/{user}', ({ org, user }) => ['orgs', org, 'agents', user].join(':'), 'The same in another org.'],
  [
    '/orgs/{org}/agents/{user}/{team}/{agent}',
    ({ org, user, team, agent }) => ['orgs', org, 'agents', user, team, agent].join(':'),
    'The same in another org.',
  ],
];

/** A2A of both versions: over JSON-RPC on the same addresses, over HTTP+JSON each on its own. */
export function a2aRoutes(deps: A2aDeps): Route[] {
  const body = {
    maxBody,
    large: { maxBody: maxLargeBody, allow: (request: HttpRequest) => mayBeLarge(deps, request) },
  };
  const rpc = paths.map(
    ([path, tenant, about]): Route => ({
      method: 'POST',
      path,
      handler: (request) => handle(deps, request, tenant(request.params)),
      hot: true,
      ...body,
      about,
    }),
  );
  return [...rpc, ...restRoutes(deps, body)];
}

/** Who proves to be somebody may; of everybody else no more is read than before. */
async function mayBeLarge({ gates }: A2aDeps, request: HttpRequest): Promise<Refusal | undefined> {
  if (!carriesProof(request)) {
    return refuse('payload_too_large', `The body is larger than the ${maxBody} bytes that strangers may send.`, {
      data: { limit: maxBody },
    });
  }
  const caller = await gates.identify({ wire: 'a2a', operation: 'knock', request, answers: 'poll', idempotent: false });
  return caller instanceof Refusal ? caller : undefined;
}

/** What was refused before a request was read has no id, and HTTP's own status. */
export const renderRefusal: RenderRefusal = (refusal, request) => {
  if (isRestPath(request.path)) return renderRestRefusal(refusal, request);
  const error = ofRefusal(refusal);
  return answerError({ text: 'null' }, { ...error, status: error.status === 200 ? refusal.status : error.status });
};

async function handle(deps: A2aDeps, request: HttpRequest, pathTenant: string | undefined): Promise<HttpResponse> {
  const call = readCall(request);
  if ('error' in call) return answerError(call.id, call.error);
  const asked = askedBy(call, request, pathTenant);
  const outcome = await run(deps, asked);
  const headers = activated(call.version, request);
  if ('error' in outcome) return refused(call, request, outcome.error, headers);
  return answer(deps, call, outcome, headers);
}

function refused(call: Call, request: HttpRequest, error: RpcError, headers: Record<string, string>): HttpResponse {
  if (wantsEvents(call, request)) return eventOf(call.id, error, headers);
  return answerError(error.code === INVALID_PARAMS ? answeredId(call.id, call.version) : call.id, error, headers);
}

/** Clients of 0.3 that ask for a stream read nothing else, not even why there is none. 1.0 has errors answered as errors. */
function wantsEvents({ operation, version, id }: Call, { headers }: HttpRequest): boolean {
  const isStream = operation === 'stream' || operation === 'subscribe';
  return version === '0.3' && isStream && id !== 'none' && headers.get('accept')?.trim() === 'text/event-stream';
}

/** A stream that says one thing. */
function eventOf(id: RequestId, error: RpcError, headers: Record<string, string>): HttpResponse {
  const answered = answerError(id, error, headers);
  const type = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache, no-transform' };
  return { ...answered, headers: { ...answered.headers, ...type }, body: `data: ${String(answered.body)}\n\n` };
}

function askedBy(
  { id, operation, version, params, raw }: Call,
  request: HttpRequest,
  pathTenant: string | undefined,
): Asked {
  return {
    operation,
    version,
    params: version === '0.3' ? paramsFromV03(operation, params) : params,
    raw,
    messageText: () => raw(['message'])!,
    request,
    pathTenant,
    isAnswered: id !== 'none',
  };
}

function answer(
  { clock }: A2aDeps,
  { id, version }: { id: RequestId; version: Call['version'] },
  outcome: Exclude<Outcome, { error: RpcError }>,
  headers: Record<string, string>,
): HttpResponse {
  if ('stream' in outcome) {
    if (id === 'none') {
      outcome.stream.close();
      return answerResult(id, null, headers);
    }
    return streamResponse(
      outcome.stream,
      ({ event, final }) => resultText(id, version === '1.0' ? event : eventToV03(event, final)),
      clock,
      headers,
    );
  }
  const result = version === '1.0' ? outcome.value : answerToV03(outcome.operation, outcome.value);
  return answerResult(id, result, headers);
}
