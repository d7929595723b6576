import { isUtf8 } from 'node:buffer';
import { type Refusal, type RefusalCode, refuse } from './refusal.ts';

export interface JsonLimits {
  /** Containers within containers. */
  readonly maxDepth: number;
  /** Members of all objects and elements of all arrays together. */
  readonly maxMembers: number;
}

const defaultLimits: JsonLimits = { maxDepth: 64, maxMembers: 20_000 };
/** For a text whose bounds were judged before. */
const unlimited: JsonLimits = { maxDepth: Number.POSITIVE_INFINITY, maxMembers: Number.POSITIVE_INFINITY };

export interface JsonText {
  /** As `JSON.parse` has it: the key `__proto__` is an ordinary own member, escaped lone surrogates stay (`hasLoneSurrogate`). */
  readonly value: unknown;
  /** The value at a path exactly as it was written, for what was signed over its text; undefined when there is none. */
  raw(path: ReadonlyArray<string | number>): string | undefined;
}

/**
 * Reads one JSON text (RFC 8259, I-JSON's rule on names: RFC 7493 §2.3). Refused: `malformed_json` (also bad UTF-8, a byte order mark, a
 * number outside the range of a double, too deep, too many members) and `duplicate_key` (CAN-04). The words say where, never what.
 */
export function readJson(source: string | Buffer, limits: JsonLimits = defaultLimits): JsonText | Refusal {
  if (typeof source !== 'string' && !isUtf8(source))
    return refuse('malformed_json', 'Not valid JSON: it is not UTF-8.');
  const text = source.toString();
  try {
    new Scanner(text, limits).document();
  } catch (fault) {
    if (fault instanceof Fault) return fault.refusal(text);
    throw fault;
  }
  return { value: JSON.parse(text), raw: (path) => new Scanner(text, limits).slice(path) };
}

/** `text`, which `readJson` has passed, with the value at a path written anew; everything else stays as it is. Undefined when there is none. */
export function replaceValue(text: string, path: ReadonlyArray<string | number>, json: string): string | undefined {
  const span = new Scanner(text, unlimited).span(path);
  return span && text.slice(0, span[0]) + json + text.slice(span[1]);
}

/** Whether any string or key holds U+0000, which PostgreSQL's text cannot (CAN-06). */
export function containsNul(value: unknown): boolean {
  return someText(value, (text) => text.includes('\u0000'));
}

/** Whether any string or key holds half of a surrogate pair, which has no UTF-8 form, so that no signature over it is portable. */
export function hasLoneSurrogate(value: unknown): boolean {
  return someText(value, (text) => /\p{Surrogate}/u.test(text));
}

function someText(value: unknown, test: (text: string) => boolean): boolean {
  if (typeof value === 'string') return test(value);
  if (value === null || typeof value !== 'object') return false;
  if (Array.isArray(value)) return value.some((item) => someText(item, test));
  return Object.entries(value).some(([key, item]) => test(key) || someText(item, test));
}

/** Stays in this file: unwinds the scanner. */
class Fault extends Error {
  readonly #code: RefusalCode;
  readonly #at: number;

  constructor(code: RefusalCode, words: string, at: number) {
    super(words);
    this.#code = code;
    this.#at = at;
  }

