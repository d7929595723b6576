import { instanceDid, ownerDid } from '../directory/dids.ts';
import { authorityOf } from '../directory/names.ts';
import { isAtOrBelow, parseDid } from '../identity/did.ts';
import { type Fetch, FetchRefused } from '../lib/fetch-types.ts';
import { foreignText } from '../lib/foreign-text.ts';
import { readJson } from '../lib/json.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import { type ConferEndpointDeps, conferEndpoint, schemeOf } from './confer-endpoint.ts';

/** Somebody who may become a contact (confer.md "Descubrimiento federado"). Every text of it is the other side's own, bounded. */
export interface Candidate {
  did: string;
  name: string;
  description: string;
  primaryLanguage: string | null;
  style: string | null;
  capabilities: readonly FactsCapability[];
  /** Where it takes Confer's messages; null when it was not asked for (`domain`) or there is none. */
  endpoint: string | null;
}

export interface FactsCapability {
  type: string;
  scope: readonly string[];
  languages: readonly string[];
}

export type LookupMethod = 'domain' | 'did' | 'username';

const timeoutMs = 5_000;
const maxDirectory = 512 * 1024;
const maxFacts = 256 * 1024;
/** confer-wire-facts §9 and §5. */
const maxAgents = 20;
const maxName = 128;
const maxDescription = 4_000;
const maxCapabilities = 64;

/**
 * Finds whom an owner may add as a contact. `domain`: the public agents that a host names; `did`: that DID, whose document must be of that very id and
 * lead somewhere; `username`: `ana@acme.com` or `acme.com/ana`, the owner of that name. Refusals: `invalid_field`, `invalid_did`,
 * `did_resolution_failed`, `unreachable`, `not_found`; for a host that may not be called `unreachable` with "Private addresses not allowed".
 */
export async function lookUpPeers(
  method: LookupMethod,
  value: string,
  deps: ConferEndpointDeps,
): Promise<readonly Candidate[] | Refusal> {
  switch (method) {
    case 'domain':
      return byDomain(value, deps);
    case 'did':
      return byDid(value, deps);
    case 'username':
      return byUser(value, deps);
  }
}

async function byDomain(value: string, deps: ConferEndpointDeps): Promise<readonly Candidate[] | Refusal> {
  const authority = readAuthority(value);
  if (authority instanceof Refusal) return authority;
  const instance = instanceDid(authority);
  const document = await deps.resolver.resolve(instance);
  const json = await read(
    `${schemeOf(authority, deps.loopback)}://${authority}/.well-known/agents.json`,
    maxDirectory,
    deps.fetch,
  );
  if (json instanceof Refusal) return json;
  // The main DID is the first step (confer.md "Búsqueda por dominio"); a host whose document cannot be read has no agents to verify.
  if (document instanceof Refusal) return document;
  const list = (json as { agents?: unknown }).agents;
  const agents = (Array.isArray(list) ? list.slice(0, maxAgents) : []).flatMap(
    (item) => readFacts(item, instance) ?? [],
  );
  return agents;
}

async function byDid(value: string, deps: ConferEndpointDeps): Promise<readonly Candidate[] | Refusal> {
  const did = parseDid(value, { allowIp: true });
  if (did instanceof Refusal) return did;
  const endpoint = await conferEndpoint(did, deps);
  if (endpoint instanceof Refusal) return endpoint;
  // Only what it says about itself; without facts it goes by its DID.
  const json = await read(`${endpoint}/agent-facts/${encodeURIComponent(did)}`, maxFacts, deps.fetch);
  const facts = json instanceof Refusal ? undefined : readFacts(json, did);
  return [{ ...bare(did), ...facts, did, endpoint }];
}

async function byUser(value: string, deps: ConferEndpointDeps): Promise<readonly Candidate[] | Refusal> {
  const [, user, at] = /^@?([a-z0-9._-]{1,100})@(\S+)$/.exec(value) ?? [];
  const [, host, name] = /^([^/\s]+)\/@?([a-z0-9._-]{1,100})$/.exec(value) ?? [];
  const [who, where] = user === undefined ? [name, host] : [user, at];
  if (who === undefined || where === undefined) {
    return refuse('invalid_field', 'Write ana@acme.com or acme.com/ana.', { data: { field: 'value' } });
  }
  const authority = readAuthority(where);
  return authority instanceof Refusal ? authority : byDid(ownerDid(authority, { org: null, user: who }), deps);
}

/** `acme.com`, `localhost:8081`, or the URL of one. */
function readAuthority(value: string): string | Refusal {
  const host = value
    .trim()
    .replace(/^https?:\/\//i, '')
    .replace(/\/$/, '')
    .toLowerCase();
  const authority = authorityOf(host) ?? host;
  const did = parseDid(`did:web:${authority.replace(':', '%3A')}`, { allowIp: true });
  return did instanceof Refusal || /[/?#@\s]/.test(authority)
    ? refuse('invalid_field', 'That is no domain.', { data: { field: 'value' } })
    : authority;
}

async function read(url: string, maxBytes: number, fetch: Fetch): Promise<object | Refusal> {
  try {
    const answer = await fetch(url, { headers: { accept: 'application/json' }, maxBytes, timeoutMs });
    if (answer.status === 404 || answer.status === 410) return refuse('not_found', 'There is nothing there.');
    const json = answer.status === 200 ? readJson(answer.body) : undefined;
    const value = json instanceof Refusal ? undefined : json?.value;
    return typeof value === 'object' && value !== null
      ? value
      : refuse('unreachable', `It answered ${answer.status}, and nothing that can be read.`);
  } catch (error) {
    if (!(error instanceof FetchRefused)) throw error;
    const isPrivate = error.reason === 'address' || error.reason === 'host' || error.reason === 'scheme';
    return refuse('unreachable', isPrivate ? 'Private addresses not allowed' : error.message);
  }
}

/** AgentFacts, or a row of agents.json. Null for anybody outside of `root`: a host speaks for nobody else. */
export function readFacts(json: unknown, root: string): Candidate | null {
  if (typeof json !== 'object' || json === null) return null;
  const facts = json as Record<string, unknown>;
  const { did } = facts;
  if (typeof did !== 'string' || did.length > 600 || parseDid(did, { allowIp: true }) instanceof Refusal) return null;
  if (!isAtOrBelow(did, root)) return null;
  const list = [facts.capabilities, facts.capabilities_json].find((each) => Array.isArray(each)) as
    | unknown[]
    | undefined;
  return {
    ...bare(did),
    name: foreignText(facts.name, maxName) || did,
    description: foreignText(facts.description, maxDescription),
    primaryLanguage: foreignText(facts.primary_language, 35) || null,
    style: foreignText(facts.style, 64) || null,
    capabilities: (list ?? []).slice(0, maxCapabilities).flatMap((item) => readCapability(item) ?? []),
  };
}

function readCapability(item: unknown): FactsCapability | null {
  if (typeof item !== 'object' || item === null) return null;
  const { type, scope, languages } = item as Record<string, unknown>;
  const name = foreignText(type, 128);
  return name === '' ? null : { type: name, scope: texts(scope, 128), languages: texts(languages, 35) };
}

function texts(value: unknown, most: number): string[] {
  return (Array.isArray(value) ? value.slice(0, 64) : [])
    .map((item) => foreignText(item, most))
    .filter((item) => item !== '');
}

function bare(did: string): Candidate {
  return { did, name: did, description: '', primaryLanguage: null, style: null, capabilities: [], endpoint: null };
}
