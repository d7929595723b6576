import { type Refusal, refuse } from '../lib/refusal.ts';
import type { Body, Envelope, MessageKind } from './message.ts';
import { type ExchangeState, finalStates } from './types.ts';

/** With a body of this type a local agent says whatever A2A can say (design §1). Its `data` holds `message`, `status` and `artifacts`, one at least. */
export const a2aBodyType = 'application/a2a+json';

/** ProtoJSON of A2A 1.0. */
export interface A2aPart {
  text?: string;
  /** Base64. */
  raw?: string;
  url?: string;
  data?: unknown;
  filename?: string;
  mediaType?: string;
  metadata?: Record<string, unknown>;
}

export interface A2aMessage {
  messageId?: string;
  parts: A2aPart[];
  metadata?: Record<string, unknown>;
  extensions?: string[];
}

export interface A2aArtifact {
  artifactId: string;
  name?: string;
  description?: string;
  parts: A2aPart[];
  metadata?: Record<string, unknown>;
  extensions?: string[];
  /** The parts go behind those that the artifact has. */
  append?: boolean;
  lastChunk?: boolean;
}

export interface A2aBody {
  message?: A2aMessage;
  status?: { state: ExchangeState; message?: A2aMessage };
  artifacts?: A2aArtifact[];
}

const mostParts = 64;
const mostArtifacts = 64;
const contents = ['text', 'raw', 'url', 'data'] as const;
const interrupted: ReadonlySet<ExchangeState> = new Set(['submitted', 'working', 'input_required', 'auth_required']);

/** Stays in this file: the first field that is wrong ends the reading. */
class Wrong extends Error {
  readonly field: string;
  constructor(field: string, what: string) {
    super(`\`${field}\` ${what}.`);
    this.field = field;
  }
}

/** Undefined for bodies of other types; `invalid_field` that names what is wrong. */
export function readA2aBody({
  kind,
  body,
  error,
}: Pick<Envelope, 'kind' | 'body' | 'error'>): A2aBody | Refusal | undefined {
  if (body.type !== a2aBodyType || kind === 'event') return undefined;
  try {
    return read(body, kind, error === true);
  } catch (fault) {
    if (fault instanceof Wrong) return refuse('invalid_field', fault.message, { data: { field: fault.field } });
    throw fault;
  }
}

function read(body: Body, kind: MessageKind, isError: boolean): A2aBody {
  const at = 'body.data';
  const { data } = body;
  if (!isRecord(data)) throw new Wrong(at, 'must be an object');
  const message = data.message == null ? undefined : readMessage(data.message, `${at}.message`);
  const status = data.status == null ? undefined : readStatus(data.status, `${at}.status`);
  const artifacts = data.artifacts == null ? undefined : readArtifacts(data.artifacts, `${at}.artifacts`);
  if (!message && !status && !artifacts) throw new Wrong(at, 'must have a message, a status or artifacts');
  if (kind === 'request' && (status || artifacts)) throw new Wrong(at, 'of a request holds a message and nothing else');
  if (status) checkState(status.state, kind, isError, `${at}.status.state`);
  return { ...(message && { message }), ...(status && { status }), ...(artifacts && { artifacts }) };
}

function checkState(state: ExchangeState, kind: MessageKind, isError: boolean, at: string): void {
  if (kind === 'progress' && !interrupted.has(state)) throw new Wrong(at, 'ends the task: say that in a reply');
  if (kind === 'reply' && !finalStates.has(state)) throw new Wrong(at, 'does not end the task: say that in a progress');
  if (kind === 'reply' && isError && state === 'completed') throw new Wrong(at, 'contradicts `error`');
}

function readStatus(value: unknown, at: string): NonNullable<A2aBody['status']> {
  if (!isRecord(value)) throw new Wrong(at, 'must be an object');
  const state = stateNamed(value.state);
  if (!state) throw new Wrong(`${at}.state`, 'must be a state of A2A, such as TASK_STATE_WORKING');
  const message = value.message == null ? undefined : readMessage(value.message, `${at}.message`);
  return { state, ...(message && { message }) };
}

