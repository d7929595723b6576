import type { Db } from '../../db/types.ts';
import { attempt } from '../../directory/attempt.ts';
import type { Address, Agent, Directory, NodeIdentity } from '../../directory/types.ts';
import type { Sealer } from '../../identity/sealing.ts';
import type { Clock } from '../../lib/clock.ts';
import type { FetchRefused } from '../../lib/fetch-types.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { type Failure, failure } from '../types.ts';
import { isProvider, type Provider, providers } from './providers.ts';
import * as store from './store.ts';

export interface SettingsDeps {
  db: Db;
  clock: Clock;
  sealer: Sealer;
  directory: Pick<Directory, 'agentAt'>;
  /** What the guarded fetch says of a URL (src/lib/fetch.ts). */
  checkUrl(url: string): Promise<FetchRefused | undefined>;
}

/** What the owner says. What is absent stays as it was; null takes a key away. */
export interface ModelChange {
  provider: string;
  model: string;
  /** '' or absent: the provider's own. */
  baseUrl?: string | undefined;
  key?: string | null | undefined;
  system?: string | undefined;
  maxTokens?: number | undefined;
  streams?: boolean | undefined;
  remembers?: boolean | undefined;
  search?: { key?: string | undefined; url?: string | undefined } | null | undefined;
}

/** As the owner is shown it: of keys the last four characters. */
export interface ModelView {
  agent: string;
  provider: string;
  baseUrl: string;
  model: string;
  keyLast4: string | null;
  system: string;
  maxTokens: number;
  streams: boolean;
  remembers: boolean;
  search: { url: string; keyLast4: string | null } | null;
  lastError: string | null;
  lastErrorAt: number | null;
}

/** What a turn needs. */
export interface Endpoint {
  provider: Provider;
  /** Without a slash at its end. */
  baseUrl: string;
  model: string;
  /** Null: an endpoint on loopback that wants none. */
  key: string | null;
  system: string;
  maxTokens: number;
  streams: boolean;
  remembers: boolean;
  search: { url: string; key: string } | null;
}

const standardMaxTokens = 2_048;
export const standardSearchUrl = 'https://api.tavily.com';

/** Which model answers for an agent. The key is sealed at rest and shown to nobody. */
export class ModelSettings {
  readonly #deps: SettingsDeps;

  constructor(deps: SettingsDeps) {
    this.#deps = deps;
  }

