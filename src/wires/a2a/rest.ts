import type { HttpRequest, HttpResponse, RenderRefusal, Route } from '../../lib/http.ts';
import { type JsonText, readJson } from '../../lib/json.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { ofRefusal, type RpcError, versionNotSupported } from './errors.ts';
import { type A2aDeps, activated, type Outcome, run } from './operations.ts';
import { isRecord, type OperationName, type Version } from './protocol.ts';
import { askedVersion, jsonLimits } from './rpc.ts';
import type { Asked } from './send.ts';
import { streamResponse } from './sse.ts';
import { answerToProto, eventToProto, paramsFromProto } from './v03-proto.ts';

/** A row of the binding (§11.3): the path's `{id}` is the task, `{config}` the push notification config. */
type Row = readonly [method: Route['method'], path: string, operation: OperationName];

/** POST and GET of subscribe: the prose says one, the proto the other (a2a-conformance §1). */
const common: readonly Row[] = [
  ['POST', '/message:send', 'send'],
  ['POST', '/message:stream', 'stream'],
  ['GET', '/tasks', 'list'],
  ['GET', '/tasks/{id}', 'get'],
  ['POST', '/tasks/{id}:cancel', 'cancel'],
  ['GET', '/tasks/{id}:subscribe', 'subscribe'],
  ['POST', '/tasks/{id}:subscribe', 'subscribe'],
  ['POST', '/tasks/{id}/pushNotificationConfigs', 'pushSet'],
  ['GET', '/tasks/{id}/pushNotificationConfigs', 'pushList'],
  ['GET', '/tasks/{id}/pushNotificationConfigs/{config}', 'pushGet'],
  ['DELETE', '/tasks/{id}/pushNotificationConfigs/{config}', 'pushDelete'],
];
const cardPaths: Readonly<Record<Version, string>> = { '1.0': '/extendedAgentCard', '0.3': '/card' };

type Params = Readonly<Record<string, string>>;
type Base = readonly [version: Version, path: string, tenant: (params: Params) => string | undefined];

/** 1.0 stands where the card's HTTP+JSON interface says; 0.3 beneath the 0.3 card's own `url`, with its `/v1`. */
const bases: readonly Base[] = [
  ['1.0', '/a2a/v1', () => undefined],
  ['1.0', '/a2a/v1/{tenant}', ({ tenant }) => tenant],
  ['0.3', '/v1', () => undefined],
  ['0.3', '/agents/{user}/v1', ({ user }) => user],
  ['0.3', '/agents/{user}/{team}/{agent}/v1', ({ user, team, agent }) => [user, team, agent].join(':')],
  ['0.3', '/orgs/{org}/agents/{user}/v1', ({ org, user }) => ['orgs', org, 'agents', user].join(':')],
  [
    '0.3',
    '/orgs/{org}/agents/{user}/{team}/{agent}/v1',
    ({ org, user, team, agent }) => ['orgs', org, 'agents', user, team, agent].join(':'),
  ],
];

/** A2A over HTTP+JSON. `body`: what a message may weigh. */
export function restRoutes(deps: A2aDeps, body: Pick<Route, 'maxBody' | 'large'>): Route[] {
  return bases.flatMap(([version, base, tenant]) =>
    [...common, ['GET', cardPaths[version], 'extendedCard'] as const].map(
      ([method, path, operation]): Route => ({
        method,
        path: base + path,
        handler: (request) => handle(deps, request, { operation, version, pathTenant: tenant(request.params) }),
        ...(method === 'POST' && body),
        about: `A2A ${version} over HTTP+JSON: ${operation}`,
      }),
    ),
  );
}

/** JSON-RPC answers beside it, on `/a2a/v1`, `/a2a/v1/{tenant}` and the agents' own paths. */
export function isRestPath(path: string): boolean {
  return /^\/a2a\/v1\/(?:[^/]+\/[^/]|message:|tasks\/?$|extendedAgentCard)/.test(path) || isLegacyPath(path);
}

function isLegacyPath(path: string): boolean {
  return /^(?:\/orgs\/[^/]+)?(?:\/agents\/[^/]+(?:\/[^/]+\/[^/]+)?)?\/v1\/(?:message:|tasks(?:\/|$)|card)/.test(path);
}

export const renderRestRefusal: RenderRefusal = (refusal, { path }) => {
  const error = ofRefusal(refusal);
  return answerError(isLegacyPath(path) ? '0.3' : '1.0', error, { 'content-type': 'application/json' });
};

interface Place {
  operation: OperationName;
  version: Version;
  pathTenant: string | undefined;
}

async function handle(deps: A2aDeps, request: HttpRequest, place: Place): Promise<HttpResponse> {
  const { version } = place;
  const headers = { ...activated(version, request), 'content-type': mediaType(version, request) };
  const asked = readAsked(request, place);
  if ('rest' in asked) return answerError(version, asked, headers);
  return answer(deps, version, await run(deps, asked), headers);
}

