import { LRUCache } from 'lru-cache';
import { instanceDid, readDid } from '../../../directory/dids.ts';
import { fromJwk, type PublicKey } from '../../../identity/algorithms.ts';
import { checkCard, type KeyName } from '../../../identity/card-seal.ts';
import { didWebParts, didWebUrl, isDidWeb, isLoopbackHost, parseDid } from '../../../identity/did.ts';
import type { DidDocument } from '../../../identity/document.ts';
import type { DidResolver } from '../../../identity/resolver.ts';
import type { Clock } from '../../../lib/clock.ts';
import { type Fetch, FetchRefused, type FetchResult } from '../../../lib/fetch-types.ts';
import { readJson } from '../../../lib/json.ts';
import { Refusal } from '../../../lib/refusal.ts';
import { isRecord, SIGNATURE_EXTENSION } from '../protocol.ts';
import { type Card, readCard } from './card.ts';

export interface FinderDeps {
  fetch: Fetch;
  clock: Clock;
  resolver: Pick<DidResolver, 'resolve' | 'key'>;
  loopback: boolean;
}

/** Why no card was found. `absent`: nothing is there; `unusable`: what is there is no use; `away`: worth another try. */
export interface NoCard {
  why: 'absent' | 'unusable' | 'away';
  words: string;
}

const maxCard = 256 * 1024;
const maxKeys = 64 * 1024;
const timeoutMs = 5_000;
const freshMs = 60_000;
const failureMs = 10_000;
const wellKnown = '.well-known/agent-card.json';

interface Kept {
  result: Card | NoCard;
  etag: string | undefined;
  until: number;
}

/** Finds the cards of agents on A2A servers. A card is believed for 60 s, then asked for again with its ETag. */
export class CardFinder {
  readonly #deps: FinderDeps;
  readonly #kept = new LRUCache<string, Kept>({ max: 1_000 });
  readonly #inFlight = new Map<string, Promise<Card | NoCard>>();

  constructor(deps: FinderDeps) {
    this.#deps = deps;
  }

  /** `name`: a did:web, or the URL of a card. Aborting `signal` ends the search as `away`. */
  async find(name: string, signal: AbortSignal): Promise<Card | NoCard> {
    return name.startsWith('did:') ? this.#ofDid(name, signal) : this.#first(urlsAt(name), signal);
  }

  /**
   * A did:web's card stands where its document says, else beside the document, else at the root of its host. A Gatehouse hides the cards of agents
   * that are not public; such an agent is spoken to at its tenant.
   */
  async #ofDid(text: string, signal: AbortSignal): Promise<Card | NoCard> {
    const { resolver, loopback } = this.#deps;
    const did = parseDid(text, { allowIp: true });
    if (did instanceof Refusal || !isDidWeb(did)) return { why: 'absent', words: 'That DID leads to no server.' };
    const document = await resolver.resolve(did);
    const named = document instanceof Refusal ? [] : (document.service?.flatMap(cardsOf) ?? []);
    const { segments, authority } = didWebParts(did);
    const beside = didWebUrl(did, { loopback }).replace(/(\.well-known\/)?did\.json$/, '');
    const agent = segments.at(-1) === 'agent' ? beside.replace(/agent\/$/, '') : null;
    const places = [...new Set([beside, ...(agent ? [agent] : [])])];
    const found = await this.#first(
      [...named, ...places.flatMap((at) => [at + wellKnown, `${at}agent-card.json`])],
      signal,
    );
    if (!('why' in found) || found.why !== 'absent') return found;
    const base = `${loopback && isLoopbackHost(authority.replace(/:\d+$/, '')) ? 'http' : 'https'}://${authority}`;
    const instance = await resolver.resolve(instanceDid(authority));
    const root = await this.#first([`${base}/${wellKnown}`], signal);
    if (instance instanceof Refusal || !isGatehouse(instance)) return root;
    const tenant = tenantOfDid(text);
    return tenant === null ? root : atTenant(base, tenant, 'why' in root ? null : root);
  }

  async #first(urls: readonly string[], signal: AbortSignal): Promise<Card | NoCard> {
    let last: NoCard = { why: 'absent', words: 'There is no agent card.' };
    for (const url of urls) {
      if (signal.aborted) return { why: 'away', words: 'Looking for the agent card took too long.' };
      const found = await this.#at(url, signal);
      if (!('why' in found) || found.why !== 'absent') return found;
      last = found;
    }
    return last;
  }

  async #at(url: string, signal: AbortSignal): Promise<Card | NoCard> {
    const kept = this.#kept.get(url);
    if (kept && this.#deps.clock.now() < kept.until) return kept.result;
    const under = this.#inFlight.get(url) ?? this.#fetch(url, kept, signal).finally(() => this.#inFlight.delete(url));
    this.#inFlight.set(url, under);
    return under;
  }

  async #fetch(url: string, kept: Kept | undefined, signal: AbortSignal): Promise<Card | NoCard> {
    const { fetch, clock } = this.#deps;
    const etag = kept && !('why' in kept.result) ? kept.etag : undefined;
    const keep = (result: Card | NoCard, tag?: string): Card | NoCard => {
      const until = clock.now() + ('why' in result ? failureMs : freshMs);
      // What is away now may be back at the next try.
      if (!('why' in result) || result.why !== 'away') this.#kept.set(url, { result, etag: tag, until });
      return result;
    };
    try {
      const answer = await fetch(url, {
        headers: {
          accept: 'application/json',
          'a2a-version': '1.0',
          ...(etag !== undefined && { 'if-none-match': etag }),
        },
        maxBytes: maxCard,
        timeoutMs,
        signal,
      });
      if (answer.status === 304 && etag !== undefined) return keep(kept!.result, etag);
      return keep(await this.#read(url, answer, signal), answer.headers.get('etag'));
    } catch (error) {
      if (!(error instanceof FetchRefused)) throw error;
      return keep({ why: isFinal(error) ? 'unusable' : 'away', words: error.message });
    }
  }

  /** A card whose signatures do not hold was changed by somebody, and is not used. */
  async #read(url: string, answer: FetchResult, signal: AbortSignal): Promise<Card | NoCard> {
    const fault = faultOf(answer);
    if (fault) return fault;
    const json = readJson(answer.body);
    if (json instanceof Refusal) return useless('it is no JSON');
    const card = readCard(json.value);
    if (typeof card === 'string') return useless(card);
    const check = await checkCard(json.value as Record<string, unknown>, (name) => this.#key(url, name, signal));
    return check === 'invalid' ? useless('its signature does not hold') : card;
  }

  /** Keys are found by DID, or in the key set of the card's own origin: what stands elsewhere says nothing about who serves the card. */
  async #key(url: string, { kid, jku }: KeyName, signal: AbortSignal): Promise<PublicKey | null> {
    if (kid.startsWith('did:')) {
      const found = await this.#deps.resolver.key(kid, 'assertionMethod');
      return found instanceof Refusal ? null : found.publicKey;
    }
    if (jku === undefined || !URL.canParse(jku) || new URL(jku).origin !== new URL(url).origin) return null;
    try {
      const options = {
        headers: { accept: 'application/jwk-set+json, application/json' },
        maxBytes: maxKeys,
        timeoutMs,
        signal,
      };
      const { status, body } = await this.#deps.fetch(jku, options);
      const json = status === 200 ? readJson(body) : null;
      const set = json === null || json instanceof Refusal || !isRecord(json.value) ? {} : json.value;
      const keys: unknown[] = Array.isArray(set.keys) ? set.keys : [];
      const key = fromJwk(keys.find((one) => isRecord(one) && one.kid === kid));
      return typeof key === 'string' ? null : key;
    } catch (error) {
      if (!(error instanceof FetchRefused)) throw error;
      return null;
    }
  }
}

