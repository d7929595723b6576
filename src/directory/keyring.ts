import { LRUCache } from 'lru-cache';
import type { Db, Queryable } from '../db/types.ts';
import { didWebParts, isDidWeb, parseDid } from '../identity/did.ts';
import { generateSeed, type KeyPair, keyPair } from '../identity/keys.ts';
import type { Sealer } from '../identity/sealing.ts';
import type { Clock } from '../lib/clock.ts';
import { newId } from '../lib/ids.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import { attempt } from './attempt.ts';
import { agentDid, instanceDid, ownerDid } from './dids.ts';
import * as store from './keys/store.ts';
import type { Agent, Member } from './types.ts';

/** Who has keys here, under which DID. */
export interface Holder {
  /** As the table has it: 'instance', 'owner:<member id>', 'agent:<agent id>'. */
  readonly id: string;
  readonly did: string;
}

export interface Signer {
  readonly did: string;
  /** The verification method: `<did>#key-1`. */
  readonly keyId: string;
  readonly pair: KeyPair;
}

export interface PublishedKey {
  /** The verification method's id, as it was first published. */
  id: string;
  publicKeyMultibase: string;
  /** pending: listed, not signing yet. retired: listed for those who verify what it signed. */
  state: 'pending' | 'active' | 'retired';
  /** Milliseconds: since when it signs. */
  activeFrom: number;
}

export interface KeyringDeps {
  db: Db;
  clock: Clock;
  sealer: Sealer;
  /** Of GATEHOUSE_URL. */
  authority: string;
}

/** Peers keep a DID document that long (design §3), so a new key signs only after it. */
const PEER_CACHE_MS = 60_000;
const RETIRED_LISTED_MS = 30 * 86_400_000;

