import { ErrorObject, JsonRpcError, SuccessObject } from 'jsonrpc-lite';
import type { HttpRequest, HttpResponse } from '../../lib/http.ts';
import { type JsonText, readJson } from '../../lib/json.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { methodNotFound, ofRefusal, type RpcError, versionNotSupported } from './errors.ts';
import { isRecord, methods, type OperationName, supportedVersions, type Version } from './protocol.ts';

/**
 * The id of a request: its text as it was written, so that a number comes back with every digit it had. `none`: a notification, which is
 * executed and never answered. `null`, '' and fractions are ids like others (JSON-RPC 2.0 §4 only discourages them).
 */
export type RequestId = { readonly text: string } | 'none';

export interface Call {
  readonly id: RequestId;
  readonly operation: OperationName;
  readonly version: Version;
  readonly params: Record<string, unknown>;
  /** The params' values as they were written. */
  raw(path: ReadonlyArray<string | number>): string | undefined;
}

export interface Fault {
  readonly id: RequestId;
  readonly error: RpcError;
}

/** Room for an envelope at the REDSYN wire's limits inside a message that also shows it as parts. */
export const jsonLimits = { maxDepth: 80, maxMembers: 50_000 };
const nobody: RequestId = { text: 'null' };
const OPEN_ARRAY = 0x5b;

/**
 * One JSON-RPC 2.0 request, or why it is none. Batches are refused whole and unread, however long (A2A-05): A2A has no use for them, and one
 * request is one pass through the gates.
 */
export function readCall(request: HttpRequest): Call | Fault {
  const type = request.headers.get('content-type');
  if (type !== undefined && !/^application\/(?:[a-z0-9.-]+\+)?json(?:rpc)?\s*(?:;|$)/i.test(type)) {
    const refusal = refuse('unsupported_media_type', undefined, { detail: type });
    return { id: nobody, error: { ...ofRefusal(refusal), status: 415 } };
  }
  if (firstByte(request.body) === OPEN_ARRAY) return invalid(nobody, 'Batches are not taken. Send one request.');
  const json = readJson(request.body, jsonLimits);
  if (json instanceof Refusal) return { id: nobody, error: ofRefusal(json) };
  return classify(json, request);
}

function classify(json: JsonText, request: HttpRequest): Call | Fault {
  const { value } = json;
  if (!isRecord(value)) return invalid(nobody, 'A request is a JSON object.');
  const id = readId(json, value);
  if (id === undefined) return invalid(nobody, '`id` must be a string, a number or null.');
  // What is no request at all is answered, with or without an id (JSON-RPC 2.0 §5).
  const answered = id === 'none' ? nobody : id;
  if (value.jsonrpc !== '2.0') return invalid(answered, '`jsonrpc` must be "2.0".');
  if (typeof value.method !== 'string') return invalid(answered, '`method` must be a string.');
  const version = askedVersion(request);
  const method = methods.get(value.method);
  const told = answeredId(id, version === undefined ? method?.version : version);
  const { params = {} } = value;
  if (!isRecord(params)) {
    const refusal = refuse('invalid_field', '`params` must be an object.', { data: { field: 'params' } });
    return { id: told, error: ofRefusal(refusal) };
  }
  if (version === 'unknown') return { id: told, error: versionNotSupported(supportedVersions) };
  if (!method || (version !== undefined && version !== method.version)) {
    const where = version === undefined ? 'here' : `in A2A ${version}`;
    return { id: told, error: methodNotFound(`There is no such method ${where}.`) };
  }
  return { id, ...method, params, raw: (path) => json.raw(['params', ...path]) };
}

/**
 * To which id a call's own faults are told when nothing of it was executed. In 1.0 a call without one is a notification, which hears nothing
 * (JSON-RPC 2.0 §4.1). 0.3's schema demands an id of every request (a2a.json, SendMessageRequest), so there it is none, and its fault has id null
 * (§5), as 0.3's kit wants it. What was executed is never answered.
 */
export function answeredId(id: RequestId, version: Version | 'unknown' | undefined): RequestId {
  return id === 'none' && version !== '1.0' ? nobody : id;
}

function readId(json: JsonText, value: Record<string, unknown>): RequestId | undefined {
  if (!Object.hasOwn(value, 'id')) return 'none';
  const { id } = value;
  return id === null || typeof id === 'string' || typeof id === 'number' ? { text: json.raw(['id'])! } : undefined;
}

/**
 * A2A §3.6.1: the header, else the query parameter; a patch number counts for nothing. Absent it would mean 0.3 (§3.6.2), but the names of
 * the methods, and the paths of HTTP+JSON, tell the versions apart, so a client that forgot the header is understood.
 */
export function askedVersion(request: HttpRequest): Version | 'unknown' | undefined {
  const asked = (request.headers.get('a2a-version') || new URLSearchParams(request.search).get('A2A-Version'))?.trim();
  if (!asked) return undefined;
  const [, version] = /^(\d+\.\d+)(?:\.\d+)?$/.exec(asked) ?? [];
  return supportedVersions.find((each) => each === version) ?? 'unknown';
}

export function answerResult(id: RequestId, result: object | null, headers: Record<string, string>): HttpResponse {
  if (id === 'none') return { status: 204, headers };
  return { status: 200, headers: json(headers), body: resultText(id, result) };
}

/** A whole answer, as an event of a stream is one too (§9.4.2). */
export function resultText(id: { readonly text: string }, result: object | null): string {
  return withId(id.text, new SuccessObject('', result).serialize());
}

export function answerError(id: RequestId, error: RpcError, headers: Record<string, string> = {}): HttpResponse {
  const all = { ...headers, ...error.headers };
  // A notification never gets a body; what HTTP itself has to say it still hears.
  if (id === 'none') return { status: error.status === 200 ? 204 : error.status, headers: all };
  const object = new ErrorObject('', new JsonRpcError(error.message, error.code, error.data));
  return { status: error.status, headers: json(all), body: withId(id.text, object.serialize()) };
}

/** The id goes in as it was written: parsed and printed again, 12345678901234567890 would be another number. */
function withId(id: string, text: string): string {
  return text.replace('"id":""', () => `"id":${id}`);
}

function json(headers: Record<string, string>): Record<string, string> {
  return { 'content-type': 'application/json', 'cache-control': 'no-store', ...headers };
}

function invalid(id: RequestId, words: string): Fault {
  return { id, error: ofRefusal(refuse('malformed_request', words)) };
}

function firstByte(body: Buffer): number | undefined {
  return body.find((byte) => byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09);
}
