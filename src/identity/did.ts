import { parse as parseSyntax } from 'did-resolver';
import { Refusal, refuse } from '../lib/refusal.ts';
import { fromMultikey, type PublicKey } from './algorithms.ts';

declare const checked: unique symbol;
type Checked = { readonly [checked]: true };

/** A did:web or did:key that `parseDid` accepted. Two texts that differ are two identities: nothing is normalised. */
export type DidWeb = `did:web:${string}` & Checked;
export type DidKey = `did:key:${string}` & Checked;
export type Did = DidWeb | DidKey;

/** A DID with a fragment, and nothing else: the id of a verification method. */
export interface DidUrl {
  readonly did: Did;
  readonly fragment: string;
}

export interface DidOptions {
  /** Take a loopback IPv4 address (127.0.0.0/8) as the host of a did:web. No other address is ever taken. */
  readonly allowIp?: boolean;
}

const MAX_LENGTH = 512;
const MAX_SEGMENTS = 16;

export function isDidWeb(did: Did): did is DidWeb {
  return did.startsWith('did:web:');
}

/**
 * Reads a DID by DID Core §3.1 and then by its method's own, stricter grammar (did:web §3.1, did:key §2.1): no character that could steer
 * the URL of a document survives. Refusals: `invalid_did`; `unsupported_key` for a did:key of another kind, or a weak one.
 */
export function parseDid(text: string, options: DidOptions = {}): Did | Refusal {
  if (text.length > MAX_LENGTH) return invalid(`It is longer than ${MAX_LENGTH} characters.`);
  const parsed = parseSyntax(text);
  if (!parsed || parsed.did !== text) return invalid('It is not of the form did:method:identifier.');
  switch (parsed.method) {
    case 'web':
      return checkWeb(parsed.id, options) ?? (text as DidWeb);
    case 'key': {
      const key = fromMultikey(parsed.id);
      return typeof key === 'string' ? refuse('unsupported_key', `${text}: ${key}.`) : (text as DidKey);
    }
    default:
      return invalid('Only did:web and did:key are read here.');
  }
}

/** Reads `<DID>#<fragment>`. A DID URL with a path or a query is no id of a key. */
export function parseDidUrl(text: string, options: DidOptions = {}): DidUrl | Refusal {
  const hash = text.indexOf('#');
  if (hash < 0) return invalid('It names no key: a fragment (#key-1) is missing.');
  const fragment = text.slice(hash + 1);
  if (!/^[A-Za-z0-9._~!$&'()*+,;=:@/?-]{1,256}$/.test(fragment)) return invalid('Its fragment is malformed.');
  const did = parseDid(text.slice(0, hash), options);
  return did instanceof Refusal ? did : { did, fragment };
}

/** The parts of a did:web. `authority` is what a URL has: `acme.com`, `localhost:8080`. */
export function didWebParts(did: DidWeb): {
  host: string;
  port: number | undefined;
  authority: string;
  segments: readonly string[];
} {
  const [first = '', ...segments] = did.slice('did:web:'.length).split(':');
  const [host = '', port] = first.split('%3A');
  return {
    host,
    port: port === undefined ? undefined : Number(port),
    authority: port === undefined ? host : `${host}:${port}`,
    segments,
  };
}

/** `didWeb('localhost:8080', 'agents', 'ana')` is `did:web:localhost%3A8080:agents:ana`. Throws on what is no did:web: names were checked before. */
export function didWeb(authority: string, ...segments: readonly string[]): DidWeb {
  const did = parseDid(`did:web:${[authority.replace(':', '%3A'), ...segments].join(':')}`, { allowIp: true });
  if (did instanceof Refusal) throw new TypeError(`no did:web of ${authority}: ${did.words}`);
  return did as DidWeb;
}

/** Where the document of a did:web stands (did:web §3.2). http only when `loopback` is set and the host is loopback. */
export function didWebUrl(did: DidWeb, options: { readonly loopback?: boolean } = {}): string {
  const { host, authority, segments } = didWebParts(did);
  const scheme = options.loopback && isLoopbackHost(host) ? 'http' : 'https';
  const path = segments.length === 0 ? '/.well-known/did.json' : `/${segments.join('/')}/did.json`;
  return `${scheme}://${authority}${path}`;
}

export function isLoopbackHost(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost') || isLoopbackIp(host);
}

/** Whether `did` is `ancestor`, or stands beneath it in the same document tree (`did:web:acme.com` is above `did:web:acme.com:agents:ana`). */
export function isAtOrBelow(did: string, ancestor: string): boolean {
  return did === ancestor || did.startsWith(`${ancestor}:`);
}

/** The did:key of a key, and the key of a did:key. */
export function didKey(multikey: string): DidKey {
  return `did:key:${multikey}` as DidKey;
}

export function keyOfDidKey(did: DidKey): PublicKey {
  const key = fromMultikey(did.slice('did:key:'.length));
  if (typeof key === 'string') throw new TypeError(`${did}: ${key}`);
  return key;
}

const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const DOTTED_QUAD = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/;
// An ASCII character is never percent-encoded: a second spelling would be a second identity, and %2F %3F %23 %40 %2e steer the URL.
const SEGMENT = /^(?:[A-Za-z0-9._-]|%[89A-F][0-9A-F])+$/;

function checkWeb(id: string, options: DidOptions): Refusal | undefined {
  const [authority = '', ...segments] = id.split(':');
  const [host = '', port, ...more] = authority.split('%3A');
  if (more.length > 0) return invalid('Its host has two ports.');
  if (port !== undefined && !isPort(port))
    return invalid('Its port is not a number from 1 to 65535, or is the default 443.');
  if (!isHostName(host) && !(options.allowIp && isLoopbackIp(host))) {
    return invalid('Its host is not a lower-case DNS name.');
  }
  if (segments.length > MAX_SEGMENTS) return invalid(`It has more than ${MAX_SEGMENTS} path segments.`);
  for (const segment of segments) {
    if (!SEGMENT.test(segment) || segment === '.' || segment === '..' || !isUtf8(segment)) {
      return invalid('A path segment is empty, a dot segment, or has an escape that is not canonical.');
    }
  }
  return undefined;
}

// A last label that is a number makes the whole host an IPv4 address to URL parsers (127.1, 0x7f.1, 2130706433).
function isHostName(host: string): boolean {
  const labels = host.split('.');
  return (
    host.length <= 253 && labels.every((label) => LABEL.test(label)) && !/^(?:\d+|0x[0-9a-f]*)$/.test(labels.at(-1)!)
  );
}

function isLoopbackIp(host: string): boolean {
  return DOTTED_QUAD.test(host) && host.startsWith('127.');
}

function isPort(text: string): boolean {
  return /^[1-9]\d{0,4}$/.test(text) && Number(text) <= 65_535 && text !== '443';
}

function isUtf8(segment: string): boolean {
  try {
    decodeURIComponent(segment);
    return true;
  } catch {
    return false;
  }
}

function invalid(why: string): Refusal {
  return refuse('invalid_did', `That is not a DID this gateway can resolve. ${why}`);
}