/** The authority under which this instance published its key last, or null before the first start. */
export async function storedAuthority(db: Queryable): Promise<string | null> {
  const did = parseDid((await store.instanceMethod(db))?.replace(/#.*$/, '') ?? '', { allowIp: true });
  return did instanceof Refusal || !isDidWeb(did) ? null : didWebParts(did).authority;
}

/** The key pairs that this instance keeps: one each for itself, its owners and its agents. */
export class Keyring {
  readonly #deps: KeyringDeps;
  readonly #active = new LRUCache<string, { signer: Promise<Signer>; until: number }>({
    maxSize: 10_000,
    sizeCalculation: () => 1,
  });

  constructor(deps: KeyringDeps) {
    this.#deps = deps;
  }

  instance(): Holder {
    return { id: 'instance', did: instanceDid(this.#deps.authority) };
  }

  owner(member: Pick<Member, 'id' | 'org' | 'orgIsPrimary' | 'handle'>): Holder {
    const org = member.orgIsPrimary ? null : member.org;
    return { id: `owner:${member.id}`, did: ownerDid(this.#deps.authority, { org, user: member.handle }) };
  }

  /** The owner of an agent: the key that signs what the agent sends. */
  ownerOf(agent: Pick<Agent, 'memberId' | 'org' | 'orgIsPrimary' | 'user'>): Holder {
    return this.owner({ id: agent.memberId, org: agent.org, orgIsPrimary: agent.orgIsPrimary, handle: agent.user });
  }

  agent(agent: Pick<Agent, 'id' | 'org' | 'orgIsPrimary' | 'user' | 'team' | 'handle'>): Holder {
    const { user, team, handle } = agent;
    const org = agent.orgIsPrimary ? null : agent.org;
    return { id: `agent:${agent.id}`, did: agentDid(this.#deps.authority, { org, user, team, agent: handle }) };
  }

  /** Gives the holder its first key, unless it has one. In the transaction that creates the holder. */
  async create(tx: Queryable, holder: Holder, seed: Uint8Array = generateSeed()): Promise<void> {
    const now = this.#deps.clock.now();
    await this.#insert(tx, holder, { seed, methodId: `${holder.did}#key-1`, state: 'active', now, activeFrom: now });
  }

  /** The key that signs for the holder now; made on first need. Kept in memory for at most the cache time of peers. */
  signer(holder: Holder): Promise<Signer> {
    const now = this.#deps.clock.now();
    const known = this.#active.get(holder.id);
    if (known && known.until > now) return known.signer;
    const entry = { signer: this.#load(holder).then((loaded) => loaded.signer), until: now + PEER_CACHE_MS };
    this.#active.set(holder.id, entry);
    entry.signer.catch(() => this.#active.delete(holder.id));
    return entry.signer;
  }

  /** Every key that the holder's DID document lists, oldest first. */
  async published(holder: Holder): Promise<PublishedKey[]> {
    const { rows } = await this.#load(holder);
    return rows.map(({ methodId: id, publicKeyMultibase, state, activeFrom }) => ({
      id,
      publicKeyMultibase,
      state,
      activeFrom,
    }));
  }

  /** The holder's did:key, by its active key. */
  async didKey(holder: Holder): Promise<string> {
    return (await this.signer(holder)).pair.did;
  }

  /** The holder's secret, for the 24 words of `gatehouse identity phrase`. Goes nowhere else. */
  async seed(holder: Holder): Promise<Buffer> {
    const { rows } = await this.#load(holder);
    return this.#open(holder, rows.find((row) => row.state === 'active')!);
  }

  /**
   * Lists a new key now; it signs once peers have read it (60 s), and the old one stays listed for 30 days after that. `conflict` while
   * an earlier rotation is under way.
   */
  async rotate(holder: Holder): Promise<PublishedKey | Refusal> {
    await this.#load(holder);
    const now = this.#deps.clock.now();
    const key = await attempt(this.#deps.db, async (tx): Promise<PublishedKey | Refusal> => {
      const rows = await store.lockKeys(tx, holder.id);
      if (rows.some((row) => row.state === 'pending')) return refuse('conflict', 'A rotation is under way already.');
      const numbers = rows.map((row) => Number(row.methodId.slice(row.methodId.lastIndexOf('-') + 1)));
      const id = `${holder.did}#key-${Math.max(...numbers) + 1}`;
      const row = {
        seed: generateSeed(),
        methodId: id,
        state: 'pending' as const,
        now,
        activeFrom: now + PEER_CACHE_MS,
      };
      const publicKeyMultibase = await this.#insert(tx, holder, row);
      return { id, publicKeyMultibase, state: 'pending', activeFrom: row.activeFrom };
    });
    this.#active.delete(holder.id);
    return key;
  }

  /** Takes a key out of the document at once: peers refuse it when their copy of the document has aged. The active key cannot be. */
  async revoke(holder: Holder, methodId: string): Promise<Refusal | undefined> {
    const done = await attempt(this.#deps.db, async (tx): Promise<true | Refusal> => {
      const row = (await store.lockKeys(tx, holder.id)).find((key) => key.methodId === methodId);
      if (!row) return refuse('not_found', 'The holder has no such key.');
      if (row.state === 'active') return refuse('conflict', 'That key signs now: rotate first, then revoke it.');
      await store.withdraw(tx, row.id, this.#deps.clock.now());
      return true;
    });
    this.#active.delete(holder.id);
    return done === true ? undefined : done;
  }

  async #load(holder: Holder): Promise<{ rows: store.KeyRow[]; signer: Signer }> {
    const { db, clock } = this.#deps;
    const now = clock.now();
    let rows = await store.listedKeys(db, holder.id, now);
    if (!rows.some((row) => row.state === 'active')) {
      await this.create(db, holder);
      rows = await store.listedKeys(db, holder.id, now);
    }
    if (rows.some((row) => !row.methodId.startsWith(`${holder.did}#`))) {
      await store.renameMethods(db, holder.id, holder.did);
      rows = await store.listedKeys(db, holder.id, now);
    }
    const pending = rows.find((row) => row.state === 'pending');
    if (pending && pending.activeFrom <= now) {
      await this.#promote(holder, now);
      rows = await store.listedKeys(db, holder.id, now);
    } else if (pending) {
      const cached = this.#active.get(holder.id);
      if (cached) cached.until = Math.min(cached.until, pending.activeFrom);
    }
    const active = rows.find((row) => row.state === 'active');
    if (!active) throw new Error(`no active key of ${holder.id}`);
    const pair = keyPair(this.#open(holder, active));
    if (pair.publicKeyMultibase !== active.publicKeyMultibase) {
      throw new Error(`the sealed seed of ${active.methodId} is not that key's`);
    }
    return { rows, signer: { did: holder.did, keyId: active.methodId, pair } };
  }

  #promote(holder: Holder, now: number): Promise<void> {
    return this.#deps.db.tx(async (tx) => {
      const rows = await store.lockKeys(tx, holder.id);
      const next = rows.find((row) => row.state === 'pending' && row.activeFrom <= now);
      if (!next) return;
      const old = rows.find((row) => row.state === 'active');
      if (old) await store.retire(tx, old.id, now + RETIRED_LISTED_MS);
      await store.activate(tx, next.id);
    });
  }

  async #insert(
    db: Queryable,
    holder: Holder,
    key: { seed: Uint8Array; methodId: string; state: 'pending' | 'active'; now: number; activeFrom: number },
  ): Promise<string> {
    const { publicKeyMultibase } = keyPair(key.seed);
    const sealedSeed = this.#deps.sealer.seal(key.seed, purpose(holder));
    const { methodId, state, now, activeFrom } = key;
    const id = newId(this.#deps.clock);
    await store.insertKey(db, {
      id,
      holder: holder.id,
      methodId,
      publicKeyMultibase,
      sealedSeed,
      state,
      now,
      activeFrom,
    });
    return publicKeyMultibase;
  }

  #open(holder: Holder, row: store.KeyRow): Buffer {
    return this.#deps.sealer.open(row.sealedSeed, purpose(holder));
  }
}

function purpose(holder: Holder): string {
  return `seed:${holder.id}`;
}