/** In 1.0's spelling, or 0.3's. */
function stateNamed(value: unknown): ExchangeState | undefined {
  if (typeof value !== 'string') return undefined;
  const name = value
    .replace(/^TASK_STATE_/, '')
    .toLowerCase()
    .replaceAll('-', '_');
  return [...interrupted, ...finalStates].find((state) => state === name);
}

function readMessage(value: unknown, at: string): A2aMessage {
  if (!isRecord(value)) throw new Wrong(at, 'must be an object');
  const { messageId, metadata, extensions } = value;
  return {
    ...(messageId != null && { messageId: shortText(messageId, `${at}.messageId`) }),
    parts: readParts(value.parts, `${at}.parts`),
    ...(metadata != null && { metadata: object(metadata, `${at}.metadata`) }),
    ...(extensions != null && { extensions: uris(extensions, `${at}.extensions`) }),
  };
}

function readArtifacts(value: unknown, at: string): A2aArtifact[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > mostArtifacts) {
    throw new Wrong(at, `must be a list of 1 to ${mostArtifacts} artifacts`);
  }
  return value.map((each, i) => readArtifact(each, `${at}[${i}]`));
}

function readArtifact(value: unknown, at: string): A2aArtifact {
  if (!isRecord(value)) throw new Wrong(at, 'must be an object');
  const { name, description, metadata, extensions, append, lastChunk } = value;
  return {
    artifactId: shortText(value.artifactId, `${at}.artifactId`),
    ...(name != null && { name: shortText(name, `${at}.name`) }),
    ...(description != null && { description: shortText(description, `${at}.description`, 4_000) }),
    parts: readParts(value.parts, `${at}.parts`),
    ...(metadata != null && { metadata: object(metadata, `${at}.metadata`) }),
    ...(extensions != null && { extensions: uris(extensions, `${at}.extensions`) }),
    ...(append != null && { append: flag(append, `${at}.append`) }),
    ...(lastChunk != null && { lastChunk: flag(lastChunk, `${at}.lastChunk`) }),
  };
}

function readParts(value: unknown, at: string): A2aPart[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > mostParts) {
    throw new Wrong(at, `must be a list of 1 to ${mostParts} parts`);
  }
  return value.map((part, i) => readPart(part, `${at}[${i}]`));
}

function readPart(value: unknown, at: string): A2aPart {
  if (!isRecord(value)) throw new Wrong(at, 'must be an object');
  const given = contents.filter((key) => (key === 'data' ? value.data !== undefined : value[key] != null));
  const [key] = given;
  if (given.length !== 1 || !key) throw new Wrong(at, 'must have exactly one of text, raw, url and data');
  const content = value[key];
  if (key !== 'data' && typeof content !== 'string') throw new Wrong(`${at}.${key}`, 'must be a string');
  if (key === 'raw' && !/^[A-Za-z0-9+/_-]*={0,2}$/.test(content as string))
    throw new Wrong(`${at}.raw`, 'must be base64');
  const { filename, mediaType, metadata } = value;
  return {
    [key]: content,
    ...(filename != null && { filename: shortText(filename, `${at}.filename`) }),
    ...(mediaType != null && { mediaType: shortText(mediaType, `${at}.mediaType`) }),
    ...(metadata != null && { metadata: object(metadata, `${at}.metadata`) }),
  };
}

function shortText(value: unknown, at: string, most = 256): string {
  if (typeof value !== 'string' || value === '' || value.length > most) {
    throw new Wrong(at, `must be a string of 1 to ${most} characters`);
  }
  return value;
}

function object(value: unknown, at: string): Record<string, unknown> {
  if (!isRecord(value)) throw new Wrong(at, 'must be an object');
  return value;
}

function uris(value: unknown, at: string): string[] {
  if (!Array.isArray(value) || value.length > 32 || !value.every((uri) => typeof uri === 'string')) {
    throw new Wrong(at, 'must be a list of at most 32 strings');
  }
  return value;
}

function flag(value: unknown, at: string): boolean {
  if (typeof value !== 'boolean') throw new Wrong(at, 'must be true or false');
  return value;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
