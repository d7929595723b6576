import { LRUCache } from 'lru-cache';
import type { Clock } from '../lib/clock.ts';
import { type Fetch, FetchRefused, type FetchRefusedReason, type FetchResult } from '../lib/fetch-types.ts';
import { readJson } from '../lib/json.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import { type DidWeb, didWebUrl } from './did.ts';
import { type DidDocument, readDocument } from './document.ts';

/** Longest time that a document is used without asking again: removing a key from it revokes the key within this time. */
const FRESH_MS = 60_000;
const FAILURE_MS = 10_000;
const REFETCH_FLOOR_MS = 10_000;
const MAX_BYTES = 64 * 1024;
const TIMEOUT_MS = 5_000;
const MAX_IN_FLIGHT = 256;
const passing: ReadonlySet<FetchRefusedReason> = new Set(['timeout', 'connect', 'tls', 'protocol']);
const MEDIA_TYPES = new Set(['application/json', 'application/did+json', 'application/did+ld+json']);

export interface WebDocumentsOptions {
  readonly fetch: Fetch;
  readonly clock: Clock;
  /** This gateway runs on loopback, so peers on loopback are fetched over http. */
  readonly loopback?: boolean;
  /** The documents that this very instance serves, so that it need not call itself. Undefined: not ours. */
  readonly own?: ((did: DidWeb) => Promise<unknown>) | undefined;
}

export interface Loaded {
  readonly result: DidDocument | Refusal;
  /** It came over the network just now. */
  readonly fetched: boolean;
}

interface Entry {
  readonly result: DidDocument | Refusal | undefined;
  readonly etag: string | undefined;
  readonly bytes: number;
  readonly since: number;
  readonly until: number;
  /** Before this time nobody can force another fetch. */
  readonly floor: number;
}

/** Documents of did:web DIDs, over the guarded fetch and a bounded cache in this process (design §6). */
export class WebDocuments {
  readonly #options: WebDocumentsOptions;
  readonly #entries = new LRUCache<string, Entry>({
    max: 2_000,
    maxSize: 32 * 1024 * 1024,
    sizeCalculation: (entry) => entry.bytes + 512,
  });
  readonly #inFlight = new Map<string, Promise<DidDocument | Refusal>>();

  constructor(options: WebDocumentsOptions) {
    this.#options = options;
  }

  /** `refetch` asks past a fresh copy, which is granted once per 10 s and DID. Callers that ask at the same time share one fetch. */
  async load(did: DidWeb, refetch = false): Promise<Loaded> {
    const own = await this.#options.own?.(did);
    if (own !== undefined) return { result: readDocument(did, own), fetched: true };

    const now = this.#options.clock.now();
    const entry = this.#entries.get(did);
    if (entry?.result && isFresh(entry, now) && !(refetch && now >= entry.floor)) {
      return { result: entry.result, fetched: false };
    }
    let pending = this.#inFlight.get(did);
    if (!pending) {
      if (this.#inFlight.size >= MAX_IN_FLIGHT)
        return { result: failed(did, 'too many fetches under way', true), fetched: false };
      pending = this.#fetch(did, entry, refetch ? now + REFETCH_FLOOR_MS : (entry?.floor ?? 0)).finally(() =>
        this.#inFlight.delete(did),
      );
      this.#inFlight.set(did, pending);
    }
    return { result: await pending, fetched: true };
  }

  async #fetch(did: DidWeb, entry: Entry | undefined, floor: number): Promise<DidDocument | Refusal> {
    const { fetch, clock, loopback } = this.#options;
    const stale = entry?.result instanceof Refusal ? undefined : entry?.result;
    const etag = stale ? entry?.etag : undefined;
    let response: FetchResult;
    try {
      response = await fetch(didWebUrl(did, { loopback: loopback ?? false }), {
        headers: {
          accept: 'application/did+json, application/did+ld+json, application/json',
          ...(etag !== undefined && { 'if-none-match': etag }),
        },
        maxBytes: MAX_BYTES,
        timeoutMs: TIMEOUT_MS,
      });
    } catch (error) {
      if (!(error instanceof FetchRefused)) throw error;
      return this.#keepFailure(
        did,
        failed(did, `${error.reason}: ${error.message}`, passing.has(error.reason)),
        entry,
        floor,
      );
    }
    const result = response.status === 304 && etag !== undefined ? stale! : readResponse(did, response);
    if (result instanceof Refusal) return this.#keepFailure(did, result, entry, floor);

    const { store, freshMs } = cachingOf(response);
    const since = clock.now();
    const kept: Entry = store
      ? {
          result,
          etag: response.headers.get('etag') ?? etag,
          bytes: response.status === 304 ? entry!.bytes : response.body.length,
          since,
          until: since + freshMs,
          floor,
        }
      : { result: undefined, etag: undefined, bytes: 0, since, until: since, floor };
    this.#entries.set(did, kept);
    return result;
  }

  #keepFailure(did: DidWeb, refusal: Refusal, entry: Entry | undefined, floor: number): Refusal {
    const since = this.#options.clock.now();
    // A stranger's unknown key id forced this fetch: its failure must not take a good document away from honest signers.
    const good = entry?.result && !(entry.result instanceof Refusal) && isFresh(entry, since);
    const failure = { result: refusal, etag: undefined, bytes: 0, since, until: since + FAILURE_MS, floor };
    this.#entries.set(did, good ? { ...entry, floor } : failure);
    return refusal;
  }
}

// `since` guards against a clock that jumped back: what was fetched in the future is not fresh.
function isFresh(entry: Entry, now: number): boolean {
  return entry.since <= now && now < entry.until;
}

function readResponse(did: DidWeb, response: FetchResult): DidDocument | Refusal {
  if (response.status !== 200) {
    return failed(did, `status ${response.status}`, response.status >= 500 || response.status === 429);
  }
  const type = response.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase() ?? '';
  if (!MEDIA_TYPES.has(type)) return failed(did, `content type ${JSON.stringify(type)}`);
  if (response.body.length > MAX_BYTES) return failed(did, 'the document is too large');
  const json = readJson(response.body);
  return json instanceof Refusal ? failed(did, json.words) : readDocument(did, json.value);
}

/** RFC 9111 §5.2.2, as far as it shortens: a peer may ask for less than a minute, never for more. */
function cachingOf(response: FetchResult): { store: boolean; freshMs: number } {
  const control = response.headers.get('cache-control')?.toLowerCase() ?? '';
  const has = (name: string): boolean => new RegExp(`(?:^|,)\\s*${name}\\s*(?:=|,|$)`).test(control);
  if (has('no-store')) return { store: false, freshMs: 0 };
  if (has('no-cache')) return { store: true, freshMs: 0 };
  const maxAge = /(?:^|,)\s*max-age\s*=\s*"?(\d{1,10})"?\s*(?:,|$)/.exec(control)?.[1];
  if (maxAge === undefined) return { store: true, freshMs: FRESH_MS };
  const age = /^\s*(\d{1,10})\s*$/.exec(response.headers.get('age') ?? '')?.[1] ?? '0';
  return { store: true, freshMs: Math.min(FRESH_MS, Math.max(0, Number(maxAge) - Number(age)) * 1000) };
}

/** `away`: it may be there at the next try, and whoever asks is told when that is. */
function failed(did: DidWeb, why: string, away = false): Refusal {
  return refuse('did_resolution_failed', undefined, {
    detail: `${did}: ${why}`,
    ...(away && { retryAfter: FAILURE_MS / 1000 }),
  });
}
