import type { Db, Queryable } from '../db/types.ts';
import type { Clock } from '../lib/clock.ts';
import { newId, newToken, sha256 } from '../lib/ids.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import * as store from './agent-keys/store.ts';
import type { Agent, Directory, NodeIdentity } from './types.ts';

export interface AgentKeysDeps {
  db: Db;
  clock: Clock;
  directory: Pick<Directory, 'agentById'>;
}

export interface NewAgentKey {
  id: string;
  /** `rsk_…`, told once: only its SHA-256 is kept. */
  key: string;
}

/** The keys that agents speak for themselves with (ReplySlip "Keys"), and who decides over them: a person, never a key. */
export class AgentKeys {
  readonly #deps: AgentKeysDeps;

  constructor(deps: AgentKeysDeps) {
    this.#deps = deps;
  }

  /** A fresh key; the one before ends with it, at once and on every replica. */
  async make(node: NodeIdentity, agentId: string): Promise<NewAgentKey | Refusal> {
    const agent = await this.managed(node, agentId);
    if (agent instanceof Refusal) return agent;
    const { db, clock } = this.#deps;
    return db.tx(async (tx) => {
      await store.lockAgent(tx, agent.id);
      await store.revokeKey(tx, agent.id, clock.now());
      return this.insert(tx, agent.id);
    });
  }

  /** In a transaction of the caller's. */
  async insert(tx: Queryable, agentId: string): Promise<NewAgentKey> {
    const { clock } = this.#deps;
    const made = { id: newId(clock), key: newToken('rsk_') };
    await store.insertKey(tx, { id: made.id, agentId, keyHash: sha256(made.key), now: clock.now() });
    return made;
  }

  /** `not_found` when it has none. Its agent, address and mailbox stay. */
  async revoke(node: NodeIdentity, agentId: string): Promise<Agent | Refusal> {
    const agent = await this.managed(node, agentId);
    if (agent instanceof Refusal) return agent;
    const done = await store.revokeKey(this.#deps.db, agent.id, this.#deps.clock.now());
    return done ? agent : refuse('not_found', `${agent.name} has no key.`);
  }

  /** Milliseconds since when each of these agents has its key; those without are left out. */
  async since(agents: readonly Agent[]): Promise<ReadonlyMap<string, number>> {
    const ids = agents.map(({ id }) => id);
    const rows = await store.keyTimes(this.#deps.db, ids);
    return new Map(rows.map(({ agentId, createdAt }) => [agentId, createdAt]));
  }

  /** The agent when it is the caller's to manage: her own, or one of an org that she administers. To everybody else it is not there. */
  async managed(node: NodeIdentity, agentId: string): Promise<Agent | Refusal> {
    const agent = await this.#deps.directory.agentById(agentId);
    const member = agent && node.members.find(({ orgId }) => orgId === agent.orgId);
    if (!agent || !member) return refuse('not_found', 'There is no such agent.');
    if (agent.personId === node.personId || member.role === 'admin') return agent;
    return refuse(
      'forbidden',
      `${agent.name} is ${agent.user}'s: ${agent.user} or an admin of ${agent.org} decides over it.`,
    );
  }
}
