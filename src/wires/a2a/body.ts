import type { Body } from '../../exchange/message.ts';
import { type Refusal, refuse } from '../../lib/refusal.ts';
import { isRecord, type Part } from './protocol.ts';

/** REDSYN "El sobre": what a body holds at most, measured on its content. */
const maxBodyBytes = 64 * 1024;

/**
 * The parts of a message as a REDSYN body: one data part alone is `application/json`, all else is text, one line per part, data as JSON; the
 * original message travels beside it. Files have no way in yet: `unsupported_media_type`.
 */
export function bodyOfParts(parts: readonly Part[]): Body | Refusal {
  if (parts.some((part) => part.text === undefined && part.data === undefined)) {
    return refuse('unsupported_media_type', 'File parts are not taken here. Send text or data.', {
      data: { accepted: 'text/plain,application/json' },
    });
  }
  const [only] = parts;
  const isData = parts.length === 1 && only!.text === undefined;
  const text = isData ? '' : parts.map((part) => part.text ?? JSON.stringify(part.data)).join('\n');
  if (Buffer.byteLength(isData ? JSON.stringify(only!.data) : text) > maxBodyBytes) {
    return refuse('invalid_field', 'The parts of the message hold more than 64 KB.', {
      data: { field: 'message.parts' },
    });
  }
  return isData ? { type: 'application/json', data: only!.data } : { type: 'text/plain', text };
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
