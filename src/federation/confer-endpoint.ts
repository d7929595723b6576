import { instanceDid, ownerOfDid } from '../directory/dids.ts';
import { type DidWeb, didWebParts, isAtOrBelow, isDidWeb, isLoopbackHost, parseDid } from '../identity/did.ts';
import type { DidResolver } from '../identity/resolver.ts';
import { type Fetch, FetchRefused } from '../lib/fetch-types.ts';
import { readJson } from '../lib/json.ts';
import { Refusal, refuse } from '../lib/refusal.ts';

export interface ConferEndpointDeps {
  fetch: Fetch;
  resolver: Pick<DidResolver, 'resolve'>;
  loopback: boolean;
}

const timeoutMs = 5_000;
const maxFacts = 256 * 1024;
const maxUrl = 2_000;

/**
 * The `…/a2a/v1` at which a DID takes Confer's messages: the ConferAgent service of its document, its owner's or its instance's (a DID `…:agent` need not
 * have a document), else `endpoints.a2a` of its AgentFacts. Refusals: those of the resolver, with
 * `retryAfter` when a document may be read at the next try; `unreachable` when it names none that may be called.
 */
export async function conferEndpoint(did: string, deps: ConferEndpointDeps): Promise<string | Refusal> {
  const parsed = parseDid(did, { allowIp: true });
  if (parsed instanceof Refusal) return parsed;
  if (!isDidWeb(parsed)) return none();
  let failure: Refusal | undefined;
  for (const holder of above(parsed)) {
    const document = await deps.resolver.resolve(holder);
    if (document instanceof Refusal) {
      // One that may be read at the next try may name the endpoint.
      if (failure?.retryAfter === undefined)
        failure = document.retryAfter === undefined ? (failure ?? document) : document;
      continue;
    }
    const service = (document.service ?? []).find(({ type }) => [type].flat().includes('ConferAgent'));
    if (service) return checked(service.serviceEndpoint, deps.loopback) ?? none();
  }
  const { authority } = didWebParts(parsed);
  const base = `${schemeOf(authority, deps.loopback)}://${authority}`;
  const facts = await read(`${base}/a2a/v1/agent-facts/${encodeURIComponent(did)}`, deps.fetch);
  const named = (facts?.endpoints as { a2a?: unknown } | null | undefined)?.a2a;
  // A host speaks for its own agents alone.
  const isOwn = typeof facts?.did === 'string' && isAtOrBelow(facts.did, instanceDid(authority));
  return (isOwn && checked(named, deps.loopback)) || (failure ?? none());
}

/** Itself, its owner and its instance: agents that are not public have no document, and some instances name the endpoint in their own alone. */
function above(did: DidWeb): string[] {
  const owner = ownerOfDid(did) ?? /^(.+):agent$/.exec(did)?.[1];
  const own = did.endsWith(':agent') && owner !== undefined ? [owner] : owner === undefined ? [did] : [did, owner];
  return [...new Set([...own, instanceDid(didWebParts(did).authority)])];
}

/** confer-wire-facts §3 "Outbound": https, and nothing in it but host and path. Whether the host may be called is for the guard to say. */
function checked(endpoint: unknown, loopback: boolean): string | null {
  if (typeof endpoint !== 'string' || endpoint.length > maxUrl || !URL.canParse(endpoint)) return null;
  const { protocol, hostname, username, password, origin, pathname } = new URL(endpoint);
  if (username !== '' || password !== '' || /[?#\s]/.test(endpoint)) return null;
  if (protocol !== 'https:' && !(protocol === 'http:' && loopback && isLoopbackHost(hostname))) return null;
  return origin + pathname.replace(/\/+$/, '');
}

/** Peers on loopback are called over http when this gateway runs there itself (design §6). */
export function schemeOf(authority: string, loopback: boolean): 'http' | 'https' {
  return loopback && isLoopbackHost(authority.replace(/:\d+$/, '')) ? 'http' : 'https';
}

async function read(url: string, fetch: Fetch): Promise<Record<string, unknown> | undefined> {
  try {
    const answer = await fetch(url, { headers: { accept: 'application/json' }, maxBytes: maxFacts, timeoutMs });
    const json = answer.status === 200 ? readJson(answer.body) : undefined;
    const value = json instanceof Refusal ? undefined : json?.value;
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch (error) {
    if (error instanceof FetchRefused) return undefined;
    throw error;
  }
}

function none(): Refusal {
  return refuse('unreachable', 'That DID names no Confer endpoint that may be called.');
}
