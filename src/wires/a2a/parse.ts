import type { ExchangeState } from '../../exchange/types.ts';
import type { HandedOn } from '../../gates/index.ts';
import { containsNul } from '../../lib/json.ts';
import { type Refusal, refuse } from '../../lib/refusal.ts';
import { HANDED_ON, isRecord, type Message, type Part } from './protocol.ts';

/** SendMessageRequest, checked: required fields are there, types and sizes are right (§3.3.2: validate all input first). */
export interface SendParams {
  tenant: string | undefined;
  message: Message;
  historyLength: number | undefined;
  returnImmediately: boolean;
  push: PushParams | undefined;
}

export interface TaskParams {
  tenant: string | undefined;
  id: string;
}

export interface GetParams extends TaskParams {
  historyLength: number | undefined;
}

export interface ListParams {
  tenant: string | undefined;
  contextId: string | undefined;
  state: ExchangeState | undefined;
  /** Milliseconds. */
  since: number | undefined;
  pageSize: number;
  pageToken: string;
  historyLength: number | undefined;
  includeArtifacts: boolean;
}

/** Its values are checked by `PushConfigs`; here only their types. */
export interface PushParams {
  id: string | undefined;
  url: string;
  token: string | undefined;
  authentication: { scheme: string; credentials: string } | undefined;
}

export interface PushIdParams {
  tenant: string | undefined;
  taskId: string;
  id: string;
}

const maxParts = 64;
const maxId = 256;
const maxExtensions = 32;

/** Stays in this file: the first field that is wrong ends the reading. */
class Wrong extends Error {
  readonly field: string;
  constructor(field: string, what: string) {
    super(`\`${field}\` ${what}.`);
    this.field = field;
  }
}

/** In 1.0's form (v03.ts brings 0.3 there). Refused as `invalid_field` that names the field. */
export function readSendParams(params: Record<string, unknown>): SendParams | Refusal {
  return reading(() => {
    const message = readMessage(params.message);
    const configuration = record(params, 'configuration') ?? {};
    const push = record(configuration, 'taskPushNotificationConfig', 'configuration.');
    return {
      tenant: text(params, 'tenant', 512, ''),
      message,
      historyLength: count(configuration, 'historyLength', 'configuration.'),
      returnImmediately: flag(configuration, 'returnImmediately', 'configuration.') ?? false,
      push: push && readPush(push, 'configuration.taskPushNotificationConfig.'),
    };
  });
}

export function readGetParams(params: Record<string, unknown>): GetParams | Refusal {
  return reading(() => ({ ...taskParams(params), historyLength: count(params, 'historyLength', '') }));
}

/** CancelTask, SubscribeToTask. */
export function readTaskParams(params: Record<string, unknown>): TaskParams | Refusal {
  return reading(() => taskParams(params));
}

const mostPerPage = 100;

export function readListParams(params: Record<string, unknown>): ListParams | Refusal {
  return reading(() => {
    const pageSize = count(params, 'pageSize', '') ?? 50;
    if (pageSize < 1 || pageSize > mostPerPage) throw new Wrong('pageSize', `must be from 1 to ${mostPerPage}`);
    return {
      tenant: text(params, 'tenant', 512, ''),
      contextId: text(params, 'contextId', maxId, ''),
      state: readState(field(params, 'status')),
      since: readTime(params, 'statusTimestampAfter'),
      pageSize,
      pageToken: text(params, 'pageToken', 512, '') ?? '',
      historyLength: count(params, 'historyLength', ''),
      includeArtifacts: flag(params, 'includeArtifacts', '') ?? false,
    };
  });
}

/** CreateTaskPushNotificationConfig. */
export function readPushSetParams(
  params: Record<string, unknown>,
): (PushParams & { tenant: string | undefined; taskId: string }) | Refusal {
  return reading(() => ({
    tenant: text(params, 'tenant', 512, ''),
    taskId: needed(params, 'taskId'),
    ...readPush(params, ''),
  }));
}

/** GetTaskPushNotificationConfig, DeleteTaskPushNotificationConfig. */
export function readPushIdParams(params: Record<string, unknown>): PushIdParams | Refusal {
  return reading(() => ({
    tenant: text(params, 'tenant', 512, ''),
    taskId: needed(params, 'taskId'),
    id: needed(params, 'id'),
  }));
}

