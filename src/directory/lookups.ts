import type { Db } from '../db/types.ts';
import { Questions } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';
import { type KeyRow, keysByHash } from './agent-keys/store.ts';
import * as agents from './agents/store.ts';
import { readDid, teamless } from './dids.ts';
import { holdersByKey } from './keys/store.ts';
import { isName, namesAuthority } from './names.ts';
import { keyOfListener, nodeLastServed, nodesByHash } from './nodes/store.ts';
import { tokenHash } from './nodes.ts';
import * as people from './people/store.ts';
import type { Address, Agent, AgentIdentity, Directory, Member, NodeIdentity, Org, Watcher } from './types.ts';
import { keyByHash as watcherByHash } from './watcher-keys/store.ts';

const MAX_TOKEN = 512;
/** How often it is noted that a watcher was seen. */
const WATCHER_SEEN_MS = 60_000;

/** Look-ups on the way of a message. What is asked at the same time shares one query; nothing is cached but the primary org's handle. */
export class Lookups implements Directory {
  readonly #db: Db;
  readonly #clock: Clock;
  readonly #authority: string;
  #primary: Promise<string | null> | undefined;

  constructor(deps: { db: Db; clock: Clock; authority: string }) {
    this.#db = deps.db;
    this.#clock = deps.clock;
    this.#authority = deps.authority;
  }

  readonly #nodes = this.#byKey<Buffer, NodeIdentity>(
    async (hashes) => {
      const rows = await nodesByHash(this.#db, hashes);
      return new Map(rows.map(({ tokenHash: hash, ...node }): [string, NodeIdentity] => [hash.toString('hex'), node]));
    },
    (hash) => hash.toString('hex'),
  );

  readonly #keys = this.#byKey<Buffer, KeyRow>(
    async (hashes) => {
      const rows = await keysByHash(this.#db, hashes);
      return new Map(rows.map((row) => [row.keyHash.toString('hex'), row]));
    },
    (hash) => hash.toString('hex'),
  );

