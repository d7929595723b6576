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
  wantsPush: boolean;
}

export interface GetParams {
  tenant: string | undefined;
  id: string;
  historyLength: number | undefined;
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
    const push = field(configuration, 'taskPushNotificationConfig');
    return {
      tenant: text(params, 'tenant', 512, ''),
      message,
      historyLength: count(configuration, 'historyLength', 'configuration.'),
      returnImmediately: flag(configuration, 'returnImmediately', 'configuration.') ?? false,
      wantsPush: push != null,
    };
  });
}

export function readGetParams(params: Record<string, unknown>): GetParams | Refusal {
  return reading(() => {
    const id = text(params, 'id', maxId, '');
    if (id === undefined) throw new Wrong('id', 'is missing');
    return { tenant: text(params, 'tenant', 512, ''), id, historyLength: count(params, 'historyLength', '') };
  });
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