  refusal(text: string): Refusal {
    const before = text.slice(0, this.#at);
    const line = before.split('\n').length;
    const column = this.#at - before.lastIndexOf('\n');
    return refuse(this.#code, `Not valid JSON: ${this.message} at line ${line}, column ${column}.`);
  }
}

const TAB = 0x09;
const LINE_FEED = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

const numberToken = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const escapeToken = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const wordToken = /true|false|null/y;

// Shorter tokens without an exponent are always finite.
const longNumber = 300;

/** One pass over the text that builds nothing but the keys of the objects it is inside of. */
class Scanner {
  readonly #text: string;
  readonly #limits: JsonLimits;
  #at = 0;
  #members = 0;

  constructor(text: string, limits: JsonLimits) {
    this.#text = text;
    this.#limits = limits;
  }

  document(): void {
    this.#space();
    this.#value(0);
    this.#space();
    if (this.#at < this.#text.length) this.#fail('the text should have ended');
  }

  slice(path: ReadonlyArray<string | number>): string | undefined {
    const span = this.span(path);
    return span && this.#text.slice(...span);
  }

  /** On a text that `document` has passed. */
  span(path: ReadonlyArray<string | number>): readonly [start: number, end: number] | undefined {
    this.#space();
    for (const step of path) {
      const next = this.#text.charCodeAt(this.#at);
      const found =
        typeof step === 'number'
          ? next === OPEN_ARRAY && this.#array(0, step)
          : next === OPEN_OBJECT && this.#object(0, step);
      if (!found) return undefined;
    }
    const start = this.#at;
    this.#value(0);
    return [start, this.#at];
  }

  #value(depth: number): void {
    switch (this.#text.charCodeAt(this.#at)) {
      case QUOTE:
        this.#string();
        return;
      case OPEN_OBJECT:
        this.#object(depth + 1);
        return;
      case OPEN_ARRAY:
        this.#array(depth + 1);
        return;
      default:
        if (!this.#take(wordToken)) this.#number();
    }
  }

  /** With `wanted`: true and standing before that member's value, or false past the end. */
  #object(depth: number, wanted?: string): boolean {
    this.#open(depth);
    const keys = new Set<string>();
    if (this.#skip(CLOSE_OBJECT)) return false;
    do {
      this.#space();
      const start = this.#at;
      const key = this.#key();
      if (keys.has(key)) this.#fail('an object names the same key twice', 'duplicate_key', start);
      keys.add(key);
      this.#space();
      if (!this.#skip(COLON)) this.#fail('a colon was expected');
      this.#space();
      if (key === wanted) return true;
      this.#member(depth);
    } while (this.#skip(COMMA));
    if (!this.#skip(CLOSE_OBJECT)) this.#fail('a comma or the end of the object was expected');
    return false;
  }

  /** With `wanted`: true and standing before that element, or false past the end. */
  #array(depth: number, wanted?: number): boolean {
    this.#open(depth);
    if (this.#skip(CLOSE_ARRAY)) return false;
    let index = 0;
    do {
      this.#space();
      if (index++ === wanted) return true;
      this.#member(depth);
    } while (this.#skip(COMMA));
    if (!this.#skip(CLOSE_ARRAY)) this.#fail('a comma or the end of the array was expected');
    return false;
  }

  #open(depth: number): void {
    if (depth > this.#limits.maxDepth) this.#fail(`it is nested deeper than ${this.#limits.maxDepth} levels`);
    this.#at++;
    this.#space();
  }

  #member(depth: number): void {
    if (++this.#members > this.#limits.maxMembers) this.#fail(`it has more than ${this.#limits.maxMembers} members`);
    this.#value(depth);
    this.#space();
  }

  /** Unescaped, so that `"ru\u006e"` and `"run"` are the same key. */
  #key(): string {
    const start = this.#at;
    if (this.#text.charCodeAt(start) !== QUOTE) this.#fail('a key in double quotes was expected');
    return this.#string()
      ? (JSON.parse(this.#text.slice(start, this.#at)) as string)
      : this.#text.slice(start + 1, this.#at - 1);
  }

  /** Whether the string has escapes. */
  #string(): boolean {
    const text = this.#text;
    let escaped = false;
    for (let i = this.#at + 1; ; i++) {
      const c = text.charCodeAt(i);
      if (c === QUOTE) {
        this.#at = i + 1;
        return escaped;
      }
      if (c === BACKSLASH) {
        this.#at = i;
        if (!this.#take(escapeToken)) this.#fail('there is a bad escape');
        i = this.#at - 1;
        escaped = true;
      } else if (!(c >= SPACE)) {
        // Past the end c is NaN.
        this.#fail(i < text.length ? 'a control character must be escaped' : 'a string does not end', undefined, i);
      }
    }
  }

  #number(): void {
    const start = this.#at;
    if (!this.#take(numberToken)) this.#fail('a value was expected');
    const token = this.#text.slice(start, this.#at);
    if ((token.length > longNumber || /[eE]/.test(token)) && !Number.isFinite(Number(token))) {
      this.#fail('a number is out of range', undefined, start);
    }
  }

  #take(pattern: RegExp): boolean {
    pattern.lastIndex = this.#at;
    if (!pattern.test(this.#text)) return false;
    this.#at = pattern.lastIndex;
    return true;
  }

  #skip(code: number): boolean {
    if (this.#text.charCodeAt(this.#at) !== code) return false;
    this.#at++;
    return true;
  }

  #space(): void {
    for (;;) {
      const c = this.#text.charCodeAt(this.#at);
      if (c !== SPACE && c !== LINE_FEED && c !== RETURN && c !== TAB) return;
      this.#at++;
    }
  }

  #fail(words: string, code: RefusalCode = 'malformed_json', at = this.#at): never {
    throw new Fault(code, words, at);
  }
}
