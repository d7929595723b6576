import { LRUCache } from 'lru-cache';
import { isName } from '../directory/names.ts';
import type { DirectoryEntry } from '../directory/types.ts';
import type { Clock } from '../lib/clock.ts';
import { FetchRefused } from '../lib/fetch-types.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import { exposes } from './exposure.ts';
import type { PeerAnswer, PeerClient } from './peer-client.ts';
import type { AgentKey, Link, Outcome, RemoteAgent, RemoteDirectory } from './types.ts';

export interface RemoteDeps {
  clock: Clock;
  client: PeerClient;
  linksOf(orgId: string): Promise<readonly Link[]>;
  /** What our org calls itself. */
  ownHandle(orgId: string): Promise<string | null>;
  /** The peer says that there is no such link: its side and ours have drifted apart. */
  drifted(linkId: string): void;
}

interface Listing {
  entries: readonly DirectoryEntry[];
  /** Of the peer's side: an exposure that changes makes the listing old. */
  rev: number;
  until: number;
}

const freshMs = 60_000;
const failureMs = 10_000;
const waitMs = 5_000;

/** See {@link RemoteDirectory}. */
export class Remote implements RemoteDirectory {
  readonly #deps: RemoteDeps;
  readonly #listings = new LRUCache<string, Listing>({ max: 2_000 });
  readonly #inFlight = new Map<string, Promise<Listing>>();

  constructor(deps: RemoteDeps) {
    this.#deps = deps;
  }

  async agents(orgId: string): Promise<readonly RemoteAgent[]> {
    const links = (await this.#deps.linksOf(orgId)).filter(
      (link) => link.state === 'active' && link.peerDomain !== null,
    );
    const lists = await Promise.all(links.map(async (link) => ({ link, entries: await this.#entries(link) })));
    return lists.flatMap(({ link, entries }) => entries.flatMap((entry) => here(link, entry) ?? []));
  }

  async agent(link: Link, path: string): Promise<Outcome<RemoteAgent>> {
    const answer = await this.#ask(link, path, '');
    if (answer instanceof Refusal) return answer;
    const entry = readEntry(answer);
    return (entry && here(link, entry)) ?? refuse('not_found');
  }

  async key(link: Link, path: string, by: string | null = null): Promise<Outcome<AgentKey>> {
    const answer = await this.#ask(link, path, '/key', by === null ? '' : `&by=${encodeURIComponent(by)}`);
    return answer instanceof Refusal ? answer : (readKey(answer) ?? refuse('not_found'));
  }

  async #entries(link: Link): Promise<readonly DirectoryEntry[]> {
    const known = this.#listings.get(link.id);
    if (known && known.rev === link.theirRev && this.#deps.clock.now() < known.until) return known.entries;
    let pending = this.#inFlight.get(link.id);
    if (!pending) {
      pending = this.#load(link, known).finally(() => this.#inFlight.delete(link.id));
      this.#inFlight.set(link.id, pending);
    }
    return (await this.#within(pending))?.entries ?? known?.entries ?? [];
  }

  /** Undefined once one slow peer has held the others long enough; what it answers later still counts for the next who asks. */
  async #within(pending: Promise<Listing>): Promise<Listing | undefined> {
    let cancel = (): void => {};
    const late = new Promise<undefined>((resolve) => {
      cancel = this.#deps.clock.after(waitMs, () => resolve(undefined));
    });
    return Promise.race([pending, late]).finally(cancel);
  }

  async #load(link: Link, known: Listing | undefined): Promise<Listing> {
    const { clock, client } = this.#deps;
    let answer: PeerAnswer | undefined;
    try {
      answer = await client.get(link.peerDomain!, `/federation/v1/directory?${await this.#query(link)}`);
    } catch (error) {
      if (!(error instanceof FetchRefused)) throw error;
    }
    if (answer?.status === 404) this.#deps.drifted(link.id);
    const list = (answer?.json as { agents?: unknown } | undefined)?.agents;
    const read =
      answer?.status === 200 && Array.isArray(list)
        ? (list as unknown[]).flatMap((item) => readEntry(item) ?? [])
        : undefined;
    const entries = read ?? (answer?.status === 404 ? [] : (known?.entries ?? []));
    const listing = { entries, rev: link.theirRev, until: clock.now() + (read ? freshMs : failureMs) };
    this.#listings.set(link.id, listing);
    return listing;
  }

  async #ask(link: Link, path: string, suffix: '' | '/key', more = ''): Promise<unknown | Refusal> {
    const names = path.split('/');
    if (
      link.state !== 'active' ||
      link.peerDomain === null ||
      names.length !== 3 ||
      !names.every(isName) ||
      !exposes(link.theirs, path)
    ) {
      return refuse('not_found');
    }
    try {
      const answer = await this.#deps.client.get(
        link.peerDomain,
        `/federation/v1/agents/${path}${suffix}?${await this.#query(link)}${more}`,
      );
      if (answer.status === 200) return answer.json;
      return answer.status === 404
        ? refuse('not_found')
        : refuse('unreachable', undefined, { detail: `status ${answer.status}` });
    } catch (error) {
      if (error instanceof FetchRefused) return refuse('unreachable', undefined, { detail: error.message });
      throw error;
    }
  }

  async #query(link: Link): Promise<string> {
    const own = await this.#deps.ownHandle(link.orgId);
    return `org=${encodeURIComponent(link.peerOrg ?? link.peerHandle)}&for=${encodeURIComponent(own ?? '')}`;
  }
}

/** As it is written here; undefined when the peer has not exposed it, whatever it lists. */
function here(link: Link, entry: DirectoryEntry): RemoteAgent | undefined {
  const path = entry.address.slice(entry.address.indexOf('/') + 1);
  return exposes(link.theirs, path) ? { ...entry, address: `${link.peerHandle}/${path}`, linkId: link.id } : undefined;
}

function readEntry(value: unknown): DirectoryEntry | undefined {
  if (value === null || typeof value !== 'object') return undefined;
  const e = value as Record<string, unknown>;
  const names = typeof e.address === 'string' ? e.address.split('/') : [];
  if (names.length !== 4 || !names.every(isName)) return undefined;
  return {
    address: names.join('/'),
    did: text(e.did, 600),
    description: text(e.description, 2_000),
    adapter: text(e.adapter, 200),
    online: e.online === true,
    last_seen: Number.isSafeInteger(e.last_seen) ? (e.last_seen as number) : null,
    node: typeof e.node === 'string' ? text(e.node, 200) : null,
    accepts: Array.isArray(e.accepts) ? (e.accepts as unknown[]).slice(0, 200).map((item) => text(item, 300)) : [],
    trust: e.trust === 'full' ? 'full' : 'none',
    signed_only: e.signed_only === true,
    encrypted_only: e.encrypted_only === true,
  };
}

function readKey(value: unknown): AgentKey | undefined {
  if (value === null || typeof value !== 'object') return undefined;
  const { node, signing_key, enc_key, enc_sig, fingerprint } = value as Record<string, unknown>;
  const fields = [node, signing_key, enc_key, enc_sig, fingerprint];
  if (!fields.every((field) => typeof field === 'string' && field.length <= 300)) return undefined;
  return { node, signing_key, enc_key, enc_sig, fingerprint } as AgentKey;
}

function text(value: unknown, length: number): string {
  return typeof value === 'string' ? value.slice(0, length) : '';
}
