import { LRUCache } from 'lru-cache';
import { instanceDid } from '../directory/dids.ts';
import { isAtOrBelow, isLoopbackHost, parseDid } from '../identity/did.ts';
import type { DidResolver } from '../identity/resolver.ts';
import type { Clock } from '../lib/clock.ts';
import { type Fetch, FetchRefused } from '../lib/fetch-types.ts';
import { readJson } from '../lib/json.ts';
import { Refusal, refuse } from '../lib/refusal.ts';

/** What an authority says about itself to strangers (design §6 "Discovery"). */
export interface Discovered {
  authority: string;
  /** The instance's DID; its document was read and is of that very id. */
  did: string;
  /** Of `/.well-known/agents.json`: DIDs beneath the instance's alone. Empty when it has none. */
  agents: ReadonlyArray<{ did: string; name: string; description: string; url: string | null }>;
  /** Of agent cards that answered or that `agents.json` names, on that authority alone. */
  cards: readonly string[];
}

export interface DiscoveryDeps {
  clock: Clock;
  fetch: Fetch;
  resolver: Pick<DidResolver, 'resolve'>;
  loopback: boolean;
}

const freshMs = 60_000;
const failureMs = 10_000;
const timeoutMs = 5_000;
const maxBytes = 256 * 1024;
const maxAgents = 1_000;

/** Looks other gateways up by their authority. Answers are kept 60 s, failures 10 s; who asks at the same time shares one look-up. */
export class Discovery {
  readonly #deps: DiscoveryDeps;
  readonly #known = new LRUCache<string, { result: Promise<Discovered | Refusal>; until: number }>({ max: 500 });

  constructor(deps: DiscoveryDeps) {
    this.#deps = deps;
  }

  /** Refusals: `invalid_did` (no authority that can be a did:web), `did_resolution_failed`. */
  async look(authority: string): Promise<Discovered | Refusal> {
    const { clock } = this.#deps;
    const known = this.#known.get(authority);
    if (known && clock.now() < known.until) return known.result;
    const entry = { result: this.#look(authority), until: clock.now() + freshMs };
    this.#known.set(authority, entry);
    try {
      const result = await entry.result;
      if (result instanceof Refusal) entry.until = clock.now() + failureMs;
      return result;
    } catch (error) {
      this.#known.delete(authority);
      throw error;
    }
  }

  async #look(authority: string): Promise<Discovered | Refusal> {
    const { resolver, loopback } = this.#deps;
    if (parseDid(`did:web:${authority.replace(':', '%3A')}`, { allowIp: true }) instanceof Refusal)
      return refuse('invalid_did');
    const did = instanceDid(authority);
    const document = await resolver.resolve(did);
    if (document instanceof Refusal) return document;
    const scheme = loopback && isLoopbackHost(authority.split(':')[0]!) ? 'http' : 'https';
    const base = `${scheme}://${authority}`;
    const own = `${base}/.well-known/agent-card.json`;
    const [listed, card] = await Promise.all([this.#read(`${base}/.well-known/agents.json`), this.#read(own)]);
    const agents = readAgents(listed, did, base);
    const cards = [...(card === undefined ? [] : [own]), ...agents.flatMap(({ url }) => url ?? [])];
    return { authority, did, agents, cards: [...new Set(cards)] };
  }

  /** Undefined for whatever is not there, too large, a redirect (WEB-02), or no JSON object. */
  async #read(url: string): Promise<Record<string, unknown> | undefined> {
    try {
      const answer = await this.#deps.fetch(url, { headers: { accept: 'application/json' }, maxBytes, timeoutMs });
      const json = answer.status === 200 ? readJson(answer.body) : undefined;
      const value = json instanceof Refusal ? undefined : json?.value;
      return value !== null && typeof value === 'object' ? (value as Record<string, unknown>) : undefined;
    } catch (error) {
      if (error instanceof FetchRefused) return undefined;
      throw error;
    }
  }
}

function readAgents(json: Record<string, unknown> | undefined, instance: string, base: string): Discovered['agents'] {
  const list = Array.isArray(json?.agents) ? (json.agents as unknown[]).slice(0, maxAgents) : [];
  return list.flatMap((item) => {
    if (item === null || typeof item !== 'object') return [];
    const { did, name, description, card_url, card } = item as Record<string, unknown>;
    // An authority speaks for nobody else's agents.
    if (typeof did !== 'string' || did.length > 600 || did === instance || !isAtOrBelow(did, instance)) return [];
    const url = [card_url, card].find(
      (link): link is string => typeof link === 'string' && link.startsWith(`${base}/`) && link.length <= 1_000,
    );
    return { did, name: text(name, 200), description: text(description, 2_000), url: url ?? null };
  });
}

function text(value: unknown, length: number): string {
  return typeof value === 'string' ? value.slice(0, length) : '';
}
