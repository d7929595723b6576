import {
  type Dictionary,
  type InnerList,
  type Item,
  isInnerList,
  parseDictionary,
  parseItem,
  parseList,
  serializeDictionary,
  serializeItem,
  serializeList,
} from 'structured-headers';
import { fromBase64 } from '../encoding.ts';

/** One member of a dictionary field: what it means, and the text that said so. */
export interface Member {
  readonly value: Item | InnerList;
  /** What stands after `key=`, verbatim: a signature covers the text, not our reading of it. */
  readonly text: string;
}

/**
 * Reads a dictionary field (RFC 9651 §4.2.2). A string says what is wrong. The parser keeps the last of repeated keys and parameters in
 * silence, while another one might keep the first: here a repetition anywhere is an error, found by counting in the raw text (SIG-08).
 */
export function readDictionary(text: string): ReadonlyMap<string, Member> | string {
  let parsed: Dictionary;
  try {
    parsed = parseDictionary(text);
  } catch {
    return 'it is not a structured-field dictionary';
  }
  const raw = text.trim() === '' ? [] : split(text, ',').map((part) => part.trim());
  if (raw.length !== parsed.size) return 'it names the same key twice';
  const members = new Map<string, Member>();
  for (const [index, [key, value]] of [...parsed].entries()) {
    const rest = raw[index]!.slice(key.length);
    const member = { value, text: rest.startsWith('=') ? rest.slice(1) : rest };
    if (repeatsParameters(member)) return `${key} has the same parameter twice`;
    members.set(key, member);
  }
  return members;
}

/** The bytes of a member that is a Byte Sequence in canonical base64, else undefined. */
export function bytesOf(member: Member): Buffer | undefined {
  const encoded = /^:([A-Za-z0-9+/=]*):/.exec(member.text)?.[1];
  return encoded === undefined ? undefined : fromBase64(encoded);
}

export type FieldType = 'dictionary' | 'list' | 'item';

/** The strict serialization of a structured field (RFC 9421 §2.1.1), or undefined when it is not of that type. */
export function reserialize(type: FieldType, text: string): string | undefined {
  try {
    if (type === 'list') return serializeList(parseList(text));
    if (type === 'item') return serializeItem(parseItem(text));
  } catch {
    return undefined;
  }
  const members = readDictionary(text);
  if (typeof members === 'string') return undefined;
  return serializeDictionary(new Map([...members].map(([key, { value }]) => [key, value])));
}

/** The strict serialization of one member of a dictionary (RFC 9421 §2.1.2), or undefined when there is none. */
export function reserializeMember(text: string, key: string): string | undefined {
  const members = readDictionary(text);
  const member = typeof members === 'string' ? undefined : members.get(key);
  return member && serializeList([member.value]);
}

function repeatsParameters({ value, text }: Member): boolean {
  if (split(text, ';').length - 1 !== value[1].size) return true;
  if (!isInnerList(value)) return false;
  const items = split(text.slice(1, closing(text)), ' ').filter((item) => item !== '');
  return (
    items.length !== value[0].length || items.some((item, i) => split(item, ';').length - 1 !== value[0][i]![1].size)
  );
}

/** Splits valid structured-field text at a separator that stands in no string and in no inner list. */
function split(text: string, separator: string): string[] {
  const parts: string[] = [];
  let start = 0;
  scan(text, (at, char, nested) => {
    if (char !== separator || nested) return;
    parts.push(text.slice(start, at));
    start = at + 1;
  });
  return [...parts, text.slice(start)];
}

/** Where the inner list that begins a text ends. */
function closing(text: string): number {
  let end = text.length;
  scan(text, (at, char) => {
    if (char === ')') end = Math.min(end, at);
  });
  return end;
}

function scan(text: string, visit: (at: number, char: string, nested: boolean) => void): void {
  let nested = false;
  for (let at = 0; at < text.length; at++) {
    const char = text[at]!;
    if (char === '"') {
      // A Display String (%"…") has no backslash escapes.
      const escapes = text[at - 1] !== '%';
      for (at++; at < text.length && text[at] !== '"'; at++) if (escapes && text[at] === '\\') at++;
      continue;
    }
    if (char === ')') nested = false;
    visit(at, char, nested);
    if (char === '(') nested = true;
  }
}
