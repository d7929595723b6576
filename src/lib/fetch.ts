import { lookup as systemLookup } from 'node:dns/promises';
import { isIPv6, type LookupFunction } from 'node:net';
import { Agent, type Dispatcher } from 'undici';
import { type Clock, systemClock } from './clock.ts';
import { type Fetch, type FetchInit, FetchRefused, type FetchRefusedReason, type FetchResult } from './fetch-types.ts';
import { isIp, isLoopback, isPublic } from './ip.ts';

export interface FetchOptions {
  /** For a gateway whose own URL is loopback: loopback addresses too, and http to them. Public hosts stay allowed. */
  readonly allowLoopback: boolean;
  /** All addresses of a name. For tests; the system's resolver unless given. */
  readonly resolve?: (host: string) => Promise<readonly string[]>;
  readonly clock?: Clock;
  /** A PEM certificate that is trusted instead of the system's. For tests. */
  readonly ca?: string;
}

export type GuardedFetch = Fetch & {
  /** Ends all connections; calls under way reject. */
  close(): Promise<void>;
};

const connectTimeoutMs = 3_000;
const thrownAwayMost = 64 * 1024;

/** Fixed, so that nobody learns from them which addresses or ports answer behind the gateway. The `cause`, for the log, says more. */
const words: Record<FetchRefusedReason, string> = {
  scheme: 'Only https URLs are fetched.',
  host: 'The URL must name a host by its DNS name, without user or password.',
  address: 'The host is not on the public Internet.',
  redirect: 'The other side answered with a redirect, and redirects are not followed.',
  timeout: 'The other side did not answer in time.',
  too_large: 'The answer is larger than what is taken.',
  connect: 'No connection could be made, or it broke off.',
  tls: 'The TLS certificate of the other side is not valid for its name.',
  protocol: 'What was to be sent, or what came back, is not proper HTTP.',
};

/**
 * The only way out of the process (libraries §3). A name's addresses are looked up once per connection, every one of them must be allowed,
 * and the socket connects to those very addresses: there is no second look-up that could say something else.
 */
