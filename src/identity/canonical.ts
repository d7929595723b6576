import canonicalize from 'canonicalize';
import { Refusal, refuse } from '../lib/refusal.ts';

const MAX_DEPTH = 64;

/**
 * RFC 8785 of a value that came out of JSON. Refused (`malformed_request`): deeper than 64 levels, half a surrogate pair in a string or a
 * key, a number that is not finite (`1e400`). Throws on what JSON cannot say (undefined, functions, bigint): that is a fault of ours.
 */
export function canonicalJson(value: unknown): string | Refusal {
  return objection(value, MAX_DEPTH, false) ?? canonicalize(value)!;
}

/** A number with its spelling in the JSON text it came from: `1790000000.0` is not `1790000000` to those who signed it. */
export class RawNumber {
  readonly token: string;

  constructor(token: string) {
    this.token = token;
  }
}

/**
 * muretai's canonical JSON (muretai-wire-facts §1): the bytes of Python's
 * `json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)`. Python prints some numbers otherwise than ECMAScript, and
 * `JSON.parse` forgets which one was meant: such a number is refused by name, unless its token is given as a `RawNumber`.
 */
export function pythonJson(value: unknown): string | Refusal {
  return objection(value, MAX_DEPTH, true) ?? python(value, 'value');
}

function python(value: unknown, name: string): string | Refusal {
  if (value instanceof RawNumber) return pythonToken(value.token, name);
  if (typeof value === 'number') return pythonNumber(value, name);
  if (Array.isArray(value)) {
    const parts = all(value.map((item, index) => python(item, `${name}[${index}]`)));
    return parts instanceof Refusal ? parts : `[${parts.join(',')}]`;
  }
  if (typeof value === 'object' && value !== null) {
    const keys = Object.keys(value).sort(byCodePoint);
    const parts = all(keys.map((key) => python((value as Record<string, unknown>)[key], key)));
    return parts instanceof Refusal
      ? parts
      : `{${keys.map((key, i) => `${JSON.stringify(key)}:${parts[i]}`).join(',')}}`;
  }
  return JSON.stringify(value);
}

/** A token stands as it is when Python would print the number so; then, and only then, the signer signed those bytes. */
function pythonToken(token: string, name: string): string | Refusal {
  if (token.length <= 40) {
    if (/^(?:0|-?[1-9]\d*)$/.test(token)) return token;
    if (/^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(token) && pythonFloat(Number(token)) === token)
      return token;
  }
  return refuse(
    'malformed_request',
    `${name}: the number ${token.slice(0, 40)} is not spelt as Python prints it; sign an integer.`,
  );
}

function pythonNumber(value: number, name: string): string | Refusal {
  if (Number.isInteger(value)) {
    if (Number.isSafeInteger(value) && !Object.is(value, -0)) return String(value);
  } else if (pythonFloat(value) === String(value)) {
    return String(value);
  }
  return refuse(
    'malformed_request',
    `${name}: that number has no one spelling in Python and ECMAScript; sign a safe integer.`,
  );
}

/** `repr(float)`: the shortest digits that read back the same, an exponent of two digits or more outside 1e-4 … 1e16, always a point or an exponent. */
export function pythonFloat(value: number): string {
  const [mantissa = '', power = '0'] = Math.abs(value).toExponential().split('e');
  const digits = mantissa.replace('.', '');
  const exponent = Number(power);
  const sign = value < 0 || Object.is(value, -0) ? '-' : '';
  if (exponent < -4 || exponent >= 16) {
    const size = String(Math.abs(exponent)).padStart(2, '0');
    return `${sign}${mantissa}e${exponent < 0 ? '-' : '+'}${size}`;
  }
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, '0');
  return `${sign}${whole}.${digits.slice(exponent + 1) || '0'}`;
}

/** What is wrong with a value for any canonical form, looked for before a serializer that recurses runs. */
function objection(value: unknown, depth: number, rawNumbers: boolean): Refusal | undefined {
  switch (typeof value) {
    case 'boolean':
      return undefined;
    case 'number':
      return Number.isFinite(value) ? undefined : refuse('malformed_request', 'A number of the JSON is out of range.');
    case 'string':
      return !/\p{Surrogate}/u.test(value)
        ? undefined
        : refuse('malformed_request', 'A text of the JSON holds half of a surrogate pair.');
    case 'object':
      break;
    default:
      throw new TypeError(`JSON has no ${typeof value}`);
  }
  if (value === null || (rawNumbers && value instanceof RawNumber)) return undefined;
  if (depth === 0) return refuse('malformed_request', `The JSON is nested deeper than ${MAX_DEPTH} levels.`);
  if (!Array.isArray(value)) {
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype !== Object.prototype && prototype !== null)
      throw new TypeError('only plain objects have a canonical form');
    for (const key of Object.keys(value)) {
      const problem = objection(key, depth - 1, rawNumbers);
      if (problem) return problem;
    }
  }
  for (const child of Object.values(value)) {
    const problem = objection(child, depth - 1, rawNumbers);
    if (problem) return problem;
  }
  return undefined;
}

/** Python sorts by code point; ECMAScript by UTF-16 unit, which puts U+1F600 before U+FFFD. */
function byCodePoint(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a, 'utf8'), Buffer.from(b, 'utf8'));
}

function all(parts: (string | Refusal)[]): string[] | Refusal {
  const refused = parts.find((part) => part instanceof Refusal);
  return refused instanceof Refusal ? refused : (parts as string[]);
}
