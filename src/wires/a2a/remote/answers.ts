import type { Body } from '../../../exchange/message.ts';
import type { RemoteAnswer } from '../../../exchange/remote/index.ts';
import { type ExchangeState, finalStates } from '../../../exchange/types.ts';
import { sha256Hex } from '../../../lib/ids.ts';
import { storedZip, type ZipEntry } from '../../../lib/zip-write.ts';
import type { Artifact, Message, Part } from '../protocol.ts';
import type { TaskNow } from './form.ts';

/** REDSYN "El sobre": what a body holds, and a zip beside it. */
const maxBody = 64 * 1024;
const maxZip = 5 * 1024 * 1024;
const excerpt = 2_000;

/**
 * A remote task as envelopes to whoever asked (design §1): what its agent said on the way as progress, a question as a progress that asks, and its
 * end as the reply. The same task always gives the same keys, so that what was told is told once.
 */
export function answersOf(task: TaskNow): RemoteAnswer[] {
  const isOver = finalStates.has(task.state);
  const asks = task.state === 'input_required' || task.state === 'auth_required';
  const said = task.history.filter(({ role, parts }) => role === 'ROLE_AGENT' && parts.length > 0);
  const last = isOver && task.artifacts.length === 0 && !task.message ? said.at(-1) : undefined;
  const progress = said
    .filter((message) => message !== last && !isSame(message, task.message))
    .map((message) => progressOf(message));
  if (isOver) return [...progress, replyOf(task, task.message ?? last ?? null)];
  if (asks) return [...progress, question(task)];
  const { message } = task;
  return message && message.parts.length > 0 ? [...progress, progressOf(message)] : progress;
}

/** A server that answers with a message and opens no task. */
export function answerOf(message: Message): RemoteAnswer {
  return {
    ...filled(bodyOf(message.parts, { message })),
    key: 'reply',
    kind: 'reply',
    state: 'completed',
    reason: null,
    a2aText: textOf(message),
  };
}

function isSame(a: Message, b: Message | null): boolean {
  return b !== null && keyOf(a) === keyOf(b);
}

function keyOf(message: Message): string {
  return message.messageId || sha256Hex(JSON.stringify(message.parts)).slice(0, 32);
}

function progressOf(message: Message): RemoteAnswer {
  return {
    ...filled(bodyOf(message.parts, { message })),
    key: `said ${keyOf(message)}`.slice(0, 200),
    kind: 'progress',
    state: 'working',
    reason: null,
    a2aText: textOf(message),
  };
}

/** REDSYN: a progress whose data has a `question` asks. What is asked for stands in it, in words or as data. */
function question({ state, message, timestamp }: TaskNow): RemoteAnswer {
  const parts = message?.parts ?? [];
  const words = plainText(parts);
  const data = parts.find((part) => part.data !== undefined)?.data;
  const fallback =
    state === 'auth_required' ? 'The agent needs an authorisation to go on.' : 'The agent needs more to go on.';
  const asked = {
    question: words || data || fallback,
    ...(words !== '' && data !== undefined && { data }),
    ...(state === 'auth_required' && { auth_required: true }),
  };
  const fits = Buffer.byteLength(JSON.stringify(asked)) <= maxBody;
  return {
    key: `asks ${message ? keyOf(message) : timestamp}`.slice(0, 200),
    kind: 'progress',
    state,
    reason: null,
    body: { type: 'application/json', data: fits ? asked : { question: cut(words || fallback) } },
    a2aText: message ? textOf(message) : null,
    zip: null,
  };
}

const endings: Readonly<Partial<Record<ExchangeState, { words: string; reason: string }>>> = {
  failed: { words: 'The agent failed.', reason: 'agent_error' },
  rejected: { words: 'The agent rejected the request.', reason: 'rejected' },
  canceled: { words: 'The agent canceled the task.', reason: 'canceled' },
};

function replyOf(task: TaskNow, message: Message | null): RemoteAnswer {
  const { state, artifacts } = task;
  const ending = endings[state];
  const common = {
    key: 'reply',
    kind: 'reply' as const,
    state,
    reason: ending?.reason ?? null,
    a2aText: message && textOf(message),
  };
  if (ending) {
    const parts = message?.parts ?? [];
    const body =
      parts.length === 0
        ? { body: { type: 'text/plain', text: ending.words }, zip: null }
        : filled(bodyOf(parts, { message: message! }));
    return { ...common, ...body };
  }
  const [only] = artifacts;
  if (!only) return { ...common, ...filled(bodyOf(message?.parts ?? [], message ? { message } : {})) };
  const parts = artifacts.flatMap((artifact) => artifact.parts);
  return {
    ...common,
    ...filled(bodyOf(artifacts.length === 1 ? only.parts : parts, { artifacts }, artifacts.length === 1)),
  };
}

