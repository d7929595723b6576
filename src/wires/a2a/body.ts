import type { Body } from '../../exchange/message.ts';
import { sha256Hex } from '../../lib/ids.ts';
import { type Refusal, refuse } from '../../lib/refusal.ts';
import { storedZip } from '../../lib/zip-write.ts';
import { isRecord, type Part } from './protocol.ts';

/** REDSYN "El sobre": what a body holds at most, measured on its content, and what its files are at most. */
const maxBodyBytes = 64 * 1024;
const maxZipBytes = 5 * 1024 * 1024;
const maxName = 200;

/** The parts of a message as an envelope has them. */
export interface Content {
  body: Body;
  /** Files that came as bytes. */
  zip: Buffer | null;
  files?: { bytes: number; sha256: string };
  /** Files that stand elsewhere: whoever wants one fetches it. */
  refs?: { url: string; note?: string }[];
}

/**
 * One data part alone is `application/json`, all else is text, one line per part, data as JSON; bytes are files of the envelope, and URLs its
 * references. The original message travels beside it.
 */
export function contentOf(parts: readonly Part[]): Content | Refusal {
  const names = new Set<string>();
  const files: { name: string; data: Buffer }[] = [];
  const refs: { url: string; note?: string }[] = [];
  const lines: string[] = [];
  for (const [i, { text, raw, url, data, filename, mediaType }] of parts.entries()) {
    if (text !== undefined) lines.push(text);
    else if (data !== undefined) lines.push(JSON.stringify(data));
    else if (url !== undefined) refs.push({ url, ...(filename !== undefined && { note: filename }) });
    else {
      const bytes = fromBase64(raw!);
      if (!bytes) return invalid(`message.parts[${i}].raw`, 'must be base64');
      const name = freeName(filename ?? `file-${i + 1}${extensionOf(mediaType)}`, names);
      files.push({ name, data: bytes });
    }
  }
  const [only] = parts;
  const isData = parts.length === 1 && only!.data !== undefined;
  const text = lines.join('\n');
  if (Buffer.byteLength(text) > maxBodyBytes)
    return invalid('message.parts', 'hold more than 64 KB beside their files');
  const zip = files.length > 0 ? storedZip(files) : null;
  if (zip && zip.length > maxZipBytes) {
    return refuse('payload_too_large', 'The files of the message are larger than 5 MB.', {
      data: { field: 'message.parts', limit: maxZipBytes },
    });
  }
  return {
    body: isData ? { type: 'application/json', data: only!.data } : { type: 'text/plain', text },
    zip,
    ...(zip && { files: { bytes: zip.length, sha256: sha256Hex(zip) } }),
    ...(refs.length > 0 && { refs }),
  };
}

/** The message as it is kept when its files are large: their bytes are in the zip beside it, under these names. */
export function withoutBytes(parts: readonly Part[]): Part[] {
  return parts.map(({ raw, ...part }, i) =>
    raw === undefined
      ? part
      : { ...part, url: `zip:${part.filename ?? `file-${i + 1}${extensionOf(part.mediaType)}`}` },
  );
}

/** Both alphabets, as ProtoJSON has it. */
function fromBase64(text: string): Buffer | undefined {
  return /^[A-Za-z0-9+/_-]*={0,2}$/.test(text) ? Buffer.from(text, 'base64') : undefined;
}

/** A plain name, none of whose like is there yet: it comes from a stranger, and becomes a file on somebody's disk. */
function freeName(given: string, taken: Set<string>): string {
  const last = given.replaceAll('\\', '/').split('/').at(-1)!;
  const plain =
    last
      .replace(/[\p{C}:*?"<>|]/gu, '_')
      .replace(/^\.+/, '')
      .slice(-maxName) || 'file';
  let name = plain;
  for (let n = 2; taken.has(name.toLowerCase()); n++) name = `${n}-${plain}`;
  taken.add(name.toLowerCase());
  return name;
}

const extensions: Readonly<Record<string, string>> = {
  'text/plain': '.txt',
  'application/json': '.json',
  'application/pdf': '.pdf',
  'image/png': '.png',
  'image/jpeg': '.jpg',
};

function extensionOf(mediaType: string | undefined): string {
  return extensions[mediaType?.split(';')[0]?.trim().toLowerCase() ?? ''] ?? '';
}

function invalid(field: string, what: string): Refusal {
  return refuse('invalid_field', `\`${field}\` ${what}.`, { data: { field } });
}

/** A REDSYN body as a reader of plain A2A sees it. What is sealed stays where it is: in the envelope. */
export function partsOfBody(body: Body): Part[] {
  if (body.enc !== undefined) return [{ text: 'This message is end-to-end encrypted.', mediaType: 'text/plain' }];
  const parts: Part[] = [];
  const isText = body.type.startsWith('text/');
  // A question (REDSYN: a progress with `data.question`) is for people first.
  const text = body.text ?? questionIn(body.data);
  if (text !== undefined) parts.push({ text, mediaType: isText ? body.type : 'text/plain' });
  if (body.data !== undefined) parts.push({ data: body.data, mediaType: isText ? 'application/json' : body.type });
  return parts.length > 0 ? parts : [{ text: '', mediaType: 'text/plain' }];
}

function questionIn(data: unknown): string | undefined {
  return isRecord(data) && typeof data.question === 'string' ? data.question : undefined;
}