export function readPushListParams(params: Record<string, unknown>): Omit<PushIdParams, 'id'> | Refusal {
  return reading(() => ({ tenant: text(params, 'tenant', 512, ''), taskId: needed(params, 'taskId') }));
}

export function readTenant(params: Record<string, unknown>): string | undefined | Refusal {
  return reading(() => text(params, 'tenant', 512, ''));
}

function taskParams(params: Record<string, unknown>): TaskParams {
  return { tenant: text(params, 'tenant', 512, ''), id: needed(params, 'id') };
}

function needed(params: Record<string, unknown>, name: string): string {
  const value = text(params, name, maxId, '');
  if (value === undefined) throw new Wrong(name, 'is missing');
  return value;
}

function readPush(config: Record<string, unknown>, at: string): PushParams {
  const url = text(config, 'url', 4_096, at);
  if (url === undefined) throw new Wrong(`${at}url`, 'is missing');
  const authentication = record(config, 'authentication', at);
  const scheme = authentication && text(authentication, 'scheme', 256, `${at}authentication.`);
  if (authentication && scheme === undefined) throw new Wrong(`${at}authentication.scheme`, 'is missing');
  return {
    id: text(config, 'id', maxId, at),
    url,
    token: text(config, 'token', 65_536, at),
    authentication: authentication && {
      scheme: scheme!,
      credentials: text(authentication, 'credentials', 65_536, `${at}authentication.`) ?? '',
    },
  };
}

/** By name or, as ProtoJSON also has it, by number. */
const stateNumbers: readonly (ExchangeState | undefined)[] = [
  undefined,
  'submitted',
  'working',
  'completed',
  'failed',
  'canceled',
  'input_required',
  'rejected',
  'auth_required',
];

function readState(value: unknown): ExchangeState | undefined {
  if (value == null || value === '' || value === 'TASK_STATE_UNSPECIFIED') return undefined;
  const at =
    typeof value === 'string'
      ? stateNumbers.findIndex((state) => state !== undefined && value === `TASK_STATE_${state.toUpperCase()}`)
      : typeof value === 'number'
        ? value
        : -1;
  if (at === -1 || !(at in stateNumbers)) throw new Wrong('status', 'must be a state of a task');
  return stateNumbers[at];
}

/** RFC 3339. */
function readTime(params: Record<string, unknown>, name: string): number | undefined {
  const value = text(params, name, 64, '');
  if (value === undefined) return undefined;
  const at = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/i.test(value)
    ? Date.parse(value)
    : Number.NaN;
  if (Number.isNaN(at)) throw new Wrong(name, 'must be a timestamp such as 2026-11-30T12:00:00.000Z');
  return at;
}

const mostTurns = 1_000_000;

/** What the gateway that carries a request says of the chain that it stands in. What is no count says nothing. */
export function readTurns(value: unknown): number {
  return Number.isSafeInteger(value) && (value as number) > 0 ? Math.min(value as number, mostTurns) : 0;
}

const maxAudience = 1_000;

/** What the gateway of a topic says about an event that it hands on. */
export function readHandedOn(value: unknown): HandedOn | undefined | Refusal {
  if (value == null) return undefined;
  return reading(() => {
    if (!isRecord(value)) throw new Wrong(HANDED_ON, 'must be an object');
    const { audience } = value;
    const topic = text(value, 'topic', 600, `${HANDED_ON}.`);
    const from = text(value, 'from', 600, `${HANDED_ON}.`);
    if (!topic || !from || !Array.isArray(audience) || audience.length > maxAudience) {
      throw new Wrong(HANDED_ON, 'must have a topic, a from and an audience');
    }
    return {
      topic,
      from,
      audience: audience.map((each: unknown) => {
        const { org, rev } = isRecord(each) ? each : {};
        if (typeof org !== 'string' || !Number.isSafeInteger(rev) || (rev as number) < 0)
          throw new Wrong(HANDED_ON, 'must name orgs and revisions in its audience');
        return { org, rev: rev as number };
      }),
    };
  });
}

