import type { Body, Envelope, EnvelopeSignature, MessageKind } from '../../exchange/message.ts';
import { fromBase64 } from '../../identity/encoding.ts';
import { sha256Hex } from '../../lib/ids.ts';
import { type JsonText, readJson, replaceValue } from '../../lib/json.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { zipFault } from '../../lib/zip.ts';

/** REDSYN "El sobre": the body holds up to 64 KB, measured on its content (the text, or the JSON of the data). */
export const maxBodyBytes = 64 * 1024;
/** "Hasta 5 MB comprimido", measured on the decoded bytes. */
export const maxZipBytes = 5 * 1024 * 1024;
const maxRefs = 100;
const maxRefsBytes = 64 * 1024;
const kinds: readonly MessageKind[] = ['request', 'progress', 'reply', 'event'];

export interface ParsedEnvelope {
  envelope: Envelope;
  /** As it arrived, but for `files`: where the zip stood, its size and hash stand. */
  text: string;
  zip: Buffer | null;
}

/**
 * An envelope as a client sends it. Every field's type and limit is checked here, and a wrong one is named (422); whether the sender may
 * say it is for the gates. Fields that v1 does not know pass untouched. A missing `id` stays '': the gates make one.
 */
export function parseEnvelope(body: Buffer): ParsedEnvelope | Refusal {
  const json = readJson(body);
  if (json instanceof Refusal) return json;
  return checkEnvelope(json, body.toString('utf8'));
}

/** The same for an envelope that was read already (the REDSYN extension on A2A carries one inside); `text` is what it was written as. */
export function checkEnvelope(json: JsonText, text: string): ParsedEnvelope | Refusal {
  const e = json.value;
  if (!isRecord(e)) return refuse('invalid_field', 'An envelope is a JSON object.', { data: { field: '' } });
  if (e.v !== 1) return wrong('v', 'must be 1');
  if (!kinds.includes(e.kind as MessageKind)) return wrong('kind', `must be one of ${kinds.join(', ')}`);
  const kind = e.kind as MessageKind;

  const id = optionalText(e, 'id', 200);
  if (id instanceof Refusal) return id;
  if (id !== undefined && !/^[^\s\p{C}]+$/u.test(id)) return wrong('id', 'must hold no blanks or control characters');
  const from = optionalText(e, 'from', 500);
  if (from instanceof Refusal) return from;
  if (from === undefined) return wrong('from', 'is missing: write the full address of one of your agents');
  const to = optionalText(e, 'to', 500);
  if (to instanceof Refusal) return to;
  if (to === undefined && (kind === 'request' || kind === 'event')) return wrong('to', 'is missing');
  const thread = optionalText(e, 'thread', 256);
  if (thread instanceof Refusal) return thread;
  const replyTo = optionalText(e, 'reply_to', 200);
  if (replyTo instanceof Refusal) return replyTo;
  if (replyTo === undefined && (kind === 'reply' || kind === 'progress')) {
    return wrong('reply_to', 'is missing: name the id of the request');
  }
  if (e.ts != null && !(Number.isSafeInteger(e.ts) && (e.ts as number) >= 0))
    return wrong('ts', 'must be Unix seconds');
  if (e.ttl != null && !(Number.isSafeInteger(e.ttl) && (e.ttl as number) > 0)) {
    return wrong('ttl', 'must be a whole number of seconds above 0');
  }
  if (e.error != null && typeof e.error !== 'boolean') return wrong('error', 'must be true or false');

  const fault = bodyFault(e.body) ?? refsFault(e.refs, json);
  if (fault) return fault;
  const sig = signature(e);
  if (sig instanceof Refusal) return sig;
  const zip = readZip(e.files, e.body as Body);
  if (zip instanceof Refusal) return zip;
  const files = zip && { bytes: zip.length, sha256: sha256Hex(zip) };

  const {
    to: _to,
    thread: _thread,
    reply_to: _reply,
    ts: _ts,
    ttl: _ttl,
    refs: _refs,
    files: _files,
    error: _error,
    ...rest
  } = e;
  const envelope: Envelope = {
    ...rest,
    v: 1,
    kind,
    id: id ?? '',
    from,
    body: e.body as Body,
    ...(to !== undefined && { to }),
    ...(thread !== undefined && { thread }),
    ...(replyTo !== undefined && { reply_to: replyTo }),
    ...(e.ts != null && { ts: e.ts as number }),
    ...(e.ttl != null && { ttl: e.ttl as number }),
    ...(e.refs != null && { refs: e.refs as unknown[] }),
    ...(files && { files }),
    ...(e.error != null && { error: e.error as boolean }),
    sig,
  };
  return { envelope, text: files ? replaceValue(text, ['files'], JSON.stringify(files))! : text, zip };
}