export function createFetch(options: FetchOptions): GuardedFetch {
  const { allowLoopback, resolve = systemResolve, clock = systemClock } = options;

  const agent = (refusal: (address: string) => FetchRefusedReason | undefined): Agent =>
    new Agent({
      connect: {
        lookup: guardedLookup(resolve, refusal),
        timeout: connectTimeoutMs,
        autoSelectFamily: true,
        autoSelectFamilyAttemptTimeout: 1_000,
        ...(options.ca !== undefined && { ca: options.ca }),
      },
      connections: 16,
      maxOrigins: 1_024,
      pipelining: 1,
      keepAliveTimeout: 10_000,
      keepAliveMaxTimeout: 30_000,
      // The clock of the whole call rules; see `call`.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  const secure = agent((ip) => (isPublic(ip) || (allowLoopback && isLoopback(ip)) ? undefined : 'address'));
  const plain = agent((ip) => (allowLoopback && isLoopback(ip) ? undefined : 'scheme'));

  const fetch: Fetch = async (url, init) => {
    const { origin, path } = destination(url, allowLoopback);
    checkFields(init.headers ?? {});
    return await call(origin.startsWith('https:') ? secure : plain, origin, path, init, clock);
  };
  return Object.assign(fetch, {
    close: async () => {
      await Promise.all([secure.destroy(), plain.destroy()]);
    },
  });
}

/**
 * What `createFetch` would say of a URL before anything leaves: undefined when it may go. Asks the name servers; a name that cannot be looked
 * up now is not refused for it. It may change, so the fetch itself looks again.
 */
export function createUrlCheck(
  options: Pick<FetchOptions, 'allowLoopback' | 'resolve'> & { clock?: Clock; timeoutMs?: number },
): (url: string) => Promise<FetchRefused | undefined> {
  const { allowLoopback, resolve = systemResolve, clock = systemClock, timeoutMs = 2_000 } = options;
  return async (url) => {
    try {
      const { origin } = destination(url, allowLoopback);
      const { hostname, protocol } = new URL(origin);
      if (isIp(hostname.replace(/^\[|\]$/g, '')) || /^(?:.+\.)?localhost$/.test(hostname)) {
        return allowLoopback ? undefined : refused('address');
      }
      if (protocol === 'http:') return refused('scheme');
      const addresses = await within(resolve(hostname), timeoutMs, clock);
      const good = addresses.every((ip) => isPublic(ip) || (allowLoopback && isLoopback(ip)));
      return good ? undefined : refused('address');
    } catch (error) {
      if (error instanceof FetchRefused) return error;
      throw error;
    }
  };
}

/** Nothing when it fails or takes longer. */
async function within(addresses: Promise<readonly string[]>, ms: number, clock: Clock): Promise<readonly string[]> {
  let cancel = (): void => {};
  const late = new Promise<readonly string[]>((done) => {
    cancel = clock.after(ms, () => done([]));
  });
  return Promise.race([addresses.catch(() => []), late]).finally(cancel);
}

/** The origin to connect to, and the path with its query exactly as written: signatures cover them. */
function destination(text: string, allowLoopback: boolean): { origin: string; path: string } {
  const [, authority, written] = /^https?:\/\/([^/?#]*)([^#]*)/i.exec(text) ?? [];
  if (authority === undefined) throw refused(/^[a-z][a-z0-9+.-]*:/i.test(text) ? 'scheme' : 'host');
  if (authority.includes('@') || !/^[\x21-\x5b\x5d-\x7e]*$/.test(text) || !URL.canParse(text)) throw refused('host');
  const { protocol, hostname, port } = new URL(text);
  if (protocol === 'http:' && !allowLoopback) throw refused('scheme');

  const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname.replace(/\.$/, '');
  const allowed = isIp(host) ? allowLoopback && isLoopback(host) : isDnsName(host);
  if (!allowed) throw refused('host');
  const origin = `${protocol}//${isIPv6(host) ? `[${host}]` : host}${port && `:${port}`}`;
  return { origin, path: written?.startsWith('/') ? written : `/${written}` };
}

function isDnsName(host: string): boolean {
  return (
    host.length <= 253 &&
    /^(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(host)
  );
}

/** Framing and the connection are ours to say; a value must not be able to start a line of its own (WEB-04). */
const reserved = /^(?:connection|content-length|transfer-encoding|keep-alive|upgrade|expect|te|trailer|proxy-.*)$/i;

function checkFields(headers: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(headers)) {
    const good =
      /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) && !reserved.test(name) && /^[\t\x20-\x7e\x80-\xff]*$/.test(value);
    if (!good) throw refused('protocol');
  }
}

async function call(agent: Agent, origin: string, path: string, init: FetchInit, clock: Clock): Promise<FetchResult> {
  const ended = new AbortController();
  const giveUp = (): void => ended.abort();
  const cancel = clock.after(init.timeoutMs, giveUp);
  init.signal?.addEventListener('abort', giveUp, { once: true });
  if (init.signal?.aborted) giveUp();
  try {
    const response = await agent.request({
      origin,
      path,
      method: init.method ?? 'GET',
      // What arrives is then no larger than it says it is.
      headers: { 'accept-encoding': 'identity', ...init.headers },
      body: init.body ?? null,
      signal: ended.signal,
    });
    const answer = { status: response.statusCode, headers: { get: (name: string) => fieldOf(response, name) } };
    if (init.withoutBody) return { ...answer, body: await thrownAway(response) };
    const { onData } = init;
    const take = onData && ((chunk: Buffer): void => handOver(() => onData(chunk, answer)));
    return { ...answer, body: await readCapped(response, init.maxBytes, take) };
  } catch (error) {
    if (error instanceof TakerFault) throw error.cause;
    throw ended.signal.aborted ? refused('timeout', error) : asRefused(error);
  } finally {
    cancel();
    init.signal?.removeEventListener('abort', giveUp);
  }
}

/** Stays in this file: what the taker of an answer threw. */
class TakerFault extends Error {}

function handOver(take: () => void): void {
  try {
    take();
  } catch (cause) {
    throw new TakerFault('the taker threw', { cause });
  }
}

async function readCapped(
  { headers, body }: Dispatcher.ResponseData,
  maxBytes: number,
  take?: (chunk: Buffer) => void,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = Number(headers['content-length'] ?? 0);
  // Leaving the loop destroys the body and with it the connection.
  if (size <= maxBytes) {
    size = 0;
    for await (const chunk of body as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > maxBytes) break;
      if (take) take(chunk);
      else chunks.push(chunk);
    }
  }
  if (size <= maxBytes) return Buffer.concat(chunks);
  body.on('error', () => {}).destroy();
  throw refused('too_large');
}

/** A short one is read to its end, so that the connection can be used again. */
async function thrownAway({ body }: Dispatcher.ResponseData): Promise<Buffer> {
  await body.dump({ limit: thrownAwayMost }).catch(() => undefined);
  return Buffer.alloc(0);
}

function fieldOf({ headers }: Dispatcher.ResponseData, name: string): string | undefined {
  const value = headers[name.toLowerCase()];
  return Array.isArray(value) ? value.join(', ') : value;
}

async function systemResolve(host: string): Promise<string[]> {
  const found = await systemLookup(host, { all: true });
  return found.map(({ address }) => address);
}

function guardedLookup(
  resolve: (host: string) => Promise<readonly string[]>,
  refusal: (address: string) => FetchRefusedReason | undefined,
): LookupFunction {
  const checked = async (host: string): Promise<Array<{ address: string; family: number }>> => {
    // RFC 6761 §6.3: never asked of a name server, which could answer anything.
    const addresses = /^(?:.+\.)?localhost$/.test(host) ? ['127.0.0.1', '::1'] : await resolve(host);
    for (const address of addresses) {
      const reason = refusal(address);
      if (reason) throw refused(reason, new Error(`${host} has the address ${address}`));
    }
    if (addresses.length === 0) throw refused('connect', new Error(`${host} has no address`));
    return addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }));
  };
  return (host, { all }, callback) => {
    checked(host).then(
      (found) => (all ? callback(null, found) : callback(null, found[0]!.address, found[0]!.family)),
      (error) => callback(error, []),
    );
  };
}

function refused(reason: FetchRefusedReason, cause?: unknown): FetchRefused {
  return new FetchRefused(reason, words[reason], { cause });
}

/** First match wins; what is left is `connect`: refused, reset, unreachable, no such name. */
const reasons: ReadonlyArray<readonly [FetchRefusedReason, RegExp]> = [
  ['timeout', /TIMEOUT|^ETIMEDOUT$/],
  ['tls', /^(?:ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH|INVALID_CA|EPROTO$)/],
  ['protocol', /^(?:HPE_|HTTPParserError$|UND_ERR_(?:HEADERS_OVERFLOW|INVALID_ARG|REQ_|RES_|RESPONSE|NOT_SUPPORTED))/],
];

function asRefused(error: unknown): FetchRefused {
  if (error instanceof FetchRefused) return error;
  const { code, name } = error as NodeJS.ErrnoException;
  return refused(reasons.find(([, pattern]) => pattern.test(code ?? name))?.[0] ?? 'connect', error);
}