interface Filled {
  body: Body;
  zip: Buffer | null;
}

interface Whole {
  message?: Message;
  artifacts?: Artifact[];
}

/** Text alone is text, one part of data is that data; all else keeps A2A's own form (design §1), with its text beside it. */
function bodyOf(
  parts: readonly Part[],
  whole: Whole,
  isOne = true,
): { body: Body; whole: Whole; parts: readonly Part[] } {
  const [only] = parts;
  const plain = isOne && parts.length === 1;
  if (parts.length === 0) return { body: { type: 'text/plain', text: '' }, whole, parts };
  if (plain && only!.text !== undefined) return { body: { type: 'text/plain', text: only!.text }, whole, parts };
  if (plain && only!.data !== undefined) return { body: { type: 'application/json', data: only!.data }, whole, parts };
  const text = plainText(parts);
  return { body: { type: 'application/a2a+json', ...(text && { text }), data: whole }, whole, parts };
}

/** What does not fit into a body goes into a zip beside it, as files. */
function filled({ body, whole, parts }: { body: Body; whole: Whole; parts: readonly Part[] }): Filled {
  if (sizeOf(body) <= maxBody) return { body, zip: null };
  const files = new Files();
  const shown = moveFiles(whole, files);
  const slim: Body = { ...body, ...(body.type === 'application/a2a+json' && { data: shown }) };
  if (sizeOf(slim) <= maxBody) return { body: slim, zip: files.zip() };
  const text = plainText(parts);
  if (text !== '') files.add('answer.txt', Buffer.from(text));
  for (const part of parts)
    if (part.data !== undefined) files.add('answer.json', Buffer.from(JSON.stringify(part.data)));
  const zip = files.zip();
  const where = zip ? 'The whole of it is among the files.' : 'The rest is too large to be delivered.';
  return { body: { type: 'text/plain', text: `${cut(text)}\n[${where}]`.trimStart() }, zip };
}

function sizeOf({ text = '', data }: Body): number {
  return Buffer.byteLength(text) + (data === undefined ? 0 : Buffer.byteLength(JSON.stringify(data)));
}

/** The same with every file in it moved out; where it was stands the name that it has in the zip. */
function moveFiles(whole: Whole, files: Files): Whole {
  const moved = (part: Part): Part => {
    if (part.raw === undefined) return part;
    const { raw, ...rest } = part;
    return { ...rest, url: `zip:${files.add(part.filename ?? nameFor(part.mediaType), Buffer.from(raw, 'base64'))}` };
  };
  const { message, artifacts } = whole;
  return {
    ...(message && { message: { ...message, parts: message.parts.map(moved) } }),
    ...(artifacts && { artifacts: artifacts.map((one) => ({ ...one, parts: one.parts.map(moved) })) }),
  };
}

function nameFor(mediaType = ''): string {
  const [, kind = ''] = /^[a-z]+\/([a-z0-9]{1,10})$/i.exec(mediaType) ?? [];
  return `file.${kind === 'plain' ? 'txt' : kind || 'bin'}`;
}

class Files {
  readonly #entries: ZipEntry[] = [];
  readonly #names = new Set<string>();
  #bytes = 0;

  /** Answers the name that it got: a plain one that no other has. */
  add(wanted: string, data: Buffer): string {
    const plain = wanted
      .replace(/^.*[/\\]/, '')
      .replace(/[\p{C}"*:<>?|]/gu, '_')
      .slice(-120);
    const safe = plain === '' || /^\.+$/.test(plain) ? 'file.bin' : plain;
    let name = safe;
    for (let n = 2; this.#names.has(name); n++) name = `${n}-${safe}`;
    this.#names.add(name);
    this.#bytes += data.length + 2 * name.length + 200;
    this.#entries.push({ name, data });
    return name;
  }

  /** Null when there are none, or when they are more than what is delivered. */
  zip(): Buffer | null {
    return this.#entries.length === 0 || this.#bytes > maxZip ? null : storedZip(this.#entries);
  }
}

function plainText(parts: readonly Part[]): string {
  return parts.flatMap((part) => part.text ?? []).join('\n');
}

function cut(text: string): string {
  return text.length > excerpt ? `${Buffer.from(text.slice(0, excerpt)).toString()}…` : text;
}

/** Kept with the envelope as `a2a`, where it is not too much. */
function textOf(message: Message): string | null {
  const text = JSON.stringify(message);
  return text.length <= maxBody ? text : null;
}