  /**
   * Sets or changes it: from now on the gateway answers the agent's requests. A key goes only where it was given for: with another provider or URL it has to
   * be given again. Refusals: `forbidden` or `address_not_found` for who is not the owner, `invalid_field`, `conflict` with a webhook or `encrypted_only`.
   */
  async set(node: NodeIdentity, address: Address, said: ModelChange): Promise<ModelView | Refusal> {
    const agent = await this.#own(node, address);
    if (agent instanceof Refusal) return agent;
    if (agent.encryptedOnly) {
      return refuse('conflict', `${agent.address} takes only encrypted requests, and a model cannot read them.`);
    }
    const { provider } = said;
    if (!isProvider(provider)) {
      return invalid('provider', `must be one of ${Object.keys(providers).join(', ')}`);
    }
    const baseUrl = (said.baseUrl ?? '').replace(/\/+$/, '');
    const searchUrl = (said.search?.url ?? '').replace(/\/+$/, '');
    const fault = (await this.#urlFault('base_url', baseUrl)) ?? (await this.#urlFault('web_search.url', searchUrl));
    if (fault) return fault;
    const done = await attempt(this.#deps.db, async (tx): Promise<true | Refusal> => {
      const { row: old, hasWebhook } = await store.lockModel(tx, agent.id);
      if (hasWebhook) return refuse('conflict', `${agent.address} has a webhook: remove it first.`);
      const isSame = old !== null && old.provider === provider && old.baseUrl === baseUrl;
      const search = this.#searchOf(agent.id, said.search, searchUrl, old);
      if (search instanceof Refusal) return search;
      const row: store.ModelRow = {
        agentId: agent.id,
        provider,
        baseUrl,
        model: said.model,
        ...this.#keyOf(agent.id, said.key, isSame ? old : null),
        system: said.system ?? old?.system ?? '',
        maxTokens: said.maxTokens ?? old?.maxTokens ?? standardMaxTokens,
        streams: said.streams ?? old?.streams ?? true,
        remembers: said.remembers ?? old?.remembers ?? true,
        ...search,
      };
      await store.putModel(tx, row, this.#deps.clock.now());
      return true;
    });
    return done instanceof Refusal ? done : this.show(node, address);
  }

  async show(node: NodeIdentity, address: Address): Promise<ModelView | Refusal> {
    const agent = await this.#own(node, address);
    if (agent instanceof Refusal) return agent;
    const row = await store.modelOf(this.#deps.db, agent.id);
    if (!row) return refuse('not_found', `No model answers for ${agent.address}.`);
    const { provider, model, keyLast4, system, maxTokens, streams, remembers, lastError, lastErrorAt } = row;
    return {
      agent: agent.address,
      provider,
      baseUrl: row.baseUrl || (isProvider(provider) ? providers[provider].baseUrl : ''),
      model,
      keyLast4,
      system,
      maxTokens,
      streams,
      remembers,
      search: row.searchKey ? { url: row.searchUrl || standardSearchUrl, keyLast4: row.searchLast4 } : null,
      lastError,
      lastErrorAt,
    };
  }

  /** The agent's requests wait in its inbox again. Its keys are deleted. */
  async off(node: NodeIdentity, address: Address): Promise<Refusal | undefined> {
    const agent = await this.#own(node, address);
    if (agent instanceof Refusal) return agent;
    const done = await this.#deps.db.tx((tx) => store.dropModel(tx, agent.id, this.#deps.clock.now()));
    return done ? undefined : refuse('not_found', `No model answers for ${agent.address}.`);
  }

  agents(): Promise<string[]> {
    return store.agentsWithModels(this.#deps.db);
  }

  /** What answers for an agent now, or which of Confer's codes says why nothing does. */
  async endpoint(agentId: string): Promise<Endpoint | { failure: Failure }> {
    const row = await store.modelOf(this.#deps.db, agentId);
    if (!row)
      return failure('no_model_configured', 'the agent has the adapter `model` and no model: gatehouse model set');
    const { provider, model, system, maxTokens, streams, remembers } = row;
    if (!isProvider(provider)) return failure('unknown_provider', `this version knows no provider ${provider}`);
    const baseUrl = row.baseUrl || providers[provider].baseUrl;
    if (!URL.canParse(baseUrl)) return failure('invalid_base_url', 'the base URL is no URL');
    const key = row.key && this.#deps.sealer.open(row.key, keyPurpose(agentId)).toString();
    if (key === null && !isLoopback(baseUrl))
      return failure('no_key_for_provider', 'no key is set: gatehouse model set --key -');
    const searchKey = row.searchKey && this.#deps.sealer.open(row.searchKey, searchPurpose(agentId)).toString();
    const search = searchKey === null ? null : { url: row.searchUrl || standardSearchUrl, key: searchKey };
    return { provider, baseUrl, model, key, system, maxTokens, streams, remembers, search };
  }

  /** What the owner is told; null once it goes well again. */
  async noteError(agentId: string, error: string | null): Promise<void> {
    await store.noteError(this.#deps.db, agentId, error, this.#deps.clock.now());
  }

  #keyOf(
    agentId: string,
    key: string | null | undefined,
    old: store.ModelRow | null,
  ): Pick<store.ModelRow, 'key' | 'keyLast4'> {
    if (key === undefined) return { key: old?.key ?? null, keyLast4: old?.keyLast4 ?? null };
    if (key === null) return { key: null, keyLast4: null };
    return { key: this.#deps.sealer.seal(Buffer.from(key), keyPurpose(agentId)), keyLast4: last4(key) };
  }

  #searchOf(
    agentId: string,
    said: ModelChange['search'],
    url: string,
    old: store.ModelRow | null,
  ): Pick<store.ModelRow, 'searchUrl' | 'searchKey' | 'searchLast4'> | Refusal {
    if (said === null) return { searchUrl: '', searchKey: null, searchLast4: null };
    if (said === undefined) {
      return {
        searchUrl: old?.searchUrl ?? '',
        searchKey: old?.searchKey ?? null,
        searchLast4: old?.searchLast4 ?? null,
      };
    }
    if (said.key !== undefined) {
      const searchKey = this.#deps.sealer.seal(Buffer.from(said.key), searchPurpose(agentId));
      return { searchUrl: url, searchKey, searchLast4: last4(said.key) };
    }
    if (old?.searchKey && old.searchUrl === url) return old;
    return invalid('web_search.key', 'must be given');
  }

  async #own(node: NodeIdentity, address: Address): Promise<Agent | Refusal> {
    const agent = await this.#deps.directory.agentAt(address);
    if (agent?.personId === node.personId) return agent;
    if (agent && node.members.some((member) => member.orgId === agent.orgId)) {
      return refuse('forbidden', `${agent.address} is ${agent.user}'s: only ${agent.user} says what answers for it.`);
    }
    return refuse('address_not_found', 'You have no agent at that address: announce it first.');
  }

  async #urlFault(field: string, url: string): Promise<Refusal | undefined> {
    if (url === '') return undefined;
    if (url.length > 500 || /[^\x21-\x7e]|[?#]/.test(url) || !URL.canParse(url)) {
      return invalid(field, 'must be a URL of at most 500 characters, without query and fragment');
    }
    const refused = await this.#deps.checkUrl(url);
    return refused && invalid(field, `is not taken: ${refused.message.replace(/\.$/, '')}`);
  }
}

/** Whoever sees a quarter of a short key sees too much of it. */
function last4(key: string): string {
  return key.length < 16 ? '' : key.slice(-4);
}

function isLoopback(url: string): boolean {
  return /^(?:(?:.+\.)?localhost|127\.[\d.]+|\[::1\])$/.test(new URL(url).hostname);
}

function keyPurpose(agentId: string): string {
  return `model-key:${agentId}`;
}

function searchPurpose(agentId: string): string {
  return `model-search-key:${agentId}`;
}

function invalid(field: string, why: string): Refusal {
  return refuse('invalid_field', `\`${field}\` ${why}.`, { data: { field } });
}
