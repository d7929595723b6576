import { LRUCache } from 'lru-cache';
import type { z } from 'zod';
import { readAddress } from '../../directory/names.ts';
import type { Address, Directory, NodeIdentity } from '../../directory/types.ts';
import type { Principal } from '../../exchange/sender.ts';
import type { Inbound } from '../../gates/inbound.ts';
import type { Handler, HttpRequest, HttpResponse } from '../../lib/http.ts';
import { containsNul, readJson } from '../../lib/json.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { currentVersion, errorResponse, versions } from './errors.ts';

export interface CallDeps {
  /** The gates' reading of who calls (`createGates`). */
  identify(inbound: Inbound): Promise<Principal | Refusal>;
  directory: Pick<Directory, 'orgById'>;
}

/** A call of somebody with a node token. */
export interface Call<Body = undefined> {
  node: NodeIdentity;
  request: HttpRequest;
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
  body: Body;
}

/** A call of anybody. */
export type OpenCall<Body> = Omit<Call<Body>, 'node'>;

export type Answer = HttpResponse | Refusal;

/**
 * Reads a body. A string, a refusal or a schema of zod: unknown fields are left out, wrong types are `invalid_field` that names the first.
 */
export type BodyReader<Body> = z.ZodType<Body> | ((body: Buffer) => Body | Refusal);

export function json(status: number, value: unknown, more: Omit<HttpResponse, 'status' | 'body'> = {}): HttpResponse {
  const headers = { 'content-type': 'application/json', ...more.headers };
  return { ...more, status, headers, body: JSON.stringify(value) };
}

/** A REDSYN call: its version, its caller, its body (when there is a reader) and, at the end, the answer or the refusal in REDSYN's form. */
export function call(deps: CallDeps, handler: (call: Call) => Promise<Answer>): Handler;
export function call<B>(deps: CallDeps, body: BodyReader<B>, handler: (call: Call<B>) => Promise<Answer>): Handler;
export function call<B>(
  deps: CallDeps,
  second: BodyReader<B> | ((call: Call) => Promise<Answer>),
  third?: (call: Call<B>) => Promise<Answer>,
): Handler {
  const reader = third ? (second as BodyReader<B>) : undefined;
  const handler = third ?? (second as (call: Call<B>) => Promise<Answer>);
  return async (request) => {
    const asked = askedVersion(request);
    if (asked instanceof Refusal) return errorResponse(asked);
    const principal = await deps.identify({
      wire: 'redsyn',
      operation: 'read',
      request,
      answers: 'poll',
      idempotent: false,
    });
    if (principal instanceof Refusal) return errorResponse(principal, asked);
    if (principal.kind === 'agent') {
      return errorResponse(refuse('forbidden', 'An agent key may not do that: it takes the token of a node.'), asked);
    }
    if (principal.kind !== 'node') {
      return errorResponse(refuse('unauthenticated', 'This call takes the bearer token of a node.'), asked);
    }
    const { node } = principal;
    const version = asked ?? (await pinnedVersion(deps, node, request.params.org));
    const body = reader ? read(reader, request) : undefined;
    if (body instanceof Refusal) return errorResponse(body, version);
    const query = new URLSearchParams(request.search);
    return finish(await handler({ node, request, params: request.params, query, body: body as B }), version);
  };
}

/** The same for a call whose caller is found out by its handler, or is nobody yet. */
export function openCall<B>(body: BodyReader<B>, handler: (call: OpenCall<B>) => Promise<Answer>): Handler {
  return async (request) => {
    const asked = askedVersion(request);
    if (asked instanceof Refusal) return errorResponse(asked);
    const value = read(body, request);
    if (value instanceof Refusal) return errorResponse(value, asked);
    const query = new URLSearchParams(request.search);
    const answer = await handler({ request, params: request.params, query, body: value });
    // A handler that found out who calls knows the version of her org.
    return finish(answer, asked ?? (answer instanceof Refusal ? undefined : answer.headers?.['redsyn-version']));
  };
}

export function callerOf(deps: Pick<CallDeps, 'identify'>, request: HttpRequest): Promise<Principal | Refusal> {
  return deps.identify({ wire: 'redsyn', operation: 'read', request, answers: 'poll', idempotent: false });
}