function readMessage(value: unknown): Message {
  if (value == null) throw new Wrong('message', 'is missing');
  if (!isRecord(value)) throw new Wrong('message', 'must be an object');
  if (containsNul(value)) throw new Wrong('message', 'must not hold the character U+0000');
  const at = 'message.';
  const messageId = text(value, 'messageId', maxId, at);
  if (messageId === undefined) throw new Wrong('message.messageId', 'is missing');
  const role = value.role;
  if (role === undefined) throw new Wrong('message.role', 'is missing');
  // ProtoJSON also writes enums as numbers.
  if (role !== 'ROLE_USER' && role !== 1) throw new Wrong('message.role', 'must be that of the user');
  const { parts } = value;
  if (!Array.isArray(parts) || parts.length === 0)
    throw new Wrong('message.parts', 'must be a list of at least one part');
  if (parts.length > maxParts) throw new Wrong('message.parts', `must hold at most ${maxParts} parts`);
  const contextId = text(value, 'contextId', maxId, at);
  const taskId = text(value, 'taskId', maxId, at);
  const metadata = record(value, 'metadata', at);
  const extensions = texts(value, 'extensions', at);
  const referenceTaskIds = texts(value, 'referenceTaskIds', at);
  return {
    messageId,
    role: 'ROLE_USER',
    parts: parts.map(readPart),
    ...(contextId !== undefined && { contextId }),
    ...(taskId !== undefined && { taskId }),
    ...(metadata && { metadata }),
    ...(extensions && { extensions }),
    ...(referenceTaskIds && { referenceTaskIds }),
  };
}

const contents = ['text', 'raw', 'url', 'data'] as const;

function readPart(value: unknown, index: number): Part {
  const name = `message.parts[${index}]`;
  const at = `${name}.`;
  if (!isRecord(value)) throw new Wrong(name, 'must be an object');
  // `data: null` is JSON's null as data; elsewhere null is absence (ProtoJSON).
  const given = contents.filter((key) => (key === 'data' ? value.data !== undefined : value[key] != null));
  if (given.length !== 1) throw new Wrong(name, 'must have exactly one of text, raw, url and data');
  const [key] = given;
  if (key !== 'data' && typeof value[key!] !== 'string') throw new Wrong(`${at}${key}`, 'must be a string');
  const filename = text(value, 'filename', 512, at);
  const mediaType = text(value, 'mediaType', 256, at);
  const metadata = record(value, 'metadata', at);
  return {
    [key!]: value[key!],
    ...(filename !== undefined && { filename }),
    ...(mediaType !== undefined && { mediaType }),
    ...(metadata && { metadata }),
  };
}

function reading<T>(read: () => T): T | Refusal {
  try {
    return read();
  } catch (fault) {
    if (fault instanceof Wrong) return refuse('invalid_field', fault.message, { data: { field: fault.field } });
    throw fault;
  }
}

/** ProtoJSON readers take both spellings of a field (a2a-conformance §6). */
function field(object: Record<string, unknown>, name: string): unknown {
  return object[name] ?? object[name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)];
}

/** Absent, null and '' are the same in ProtoJSON. */
function text(object: Record<string, unknown>, name: string, most: number, at: string): string | undefined {
  const value = field(object, name);
  if (value == null || value === '') return undefined;
  if (typeof value !== 'string') throw new Wrong(at + name, 'must be a string');
  if (value.length > most) throw new Wrong(at + name, `must have at most ${most} characters`);
  return value;
}

function texts(object: Record<string, unknown>, name: string, at: string): string[] | undefined {
  const value = field(object, name);
  if (value == null) return undefined;
  if (!Array.isArray(value) || value.length > maxExtensions || !value.every((item) => typeof item === 'string')) {
    throw new Wrong(at + name, `must be a list of at most ${maxExtensions} strings`);
  }
  return value;
}

function record(object: Record<string, unknown>, name: string, at = ''): Record<string, unknown> | undefined {
  const value = field(object, name);
  if (value == null) return undefined;
  if (!isRecord(value)) throw new Wrong(at + name, 'must be an object');
  return value;
}

function flag(object: Record<string, unknown>, name: string, at: string): boolean | undefined {
  const value = field(object, name);
  if (value == null) return undefined;
  if (typeof value !== 'boolean') throw new Wrong(at + name, 'must be true or false');
  return value;
}

function count(object: Record<string, unknown>, name: string, at: string): number | undefined {
  const value = field(object, name);
  if (value == null) return undefined;
  if (!Number.isInteger(value) || (value as number) < 0) throw new Wrong(at + name, 'must be a whole number from 0');
  return value as number;
}
