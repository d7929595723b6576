import { type BareItem, type Item, serializeItem } from 'structured-headers';
import type { HttpRequest } from '../../lib/http.ts';
import { type Refusal, refuse } from '../../lib/refusal.ts';
import { type FieldType, reserialize, reserializeMember } from './fields.ts';

/** What a signature over a request is computed from. `target` is the raw request target: nothing here is ever normalised by a URL parser. */
export type RequestMessage = Pick<HttpRequest, 'method' | 'target' | 'authority' | 'scheme'> & {
  readonly headers: Fields;
};

export interface ResponseMessage {
  readonly status: number;
  readonly headers: Fields;
  /** The request that was answered, for components with `;req`. */
  readonly request?: RequestMessage;
}

export type Message = RequestMessage | ResponseMessage;

interface Fields {
  all(name: string): readonly string[];
}

/** A covered component (RFC 9421 §2): a field or a derived component, and how its value is to be taken. */
export interface Component {
  readonly name: string;
  /** The identifier as it stands in the signature base, parameters in the order received: `"content-digest";req`. */
  readonly id: string;
  readonly parameters: ReadonlyMap<string, BareItem>;
}

type Value = string | Refusal;

const FLAGS = ['sf', 'bs', 'req', 'tr'];
const TEXTS = ['key', 'name'];

/** Reads a component identifier. What it asks and we do not do is refused (`signature_malformed`), never passed over. */
export function readComponent([name, parameters]: Item): Component | Refusal {
  if (typeof name !== 'string') return malformed('A covered component is not a quoted string.');
  const derived = name.startsWith('@');
  if (derived ? !Object.hasOwn(derivations, name) : !/^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(name)) {
    return malformed(`"${name}" is no component that is known here.`);
  }
  for (const [parameter, value] of parameters) {
    const known = FLAGS.includes(parameter) ? value === true : TEXTS.includes(parameter) && typeof value === 'string';
    const fits =
      parameter === 'req' || (derived ? parameter === 'name' && name === '@query-param' : parameter !== 'name');
    if (!known || !fits) return malformed(`"${name}" does not take the parameter "${parameter}".`);
  }
  if (parameters.has('tr')) return malformed('Trailers are not read here.');
  if (parameters.has('bs') && (parameters.has('sf') || parameters.has('key'))) {
    return malformed(`"${name}" has parameters that exclude each other.`);
  }
  if (name === '@query-param' && !parameters.has('name')) return malformed('"@query-param" names no parameter.');
  return { name, parameters, id: serializeItem([name, parameters]) };
}

/** The same text for every order of parameters: two items of one identity are one component named twice (RFC 9421 §2.5). */
export function identityOf([name, parameters]: Item): string {
  return serializeItem([name, new Map([...parameters].sort(([a], [b]) => (a < b ? -1 : 1)))]);
}

/** The value of a component (RFC 9421 §2.1, §2.2). Refusals: `signature_malformed`, or `signature_invalid` when the message lacks it. */
export function componentValue(component: Component, message: Message, fieldTypes = structuredFields): Value {
  const { name, parameters } = component;
  let context: Message = message;
  if (parameters.has('req')) {
    if (isRequest(message)) return malformed(`"${name}" asks for the request of a response, and this is a request.`);
    if (!message.request) return unmet(`"${name}" is taken from a request that is not known.`);
    context = message.request;
  }
  if (!name.startsWith('@')) return fieldValue(component, context.headers.all(name), fieldTypes);
  const derive = derivations[name as keyof typeof derivations];
  return derive(context, parameters);
}

/** Fields that are known to be structured, so that `;sf` and `;key` have a meaning (RFC 9421 §2.1.1). */
export const structuredFields: Readonly<Record<string, FieldType>> = {
  'content-digest': 'dictionary',
  'repr-digest': 'dictionary',
  'want-content-digest': 'dictionary',
  'want-repr-digest': 'dictionary',
  signature: 'dictionary',
  'signature-input': 'dictionary',
  'accept-signature': 'dictionary',
  priority: 'dictionary',
  'cache-status': 'list',
};

// Fields of which a message has one: a second line is an attack on whoever reads the other one.
const SINGLE = new Set(['host', 'date', 'content-type', 'content-length', 'authorization']);