/** What the guard says of a URL, and of an answer that is too large, does not change with another try. */
export function isFinal({ reason }: FetchRefused): boolean {
  return (
    reason === 'scheme' || reason === 'host' || reason === 'address' || reason === 'too_large' || reason === 'redirect'
  );
}

/** Why there is no card in it; undefined: there is one. */
function faultOf({ status }: FetchResult): NoCard | undefined {
  if (status === 404 || status === 410 || status === 405)
    return { why: 'absent', words: 'There is no agent card there.' };
  if (status >= 300 && status < 400)
    return { why: 'unusable', words: 'The agent card is a redirect, and redirects are not followed.' };
  if (status === 200) return undefined;
  return {
    why: status >= 500 || status === 429 ? 'away' : 'unusable',
    words: `The agent card cannot be read: ${status}.`,
  };
}

function useless(words: string): NoCard {
  return { why: 'unusable', words: `The agent card is of no use: ${words}.` };
}

/** A URL that is given for a card may also be the address of a server. */
function urlsAt(url: string): string[] {
  return new URL(url).pathname.endsWith('.json') ? [url] : [`${url.replace(/\/?(\?.*)?$/, '')}/${wellKnown}`, url];
}

/** Services that lead to a card, as people write them. */
function cardsOf({ type, serviceEndpoint }: { type: string | string[]; serviceEndpoint: unknown }): string[] {
  if (![type].flat().some((one) => /a2a|agent-?card/i.test(one))) return [];
  const ends: unknown[] = Array.isArray(serviceEndpoint) ? serviceEndpoint : [serviceEndpoint];
  return ends
    .map((end) => (isRecord(end) ? (end.uri ?? end.url) : end))
    .filter((end): end is string => typeof end === 'string' && /^https?:/.test(end) && URL.canParse(end))
    .slice(0, 4)
    .flatMap(urlsAt);
}

function isGatehouse({ service }: DidDocument): boolean {
  return (service ?? []).some(({ type }) => [type].flat().includes('GatehouseFederation'));
}

/** design §3: the DID of an owner, of her default agent or of an agent, as a tenant. */
function tenantOfDid(text: string): string | null {
  const name = readDid(text);
  if (!name || name.kind === 'instance') return null;
  const org = name.org === null ? '' : `orgs:${name.org}:agents:`;
  return name.kind === 'agent' ? `${org}${name.user}:${name.team}:${name.agent}` : org + name.user;
}

/** An agent of a Gatehouse, spoken to as its front desk is. */
function atTenant(base: string, tenant: string, root: Card | null): Card {
  return {
    interfaces: [{ url: `${base}/a2a/v1/${tenant}`, binding: 'JSONRPC', version: '1.0', tenant: null }],
    streaming: root?.streaming ?? false,
    push: root?.push ?? false,
    declares: [SIGNATURE_EXTENSION],
  };
}
