import type { Signer } from '../directory/keyring.ts';
import { isLoopbackHost } from '../identity/did.ts';
import { signRequest } from '../identity/http-signature/sign.ts';
import type { Clock } from '../lib/clock.ts';
import { type Fetch, FetchRefused, type FetchResult } from '../lib/fetch-types.ts';
import { readJson } from '../lib/json.ts';
import { Refusal } from '../lib/refusal.ts';

export interface PeerClientOptions {
  fetch: Fetch;
  clock: Clock;
  /** The instance's key (design §4: the instance's for federation calls). */
  signer: () => Promise<Signer>;
  /** This gateway runs on loopback, so peers on loopback are called over http (design §6). */
  loopback: boolean;
}

export interface PeerAnswer {
  status: number;
  headers: FetchResult['headers'];
  /** Undefined when the body is no JSON. */
  json: unknown;
}

const maxBytes = 256 * 1024;
const timeoutMs = 5_000;

/** Calls `/federation/v1` of other gateways, signed with the instance's key. */
export class PeerClient {
  readonly #options: PeerClientOptions;

  constructor(options: PeerClientOptions) {
    this.#options = options;
  }

  /** `path` with its query, as it will be sent. Rejects with `FetchRefused`. */
  get(authority: string, path: string): Promise<PeerAnswer> {
    return this.#call('GET', authority, path);
  }

  post(authority: string, path: string, body: object): Promise<PeerAnswer> {
    return this.#call('POST', authority, path, Buffer.from(JSON.stringify(body)));
  }

  async #call(method: 'GET' | 'POST', authority: string, path: string, body?: Buffer): Promise<PeerAnswer> {
    const { fetch, clock, signer, loopback } = this.#options;
    const scheme = loopback && isLoopbackHost(authority.split(':')[0]!) ? 'http' : 'https';
    const url = `${scheme}://${authority}${path}`;
    const { keyId, pair } = await signer();
    const signed = await signRequest({ method, url, ...(body && { body }) }, { keyId, key: pair, now: clock.now() });
    const answer = await fetch(url, {
      method,
      headers: { ...signed, accept: 'application/json', ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body }),
      maxBytes,
      timeoutMs,
    });
    const json = answer.body.length === 0 ? undefined : readJson(answer.body);
    return { status: answer.status, headers: answer.headers, json: json instanceof Refusal ? undefined : json?.value };
  }
}

/** The stable code in an error's body, or ''. */
export function codeOf(json: unknown): string {
  const code = (json as { error?: { code?: unknown } } | undefined)?.error?.code;
  return typeof code === 'string' && /^[a-z_]{1,60}$/.test(code) ? code : '';
}

/** Words for an admin about a call that brought nothing. */
export function faultOf(error: unknown): string {
  if (error instanceof FetchRefused) return error.message;
  throw error;
}
