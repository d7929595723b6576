import type { HttpRequest, HttpResponse, RenderRefusal, Route } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { type CancelDeps, cancel } from './cancel.ts';
import { extensionRequired, ofRefusal, pushNotSupported, type RpcError, unsupportedOperation } from './errors.ts';
import { carriesProof, get } from './get.ts';
import { REDSYN_EXTENSION, SIGNATURE_EXTENSION, type Version } from './protocol.ts';
import { answerError, answerResult, type Call, readCall } from './rpc.ts';
import { type Asked, isRpcError, type A2aDeps as SendDeps, send } from './send.ts';

export type A2aDeps = SendDeps & CancelDeps;

/** An envelope may stand in a request twice: whole in the metadata, and shown as parts. */
const maxBody = 1024 * 1024;
/** With a zip of 5 MB in it, as base64. */
const maxLargeBody = 8 * 1024 * 1024;

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

/** A2A over JSON-RPC, 1.0 and 0.3 on the same addresses. */
export function a2aRoutes(deps: A2aDeps): Route[] {
  return paths.map(([path, tenant, about]) => ({
    method: 'POST',
    path,
    handler: (request) => handle(deps, request, tenant(request.params)),
    hot: true,
    maxBody,
    large: { maxBody: maxLargeBody, allow: (request) => mayBeLarge(deps, request) },
    about,
  }));
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

/** What was refused before a request was read has no id. */
export const renderRefusal: RenderRefusal = (refusal) => answerError({ text: 'null' }, ofRefusal(refusal));

async function handle(deps: A2aDeps, request: HttpRequest, pathTenant: string | undefined): Promise<HttpResponse> {
  const call = readCall(request);
  if ('error' in call) return answerError(call.id, call.error);
  const asked = { call, request, pathTenant };
  const result = await run(deps, asked);
  const headers = activated(call.version, request);
  if (result instanceof Refusal) return answerError(call.id, errorOf(result, asked), headers);
  return isRpcError(result) ? answerError(call.id, result, headers) : answerResult(call.id, result, headers);
}

async function run(deps: A2aDeps, asked: Asked): Promise<object | Refusal | RpcError> {
  switch (asked.call.operation) {
    case 'send':
      return send(deps, asked);
    case 'get':
      return get(deps, asked);
    case 'push':
      return pushNotSupported();
    case 'stream':
    case 'subscribe':
      return unsupportedOperation('Streaming is not offered here: the card says so.');
    case 'extendedCard':
      return unsupportedOperation('There is no extended card here: the card says so.');
    case 'cancel':
      return cancel(deps, asked);
    case 'list':
      return unsupportedOperation('That operation is not offered here.');
  }
}

/** A stranger that proves nothing and never said that it can sign hears what it lacks; 0.3 has no such error, so there the 401 says it. */
function errorOf(refusal: Refusal, { call, request }: Asked): RpcError {
  const asksForProof = refusal.code === 'unauthenticated' || refusal.code === 'signature_missing';
  if (
    asksForProof &&
    !carriesProof(request) &&
    call.version === '1.0' &&
    !requested(call, request).includes(SIGNATURE_EXTENSION)
  ) {
    return extensionRequired(SIGNATURE_EXTENSION, refusal);
  }
  return ofRefusal(refusal);
}

const spoken: readonly string[] = [SIGNATURE_EXTENSION, REDSYN_EXTENSION];

/** §4.6: of the extensions that the client asked for, those that we speak. */
function activated(version: Version, request: HttpRequest): Record<string, string> {
  const name = version === '1.0' ? 'a2a-extensions' : 'x-a2a-extensions';
  const uris = listed(request, name).filter((uri) => spoken.includes(uri));
  return uris.length > 0 ? { [name]: [...new Set(uris)].join(', ') } : {};
}

function requested({ version }: Call, request: HttpRequest): string[] {
  return listed(request, version === '1.0' ? 'a2a-extensions' : 'x-a2a-extensions');
}

function listed({ headers }: HttpRequest, name: string): string[] {
  return (headers.get(name) ?? '').split(',').map((uri) => uri.trim());
}