function readAsked(request: HttpRequest, { operation, version, pathTenant }: Place): Asked | RpcError {
  const spoken = askedVersion(request);
  if (spoken !== undefined && spoken !== version) return versionNotSupported([version]);
  const json = readBody(request);
  if (json instanceof Refusal) {
    // The body's own media type is HTTP's to refuse; a part's is A2A's, and 400 (§5.4).
    const error = ofRefusal(json);
    return json.code === 'unsupported_media_type' ? { ...error, rest: 415 } : error;
  }
  const body = json.value as Record<string, unknown>;
  // The path says which task and which config; what the body says of them is passed over.
  const given =
    request.method === 'POST' ? { ...body, ...pathParams(operation, request.params) } : queryParams(operation, request);
  const params = version === '0.3' ? paramsFromProto(operation, given) : given;
  return {
    operation,
    version,
    params,
    raw: (path) => json.raw(path),
    // 0.3's proto form is a form of this binding alone: what is kept is in 1.0's.
    messageText: () => (version === '1.0' ? json.raw(['message'])! : JSON.stringify(params.message)),
    request,
    pathTenant,
    isAnswered: true,
  };
}

const nothing: JsonText = { value: {}, raw: () => undefined };

/** No body at all, and `null`, are an empty message (SDKs for Go and Python send the latter). */
function readBody(request: HttpRequest): JsonText | Refusal {
  if (request.method !== 'POST' || request.body.length === 0) return nothing;
  const type = request.headers.get('content-type');
  if (type !== undefined && !/^application\/(?:[a-z0-9.-]+\+)?json\s*(?:;|$)/i.test(type)) {
    return refuse('unsupported_media_type', 'Send the body as application/a2a+json or application/json.', {
      detail: type,
    });
  }
  const json = readJson(request.body, jsonLimits);
  if (json instanceof Refusal) return json;
  if (json.value === null) return nothing;
  return isRecord(json.value) ? json : refuse('malformed_request', 'The body must be a JSON object.');
}

function pathParams(operation: OperationName, { id, config }: Params): Record<string, string> {
  if (id === undefined) return {};
  if (operation === 'pushSet') return { taskId: id };
  return config === undefined ? { id } : { taskId: id, id: config };
}

const numbers = new Set(['historyLength', 'pageSize']);

/** §11.5: camelCase; numbers and booleans as text. What is none stays text, which the checks refuse. */
function queryParams(operation: OperationName, request: HttpRequest): Record<string, unknown> {
  const params: Record<string, unknown> = {};
  for (const [key, value] of new URLSearchParams(request.search)) {
    const name = key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    if (name === 'A2A-Version') continue;
    if (numbers.has(name)) params[name] = /^-?\d{1,9}$/.test(value) ? Number(value) : value;
    else params[name] = value === 'true' ? true : value === 'false' ? false : value;
  }
  const { id, config } = request.params;
  if (operation === 'pushList') return { ...params, taskId: id };
  // 0.3's own names, so that one translation serves both bindings of it.
  if (config !== undefined) return { ...params, taskId: id, id: config };
  return id === undefined ? params : { ...params, id };
}

function answer({ clock }: A2aDeps, version: Version, outcome: Outcome, headers: Record<string, string>): HttpResponse {
  if ('error' in outcome) return answerError(version, outcome.error, headers);
  if ('stream' in outcome) {
    const { 'content-type': _, ...rest } = headers;
    return streamResponse(
      outcome.stream,
      ({ event, final }) => JSON.stringify(version === '1.0' ? event : eventToProto(event, final)),
      clock,
      rest,
    );
  }
  if (outcome.operation === 'pushDelete' && version === '0.3') return { status: 204, headers };
  const value = version === '1.0' ? outcome.value : answerToProto(outcome.operation, outcome.value);
  return { status: 200, headers: { ...headers, 'cache-control': 'no-store' }, body: JSON.stringify(value) };
}

/** AIP-193 in 1.0 (§11.6). 0.3 leaves it open: as the SDK has it. */
function answerError(version: Version, error: RpcError, headers: Record<string, string>): HttpResponse {
  const { rest: status, message, data } = error;
  const body =
    version === '1.0'
      ? { error: { code: status, status: statusName(error), message, details: detailsOf(error) } }
      : { code: error.code, message, data };
  const all = { ...headers, 'cache-control': 'no-store', ...error.headers };
  return { status, headers: all, body: JSON.stringify(body) };
}

const EXTENSION_REQUIRED = -32008;

function detailsOf({ code, data }: RpcError): object[] {
  if (code !== EXTENSION_REQUIRED) return data;
  return data.map((detail) => {
    const { metadata } = detail as { metadata?: { extension?: string } };
    return { ...detail, metadata: { extension: metadata?.extension } };
  });
}

/** Names of google.rpc.Code. 400 is two of them: the input is wrong, or the time for it. */
const statusNames: Readonly<Record<number, string>> = {
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  405: 'UNIMPLEMENTED',
  409: 'ABORTED',
  410: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  502: 'UNAVAILABLE',
};
const failedPreconditions = new Set([-32002, -32003, -32004, -32007, -32008, -32009]);

function statusName({ rest, code }: RpcError): string {
  if (failedPreconditions.has(code)) return 'FAILED_PRECONDITION';
  return statusNames[rest] ?? (rest >= 500 ? 'INTERNAL' : 'INVALID_ARGUMENT');
}

/** §11.1 asks for a media type of A2A's own; who does not name it gets the general one, which every client reads. */
function mediaType(version: Version, { headers }: HttpRequest): string {
  const own = 'application/a2a+json';
  const isAsked = [headers.get('accept'), headers.get('content-type')].some((value) => value?.includes(own));
  return version === '1.0' && isAsked ? own : 'application/json';
}
