import type { IncomingMessage } from 'node:http';
import { isIPv6 } from 'node:net';
import type { HeaderFields, HttpRequest } from './http.ts';
import { type Networks, plainIp } from './ip.ts';
import { type Refusal, refuse } from './refusal.ts';

/** All of a request that is known before its route and its body are. */
export type RequestHead = Omit<HttpRequest, 'params' | 'body' | 'gone'>;

export interface HeadOptions {
  /** The scheme of the public URL: how a request came unless a trusted proxy says otherwise. */
  readonly scheme: 'http' | 'https';
  /** Proxies whose X-Forwarded-* counts. */
  readonly trusted: Networks;
}

const maxFields = 128;

/**
 * Reads what every signature and every rule about addresses later stands on, from the raw lines and not from what node made of them.
 * Refused as `malformed_request` is whatever two readers could read differently (SIG-04); a coded body is `unsupported_media_type` (SIG-06).
 */
export function readHead(message: IncomingMessage, options: HeadOptions): RequestHead | Refusal {
  const target = message.url ?? '';
  const fault = targetFault(target);
  if (fault) return refuse('malformed_request', fault);

  const headers = new RawFields(message.rawHeaders);
  const bad = fieldsRefusal(headers);
  if (bad) return bad;

  const remote = message.socket.remoteAddress ?? '';
  const peer = remote.startsWith('::ffff:') ? remote.slice(7) : remote;
  const proxied = options.trusted(peer);
  const scheme = proxied ? (lastOf(headers, 'x-forwarded-proto')?.toLowerCase() ?? options.scheme) : options.scheme;
  if (scheme !== 'http' && scheme !== 'https') return refuse('malformed_request', 'X-Forwarded-Proto is malformed.');

  const own = readAuthority(headers.get('host'), scheme);
  if (own === undefined) return refuse('malformed_request', 'The Host header is missing or malformed.');
  const forwarded = proxied ? lastOf(headers, 'x-forwarded-host') : undefined;
  const authority = forwarded === undefined ? own : readAuthority(forwarded, scheme);
  if (authority === undefined) return refuse('malformed_request', 'X-Forwarded-Host is malformed.');

  const query = target.indexOf('?');
  return {
    method: message.method ?? 'GET',
    target,
    path: query < 0 ? target : target.slice(0, query),
    search: query < 0 ? '' : target.slice(query),
    headers,
    authority,
    scheme,
    ip: proxied ? forwardedIp(headers, peer, options.trusted) : peer,
  };
}

class RawFields implements HeaderFields {
  readonly raw: ReadonlyArray<readonly [string, string]>;
  readonly names: readonly string[];

  constructor(lines: readonly string[]) {
    const raw: Array<readonly [string, string]> = [];
    const names: string[] = [];
    for (let i = 0; i + 1 < lines.length; i += 2) {
      raw.push([lines[i]!, lines[i + 1]!]);
      names.push(lines[i]!.toLowerCase());
    }
    this.raw = raw;
    this.names = names;
  }

  all(name: string): readonly string[] {
    const wanted = name.toLowerCase();
    const values: string[] = [];
    for (let i = 0; i < this.names.length; i++) {
      if (this.names[i] === wanted) values.push(this.raw[i]![1]);
    }
    return values;
  }

  get(name: string): string | undefined {
    const values = this.all(name);
    return values.length === 0 ? undefined : values.join(', ');
  }
}

/** Two of these and two readers may each take another one. */
const once = new Set(['host', 'content-length', 'content-type', 'date', 'authorization']);

function fieldsRefusal(headers: RawFields): Refusal | undefined {
  if (headers.names.length > maxFields) {
    return refuse('malformed_request', `The request has more than ${maxFields} header fields.`, { status: 431 });
  }
  const seen = new Set<string>();
  for (const name of headers.names) {
    if (!once.has(name)) continue;
    if (seen.has(name)) return refuse('malformed_request', `The ${name} header is there more than once.`);
    seen.add(name);
  }
  // A transfer coding other than chunked is a coded body too (RFC 9112 §7).
  if (codedBy(headers, 'content-encoding', 'identity') || codedBy(headers, 'transfer-encoding', 'chunked')) {
    return refuse('unsupported_media_type');
  }
  return undefined;
}

function codedBy(headers: RawFields, name: string, plain: string): boolean {
  const value = headers.get(name);
  return value !== undefined && value.trim().toLowerCase() !== plain;
}

/** Words for what is wrong with a request target, or undefined. Origin form alone (RFC 9112 §3.2.1), printable ASCII, whole escapes. */
function targetFault(target: string): string | undefined {
  if (!target.startsWith('/')) return 'The request target must be a path (origin form).';
  if (!/^[\x21-\x7e]*$/.test(target) || /[#\\]/.test(target))
    return 'The request target holds a character that must be escaped.';
  const path = target.split('?', 1)[0]!;
  if (target.includes('%')) {
    if (/%(?![0-9a-fA-F]{2})/.test(target)) return 'The request target holds a bad percent escape.';
    if (target.includes('%00')) return 'The request target holds a NUL.';
    try {
      decodeURIComponent(path);
    } catch {
      return 'The escapes of the path are not UTF-8.';
    }
  }
  if (/\/(?:\.|%2e){1,2}(?:\/|$)/i.test(path)) return 'The path holds a dot segment.';
  return undefined;
}

const hostName = /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?$/;
const authorityForm = /^(\[[^\]]*\]|[^:[\]]+)(?::([1-9]\d{0,4}))?$/;

/** Lower-cased, the scheme's default port dropped; undefined when it is not `host` or `host:port` (RFC 3986 §3.2.2 without zone ids). */
function readAuthority(text: string | undefined, scheme: 'http' | 'https'): string | undefined {
  const [, host, digits] = authorityForm.exec((text ?? '').toLowerCase()) ?? [];
  if (host === undefined || host.length > 255) return undefined;
  const good = host.startsWith('[') ? !host.includes('%') && isIPv6(host.slice(1, -1)) : hostName.test(host);
  const port = digits === undefined ? undefined : Number(digits);
  if (!good || (port !== undefined && port > 65_535)) return undefined;
  return port === undefined || port === (scheme === 'https' ? 443 : 80) ? host : `${host}:${port}`;
}

// A proxy adds to the right; what stands further left is what its caller said.
function lastOf(headers: HeaderFields, name: string): string | undefined {
  return headers.get(name)?.split(',').at(-1)?.trim();
}

/** From the right, the first address that is no trusted proxy; if all are trusted, the furthest (SIG-03). */
function forwardedIp(headers: HeaderFields, peer: string, trusted: Networks): string {
  let ip = peer;
  for (const hop of headers.get('x-forwarded-for')?.split(',').reverse() ?? []) {
    const next = plainIp(withoutPort(hop.trim()));
    // Past something unreadable nothing can be believed.
    if (next === undefined) return ip;
    ip = next;
    if (!trusted(ip)) return ip;
  }
  return ip;
}

/** Some proxies write `203.0.113.7:4711` and `[2001:db8::1]:4711`. */
function withoutPort(hop: string): string {
  return /^\[([^\]]+)\](?::\d+)?$/.exec(hop)?.[1] ?? /^([^:]+):\d+$/.exec(hop)?.[1] ?? hop;
}
