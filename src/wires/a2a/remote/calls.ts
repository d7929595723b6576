import type { Signer } from '../../../directory/keyring.ts';
import { signRequest } from '../../../identity/http-signature/sign.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Fetch, FetchResult } from '../../../lib/fetch-types.ts';
import { readJson } from '../../../lib/json.ts';
import { Refusal } from '../../../lib/refusal.ts';
import type { SendResult } from '../../../outbox/types.ts';
import { faultOf, otherVersion } from '../client-result.ts';
import { isRecord, type Message, type Part } from '../protocol.ts';
import { messageToV03 } from '../v03.ts';
import type { Card, Interface } from './card.ts';
import { type RemoteEvent, readEvent, unwrapData } from './form.ts';

/** How an agent is spoken to: one of its interfaces, and what its card says besides. Kept with the task as JSON. */
export interface Endpoint extends Interface {
  streaming: boolean;
  push: boolean;
  declares: readonly string[];
}

export interface PushConfig {
  id: string;
  url: string;
  token: string;
}

export type Operation =
  | { kind: 'send' | 'stream'; message: Message; push: PushConfig | null }
  | { kind: 'get' | 'cancel'; taskId: string };

export interface CallDeps {
  /** The key of that owner. */
  signer(ownerId: string): Promise<Pick<Signer, 'keyId' | 'pair'>>;
  fetch: Fetch;
  clock: Clock;
}

export interface CallOptions {
  ownerId: string;
  /** Names the send: a server that knows the header takes a repeat for one. */
  key?: string;
  timeoutMs: number;
  signal?: AbortSignal;
  onData?: (chunk: Buffer, answer: Pick<FetchResult, 'status' | 'headers'>) => void;
}

/** Room for files in an answer. */
const maxAnswer = 16 * 1024 * 1024;
const limits = { maxDepth: 100, maxMembers: 200_000 };
/** Messages of a task's past that a poll asks for: what was said between two polls is among them. */
const historyLength = 50;

export function endpointOf(card: Card, one: Interface): Endpoint {
  const { streaming, push, declares } = card;
  return { ...one, streaming, push, declares };
}

/** Calls an operation of an A2A server in the version and binding of the endpoint, signed by the owner. Rejects with `FetchRefused`. */
export async function callRemote(
  { signer, fetch, clock }: CallDeps,
  endpoint: Endpoint,
  operation: Operation,
  { ownerId, key, timeoutMs, signal, onData }: CallOptions,
): Promise<FetchResult> {
  const { method, url, body } = requestOf(endpoint, operation);
  const { keyId, pair } = await signer(ownerId);
  const signed = await signRequest({ method, url, ...(body && { body }) }, { keyId, key: pair, now: clock.now() });
  return fetch(url, {
    method,
    headers: {
      ...(body && { 'content-type': 'application/json' }),
      accept: operation.kind === 'stream' ? 'text/event-stream, application/json' : 'application/json',
      ...versionHeaders(endpoint),
      ...(key !== undefined && { 'idempotency-key': key }),
      ...signed,
    },
    ...(body && { body }),
    maxBytes: maxAnswer,
    timeoutMs,
    ...(signal && { signal }),
    ...(onData && { onData }),
  });
}

function versionHeaders({ version, declares }: Endpoint): Record<string, string> {
  const extensions = declares.join(', ');
  if (version === '1.0') return { 'a2a-version': '1.0', ...(extensions && { 'a2a-extensions': extensions }) };
  return extensions ? { 'x-a2a-extensions': extensions } : {};
}

interface Built {
  method: 'GET' | 'POST';
  url: string;
  body?: Buffer;
}

const methods = {
  '1.0': { send: 'SendMessage', stream: 'SendStreamingMessage', get: 'GetTask', cancel: 'CancelTask' },
  '0.3': { send: 'message/send', stream: 'message/stream', get: 'tasks/get', cancel: 'tasks/cancel' },
} as const;

function requestOf(endpoint: Endpoint, operation: Operation): Built {
  return endpoint.binding === 'JSONRPC' ? rpcRequest(endpoint, operation) : restRequest(endpoint, operation);
}

function rpcRequest({ url, version, tenant }: Endpoint, operation: Operation): Built {
  const id = 'message' in operation ? operation.message.messageId : operation.taskId;
  const params = {
    ...(version === '1.0' && tenant !== null && { tenant }),
    ...('message' in operation
      ? sendParams(version, operation.message, operation.push)
      : { id: operation.taskId, ...(operation.kind === 'get' && { historyLength }) }),
  };
  const body = { jsonrpc: '2.0', id, method: methods[version][operation.kind], params };
  return { method: 'POST', url, body: Buffer.from(JSON.stringify(body)) };
}