  readonly #agentsByPath = new Questions<agents.AgentPath, Agent | null>({
    name: ({ org, team, user, agent }) => `${org}/${team}/${user}/${agent}`,
    run: (paths) => agents.agentsByPath(this.#db, paths),
  });

  readonly #membersByPath = new Questions<{ org: string; user: string }, string | null>({
    name: ({ org, user }) => `${org}/${user}`,
    run: (paths) => agents.memberIdsByPath(this.#db, paths),
  });

  readonly #agentsById = this.#byKey<string, Agent>(async (ids) => byId(await agents.agentsById(this.#db, ids)));

  readonly #defaults = this.#byKey<string, Agent>(
    async (ids) => new Map((await agents.defaultAgents(this.#db, ids)).map((agent) => [agent.memberId, agent])),
  );

  readonly #members = this.#byKey<string, Member>(async (ids) => byId(await people.membersById(this.#db, ids)));

  readonly #teams = this.#byKey<string, string[]>(async (ids) => {
    const teams = new Map<string, string[]>();
    for (const { memberId, team } of await people.teamsOfMembers(this.#db, ids)) {
      teams.set(memberId, [...(teams.get(memberId) ?? []), team]);
    }
    return teams;
  });

  readonly #orgs = this.#byKey<string, Org>(
    async (handles) => new Map((await people.orgsByHandle(this.#db, handles)).map((org) => [org.handle, org])),
  );

  readonly #orgsById = this.#byKey<string, Org>(async (ids) => byId(await people.orgsById(this.#db, ids)));

  readonly #holders = this.#byKey<string, string>(async (keys) => {
    const rows = await holdersByKey(this.#db, keys, this.#clock.now());
    return new Map(rows.map(({ key, holder }) => [key, holder]));
  });

  async nodeByToken(token: string): Promise<NodeIdentity | null> {
    return token.length > MAX_TOKEN ? null : this.#nodes.submit(tokenHash(token));
  }

  async agentByKey(key: string): Promise<AgentIdentity | null> {
    const found = key.length > MAX_TOKEN ? null : await this.#keys.submit(tokenHash(key));
    if (!found) return null;
    const [agent, member] = await Promise.all([this.agentById(found.agentId), this.member(found.memberId)]);
    return agent && member && { keyId: found.keyId, agent, member };
  }

  async watcherByKey(key: string): Promise<Watcher | null> {
    if (key.length > MAX_TOKEN) return null;
    const q = { keyHash: tokenHash(key), now: this.#clock.now(), every: WATCHER_SEEN_MS };
    const row = await watcherByHash(this.#db, q);
    return row ? { keyId: row.id, orgId: row.orgId } : null;
  }

  async agentAt(address: Address): Promise<Agent | null> {
    const org = await this.#localHandle(address.org);
    const { team, user, agent } = address;
    if (org === null) return null;
    if (team !== teamless.team || agent !== teamless.agent)
      return this.#agentsByPath.submit({ org, team, user, agent });
    const member = await this.memberAt(org, user);
    return member === null ? null : this.defaultAgent(member);
  }

  async agentByDid(did: string): Promise<Agent | null> {
    if (did.startsWith('did:key:')) return this.#agentByDidKey(did.slice('did:key:'.length));
    const name = readDid(did);
    if (!name || name.kind === 'instance' || name.authority !== this.#authority) return null;
    const primary = await this.#primaryHandle();
    // The primary org is left out of its DIDs: there is one spelling.
    const org = name.org ?? primary;
    if (org === null || name.org === primary) return null;
    if (name.kind === 'agent')
      return this.#agentsByPath.submit({ org, team: name.team, user: name.user, agent: name.agent });
    const member = await this.memberAt(org, name.user);
    return member === null ? null : this.defaultAgent(member);
  }

  agentById(id: string): Promise<Agent | null> {
    return this.#agentsById.submit(id);
  }

  async agentNamed(orgId: string, name: string): Promise<Agent | null> {
    return isName(name.toLowerCase()) ? ((await agents.agentNamed(this.#db, orgId, name)) ?? null) : null;
  }

  defaultAgent(memberId: string): Promise<Agent | null> {
    return this.#defaults.submit(memberId);
  }

  /** The id of a member of an org here (the instance's domain: the primary org), or null. */
  async memberAt(org: string, user: string): Promise<string | null> {
    const handle = await this.#localHandle(org);
    return handle === null ? null : this.#membersByPath.submit({ org: handle, user });
  }

  /** The agent at the instance's bare URL: the one that the operator marked, or the first admin's default agent. */
  async frontDesk(): Promise<Agent | null> {
    const marked = await agents.frontDesk(this.#db);
    if (marked) return marked;
    const admin = await people.firstAdmin(this.#db);
    return admin ? this.defaultAgent(admin.id) : null;
  }

  /** Those that the instance names to strangers (agents.json): they take `anyone`, or an admin lists them. At most 1,000. */
  publicAgents(): Promise<Agent[]> {
    return agents.publicAgents(this.#db, 1_000);
  }

  /** By address; at most 1,000. */
  agentsOfOrg(orgId: string): Promise<Agent[]> {
    return agents.agentsOfOrg(this.#db, { orgId, after: '', limit: 1_000 });
  }

  agentsOf(memberId: string): Promise<Agent[]> {
    return agents.agentsOfMember(this.#db, memberId);
  }

  member(memberId: string): Promise<Member | null> {
    return this.#members.submit(memberId);
  }

  async memberNamed(org: string | null, user: string): Promise<Member | null> {
    const id = await this.memberAt(org ?? this.#authority, user);
    return id === null ? null : this.member(id);
  }

  async teamsOf(memberId: string): Promise<readonly string[]> {
    return (await this.#teams.submit(memberId)) ?? [];
  }

  async org(handle: string): Promise<Org | null> {
    const local = await this.#localHandle(handle);
    return local === null ? null : this.#orgs.submit(local);
  }

  orgById(id: string): Promise<Org | null> {
    return this.#orgsById.submit(id);
  }

  async sealedFor(agentId: string, reader: string | null): Promise<string | null> {
    const served = reader === null ? undefined : await nodeLastServed(this.#db, agentId, reader);
    return served ?? (await keyOfListener(this.#db, agentId))?.nodeId ?? null;
  }

  async #agentByDidKey(key: string): Promise<Agent | null> {
    const [kind, id] = (await this.#holders.submit(key))?.split(':') ?? [];
    if (id === undefined) return null;
    return kind === 'agent' ? this.agentById(id) : this.defaultAgent(id);
  }

  async #localHandle(org: string): Promise<string | null> {
    return namesAuthority(org, this.#authority) ? this.#primaryHandle() : org;
  }

  /** It never changes once it is there. */
  async #primaryHandle(): Promise<string | null> {
    this.#primary ??= people.primaryOrg(this.#db).then((org) => org?.handle ?? null);
    try {
      const handle = await this.#primary;
      if (handle === null) this.#primary = undefined;
      return handle;
    } catch (error) {
      this.#primary = undefined;
      throw error;
    }
  }

  #byKey<In, Out>(
    find: (keys: In[]) => Promise<Map<string, Out>>,
    name: (key: In) => string = String,
  ): Questions<In, Out | null> {
    const run = async (keys: In[]): Promise<Array<Out | null>> => {
      const found = await find(keys);
      return keys.map((key) => found.get(name(key)) ?? null);
    };
    return new Questions({ run, name });
  }
}

function byId<T extends { id: string }>(rows: readonly T[]): Map<string, T> {
  return new Map(rows.map((row) => [row.id, row]));
}