function bodyFault(body: unknown): Refusal | undefined {
  if (!isRecord(body)) return wrong('body', 'must be an object with a `type`');
  if (typeof body.type !== 'string' || body.type === '' || body.type.length > 200)
    return wrong('body.type', 'is missing');
  if (body.type === 'text/plain' && typeof body.text !== 'string') return wrong('body.text', 'must be a string');
  if (body.text !== undefined && typeof body.text !== 'string') return wrong('body.text', 'must be a string');
  if (body.type === 'application/json' && body.data === undefined) return wrong('body.data', 'is missing');
  const content =
    body.type === 'text/plain' ? (body.text as string) : JSON.stringify(body.text ?? body.data ?? body.enc ?? '');
  if (Buffer.byteLength(content) > maxBodyBytes) return wrong('body', 'holds more than 64 KB');
  const { text: _text, data: _data, enc: _enc, ...more } = body;
  if (Buffer.byteLength(JSON.stringify(more)) > 4096) return wrong('body', 'has unknown members of more than 4 KB');
  return undefined;
}

function refsFault(refs: unknown, json: JsonText): Refusal | undefined {
  if (refs == null) return undefined;
  if (!Array.isArray(refs)) return wrong('refs', 'must be a list');
  if (refs.length > maxRefs) return wrong('refs', `must hold at most ${maxRefs} references`);
  if (!refs.every(isRecord)) return wrong('refs', 'must hold objects');
  if (Buffer.byteLength(json.raw(['refs']) ?? '') > maxRefsBytes) return wrong('refs', 'holds more than 64 KB');
  return undefined;
}

/** A sealed zip is ciphertext: what it is shows only to whoever opens it. */
function readZip(files: unknown, body: Body): Buffer | null | Refusal {
  if (files == null) return null;
  if (!isRecord(files) || typeof files.zip !== 'string') return wrong('files', 'must be {"zip": <base64>}');
  if (files.zip.length > Math.ceil(maxZipBytes / 3) * 4) return tooLarge();
  const zip = fromBase64(files.zip);
  if (!zip)
    return wrong('files.zip', 'must be base64 in its canonical form: padded, without line ends, A-Z a-z 0-9 + /');
  if (zip.length === 0) return wrong('files.zip', 'is empty');
  if (zip.length > maxZipBytes) return tooLarge();
  const isSealed = body.type === 'application/redsyn+encrypted' && isRecord(body.enc);
  const fault = isSealed ? undefined : zipFault(zip);
  return fault === undefined ? zip : wrong('files.zip', fault);
}

function tooLarge(): Refusal {
  return refuse('payload_too_large', '`files.zip` holds more than 5 MB.', {
    data: { field: 'files', limit: maxZipBytes },
  });
}

function signature(e: Record<string, unknown>): EnvelopeSignature | null | Refusal {
  const { sig } = e;
  if (sig == null) return null;
  if (!isRecord(sig)) return wrong('sig', 'must be {"alg", "key", "value"}');
  for (const name of ['alg', 'key', 'value'] as const) {
    const value = sig[name];
    if (typeof value !== 'string' || value.length > 200) return wrong(`sig.${name}`, 'must be a short string');
  }
  if (e.ts == null) return wrong('ts', 'is required when the envelope is signed');
  return { alg: sig.alg as string, key: sig.key as string, value: sig.value as string };
}

/** Absent, null and '' are the same: a signature covers all three as ''. */
function optionalText(e: Record<string, unknown>, name: string, max: number): string | undefined | Refusal {
  const value = e[name];
  if (value == null || value === '') return undefined;
  if (typeof value !== 'string') return wrong(name, 'must be a string');
  if (value.length > max) return wrong(name, `must have at most ${max} characters`);
  return value;
}

function wrong(field: string, what: string): Refusal {
  return refuse('invalid_field', `\`${field}\` ${what}.`, { data: { field } });
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