/** The address that a path's `{org}/{team}/{user}/{agent}` spells. */
export function addressOf(params: Readonly<Record<string, string>>): Address | Refusal {
  const { org = '', team = '', user = '', agent = '' } = params;
  const address = [org, team, user, agent].some((name) => /[/#]/.test(name))
    ? refuse('not_found')
    : readAddress(`${org}/${team}/${user}/${agent}`, { field: 'address' });
  // What is no address names no agent.
  return address instanceof Refusal
    ? refuse('not_found', 'That is no address of an agent: org/team/user/agent.')
    : address;
}

/** `?online=1` */
export function flag(query: URLSearchParams, name: string): boolean {
  const value = query.get(name);
  return value !== null && value !== '0' && value !== 'false';
}

function finish(answer: Answer, version: string = currentVersion): HttpResponse {
  if (answer instanceof Refusal) return errorResponse(answer, version);
  return { ...answer, headers: { ...answer.headers, 'redsyn-version': version } };
}

function askedVersion(request: HttpRequest): string | undefined | Refusal {
  const asked = request.headers.get('redsyn-version');
  if (asked === undefined || versions.includes(asked)) return asked;
  return refuse('unknown_version', `That Redsyn-Version is not known here. Known: ${versions.join(', ')}.`, {
    data: { known: versions },
  });
}

/** What an org was pinned to at its creation (REDSYN "Versiones"); it never changes. */
export async function versionOf(deps: Pick<CallDeps, 'directory'>, orgId: string): Promise<string> {
  const known = pinned.get(orgId);
  if (known !== undefined) return known;
  const version = (await deps.directory.orgById(orgId))?.apiVersion ?? currentVersion;
  pinned.set(orgId, version);
  return version;
}

const pinned = new LRUCache<string, string>({ maxSize: 10_000, sizeCalculation: () => 1 });

/** Of the org that the path names, when the caller is in it; else of her first one. */
async function pinnedVersion(deps: CallDeps, node: NodeIdentity, named: string | undefined): Promise<string> {
  const member = node.members.find((m) => m.org === named) ?? node.members[0];
  return member ? versionOf(deps, member.orgId) : currentVersion;
}

function read<B>(reader: BodyReader<B>, request: HttpRequest): B | Refusal {
  const type = request.headers.get('content-type');
  if (type !== undefined && request.body.length > 0 && !/^application\/(?:[a-z0-9.+-]+\+)?json\s*(?:;|$)/i.test(type)) {
    return refuse('unsupported_media_type');
  }
  return typeof reader === 'function' ? reader(request.body) : readWith(reader, request.body);
}

/** An empty body is an empty object. */
function readWith<B>(schema: z.ZodType<B>, bytes: Buffer): B | Refusal {
  const parsed = readJson(bytes.length === 0 ? '{}' : bytes);
  if (parsed instanceof Refusal) return parsed;
  if (containsNul(parsed.value)) return refuse('invalid_field', 'The body holds U+0000, which no text here may.');
  const result = schema.safeParse(parsed.value);
  if (result.success) return result.data;
  const issue = result.error.issues[0]!;
  const field = issue.path.join('.');
  const isMissing = issue.code === 'invalid_type' && valueAt(parsed.value, issue.path) === undefined;
  const why = isMissing ? 'is missing' : wordsOf(issue);
  return refuse('invalid_field', field === '' ? `The body ${why}.` : `\`${field}\` ${why}.`, { data: { field } });
}

function wordsOf(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `must be of type ${issue.expected}`;
    case 'too_big':
      return `has more than ${issue.maximum} ${issue.origin === 'array' ? 'entries' : 'characters'}`;
    case 'too_small':
      return issue.minimum === 1 ? 'is empty' : `has less than ${issue.minimum} characters`;
    case 'invalid_value':
      return `must be one of ${issue.values.join(', ')}`;
    default:
      return 'is not valid';
  }
}

function valueAt(value: unknown, path: ReadonlyArray<PropertyKey>): unknown {
  return path.reduce<unknown>((at, key) => (at as Record<PropertyKey, unknown> | undefined)?.[key], value);
}