function restRequest({ url, version, tenant }: Endpoint, operation: Operation): Built {
  const base = url.replace(/\/+$/, '');
  // Cards of 0.3 name the server's address with and without the version's segment.
  const at =
    version === '1.0'
      ? base + (tenant === null ? '' : `/${encodeURIComponent(tenant)}`)
      : `${base.replace(/\/v1$/, '')}/v1`;
  if ('message' in operation) {
    const { message, push } = operation;
    const params = version === '1.0' ? sendParams('1.0', message, push) : protoParams(message, push);
    return { method: 'POST', url: `${at}/message:${operation.kind}`, body: Buffer.from(JSON.stringify(params)) };
  }
  const task = `${at}/tasks/${encodeURIComponent(operation.taskId)}`;
  return operation.kind === 'get'
    ? { method: 'GET', url: `${task}?historyLength=${historyLength}` }
    : { method: 'POST', url: `${task}:cancel`, body: Buffer.from('{}') };
}

function sendParams(version: '1.0' | '0.3', message: Message, push: PushConfig | null): object {
  if (version === '1.0') {
    return {
      message,
      configuration: { returnImmediately: true, ...(push && { taskPushNotificationConfig: pushV1(push) }) },
    };
  }
  return {
    message: messageToV03(message),
    configuration: { blocking: false, ...(push && { pushNotificationConfig: pushV03(push) }) },
  };
}

/** The JSON of 0.3's proto, which its REST speaks (a2a-conformance §6). */
function protoParams({ parts, role, ...message }: Message, push: PushConfig | null): object {
  return {
    message: { ...message, role, content: parts.map(protoPart) },
    configuration: { blocking: false, ...(push && { pushNotification: pushV03(push) }) },
  };
}

function protoPart({ text, raw, url, data, filename, mediaType, metadata }: Part): object {
  const more = metadata && { metadata };
  if (text !== undefined) return { text, ...more };
  if (data !== undefined) return { data: { data: isRecord(data) ? data : { value: data } }, ...more };
  const file = raw === undefined ? { fileWithUri: url } : { fileWithBytes: raw };
  return { file: { ...file, ...(filename && { name: filename }), ...(mediaType && { mimeType: mediaType }) }, ...more };
}

/** Servers send the token in a header of its own, or as the credentials: both are ours. */
function pushV1({ id, url, token }: PushConfig): object {
  return { id, url, token, authentication: { scheme: 'Bearer', credentials: token } };
}

function pushV03({ id, url, token }: PushConfig): object {
  return { id, url, token, authentication: { schemes: ['Bearer'], credentials: token } };
}

/** What a call came to: what the server says, or what that means for whoever asked. */
export function readRemote(
  endpoint: Pick<Endpoint, 'binding' | 'version'>,
  answer: FetchResult,
  attempts: number,
): RemoteEvent | SendResult | typeof otherVersion {
  const json = readJson(answer.body, limits);
  const value = json instanceof Refusal ? undefined : json.value;
  return readRemoteJson(endpoint, answer, value, attempts);
}

/** The same for the JSON of one event of a stream. */
export function readRemoteJson(
  { binding, version }: Pick<Endpoint, 'binding' | 'version'>,
  answer: FetchResult,
  value: unknown,
  attempts: number,
): RemoteEvent | SendResult | typeof otherVersion {
  const body = isRecord(value) ? value : undefined;
  const isOk = answer.status >= 200 && answer.status < 300;
  if (isOk && body && !isRecord(body.error)) {
    const said = binding === 'JSONRPC' ? body.result : version === '0.3' ? unwrapData(body) : body;
    return readEvent(said) ?? notA2a('what the server answered is no task and no message');
  }
  if (isOk && !body) return notA2a('the server answered something that is not A2A');
  if (answer.status >= 300 && answer.status < 400)
    return notA2a('the server answered with a redirect, and redirects are not followed');
  const isGone = [404, 405, 410, 501].includes(answer.status);
  // Errors of 0.3's REST have no form of their own; its servers send the error object bare.
  const bare = binding === 'HTTP+JSON' && body && !isRecord(body.error) && typeof body.message === 'string';
  const fault = bare ? { error: body } : body;
  if (isGone && !isRecord(fault?.error)) return otherVersion;
  const result = faultOf(answer, fault, attempts);
  if (result === otherVersion || result.outcome !== 'refused') return result;
  // A server that refuses one of us says nothing about what others here send it.
  const { stopDestination: _, ...refused } = result;
  return refused;
}

function notA2a(words: string): SendResult {
  return { outcome: 'refused', code: 'unreachable', words, status: 502 };
}