function fieldValue(component: Component, lines: readonly string[], types: Readonly<Record<string, FieldType>>): Value {
  const { name, parameters } = component;
  if (lines.length === 0) return unmet(`The signature covers "${name}", which is not there.`);
  if (lines.length > 1 && SINGLE.has(name)) return malformed(`"${name}" is there more than once.`);
  // RFC 9421 §2.1: no white space at the ends; a folded line is one space.
  const values = lines.map((line) => line.replace(/[ \t]*\r?\n[ \t]+/g, ' ').replace(/^[ \t]+|[ \t]+$/g, ''));
  if (parameters.has('bs'))
    return values.map((value) => `:${Buffer.from(value, 'latin1').toString('base64')}:`).join(', ');
  const combined = values.join(', ');
  const key = parameters.get('key');
  const type = Object.hasOwn(types, name) ? types[name] : undefined;
  if (key === undefined && !parameters.has('sf')) return combined;
  if (!type) return malformed(`"${name}" is not known to be a structured field.`);
  if (key !== undefined && type !== 'dictionary') return malformed(`"${name}" is no dictionary.`);
  const value = key === undefined ? reserialize(type, combined) : reserializeMember(combined, key as string);
  return value ?? unmet(`"${name}" is malformed, or lacks the member that the signature covers.`);
}

const derivations = {
  '@method': ofRequest((request) => request.method),
  '@authority': ofRequest(authorityOf),
  '@scheme': ofRequest((request) => request.scheme),
  '@target-uri': ofRequest((request) => {
    const authority = authorityOf(request);
    return typeof authority === 'string' ? `${request.scheme}://${authority}${request.target}` : authority;
  }),
  '@request-target': ofRequest((request) => request.target),
  '@path': ofRequest((request) => request.target.split('?', 1)[0] || '/'),
  '@query': ofRequest((request) => queryOf(request.target) ?? '?'),
  '@query-param': ofRequest((request, parameters) => {
    const name = parameters.get('name') as string;
    const found = [...new URLSearchParams(queryOf(request.target)?.slice(1))].filter(
      ([key]) => formEncode(key) === name,
    );
    if (found.length === 1) return formEncode(found[0]![1]);
    return unmet(`The query has ${found.length === 0 ? 'no parameter' : 'more than one parameter'} "${name}".`);
  }),
  '@status': (message: Message): Value =>
    isRequest(message) ? malformed('A request has no "@status".') : String(message.status),
};

function ofRequest(derive: (request: RequestMessage, parameters: ReadonlyMap<string, BareItem>) => Value) {
  return (message: Message, parameters: ReadonlyMap<string, BareItem>): Value => {
    if (!isRequest(message)) return malformed('A response has no components of a request; say ";req".');
    if (!message.target.startsWith('/')) return malformed('The request target is not a path.');
    return derive(message, parameters);
  };
}

const REG_NAME = /^[a-z0-9._~!$&'()*+,;=-]+$/;
const IPV6 = /^\[[0-9a-f:.]+\]$/;

/** Lower case, without the default port of the scheme (RFC 9110 §4.2.3). Zone ids, user info, Unicode and ports that are none are refused. */
function authorityOf({ authority, scheme }: RequestMessage): Value {
  const [, host = '', port] = /^(.*?)(?::(\d{1,5}))?$/.exec(authority.toLowerCase())!;
  if (!REG_NAME.test(host) && !IPV6.test(host)) return malformed('The authority of the request is malformed.');
  if (port !== undefined && Number(port) > 65_535) return malformed('The port of the request is malformed.');
  const isDefault = port === undefined || Number(port) === (scheme === 'https' ? 443 : 80);
  return isDefault ? host : `${host}:${port}`;
}

function queryOf(target: string): string | undefined {
  const mark = target.indexOf('?');
  return mark < 0 ? undefined : target.slice(mark);
}

/** Percent-encoding of RFC 9421 §2.2.8: all but letters, digits and `*-._`. */
function formEncode(text: string): string {
  const rest = (char: string): string => `%${char.charCodeAt(0).toString(16).toUpperCase()}`;
  return encodeURIComponent(text).replace(/[!'()~]/g, rest);
}

function isRequest(message: Message): message is RequestMessage {
  return 'method' in message;
}

function malformed(words: string): Refusal {
  return refuse('signature_malformed', words);
}

function unmet(words: string): Refusal {
  return refuse('signature_invalid', words);
}
