import type { Db, Tx } from '../db/types.ts';
import type { Clock } from '../lib/clock.ts';
import { newId } from '../lib/ids.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import * as store from './agents/store.ts';
import { attempt } from './attempt.ts';
import type { Keyring } from './keyring.ts';
import { readNewName } from './names.ts';
import { isInTeam, orgsById, teamId } from './people/store.ts';
import type { People } from './people.ts';
import { plans } from './plans.ts';
import { roomFault } from './rooms.ts';
import type { Address, Agent, AgentPolicy, Member, NodeIdentity } from './types.ts';

export interface AgentsDeps {
  db: Db;
  clock: Clock;
  keyring: Keyring;
  people: People;
}

/** What `PUT /agents/…` says. What is absent stays as it was. */
export interface Announcement {
  description?: string;
  adapter?: string;
  profile?: Record<string, unknown>;
  /** The policy comes only with an announcement that listens, and then whole (REDSYN "Agentes y presencia"). */
  listening: boolean;
  policy: AgentPolicy;
  /** True: this becomes the owner's default agent. */
  isDefault?: boolean;
  /** An admin's: shown in agents.json whatever its policy. */
  isListed?: boolean;
  /** The operator's: answers at the instance's bare URL. */
  isFrontDesk?: boolean;
}

export interface Announced {
  agent: Agent;
  created: boolean;
}

const MAX_ALLOW = 200;
const MAX_PROFILE = 16_384;
// A handle, `team:` and a handle, `org:` and a handle or an authority.
const ALLOW =
  /^(?:anyone|[a-z0-9._-]{1,100}|team:[a-z0-9._-]{1,100}|org:[a-z0-9.-]{1,253}:[1-9][0-9]{0,4}|org:[a-z0-9._-]{1,253})$/;

/** replyslip.md "Register with a join code". */
const NAMED = /^[A-Za-z][A-Za-z0-9_-]{0,63}$/;
const bare: Announcement = {
  listening: false,
  policy: { allow: [], trust: 'none', signedOnly: false, encryptedOnly: false },
};

/** Announcing agents. */
export class Agents {
  readonly #deps: AgentsDeps;

  constructor(deps: AgentsDeps) {
    this.#deps = deps;
  }

  /**
   * Creates or changes one of the caller's own agents. An admin may say `isListed`, and the operator `isFrontDesk`, of any agent of the
   * org. 403 with `quota` when the plan allows no more agents.
   */
  async announce(node: NodeIdentity, address: Address, said: Announcement): Promise<Announced | Refusal> {
    const caller = this.#deps.people.memberOf(node, address.org);
    if (caller instanceof Refusal) return caller;
    const fault = marksFault(node, caller, said) ?? policyFault(said) ?? profileFault(said) ?? roomFault(said.profile);
    if (fault) return fault;
    const path = { org: caller.org, team: address.team, user: address.user, agent: address.agent };
    if (caller.handle !== address.user) return this.#mark(caller, path, said);
    const handle = readNewName(address.agent, 'agent', 'agent');
    if (handle instanceof Refusal) return handle;
    return attempt(this.#deps.db, async (tx): Promise<Announced | Refusal> => {
      const team = await teamId(tx, caller.orgId, address.team);
      if (team === undefined) return refuse('not_found', `${caller.org} has no team ${address.team}.`);
      if (!(await isInTeam(tx, caller.id, team))) {
        return refuse('forbidden', `You are not in team ${address.team} of ${caller.org}.`);
      }
      const known = (await store.agentsByPath(tx, [path]))[0];
      const created = known ? false : await this.#create(tx, caller, path, team);
      if (created instanceof Refusal) return created;
      const agent = known ?? (await store.agentsByPath(tx, [path]))[0];
      if (!agent) throw new Error('an agent was made and is not there');
      await this.#change(tx, agent, said, node);
      return { agent: (await store.agentsById(tx, [agent.id]))[0]!, created };
    });
  }

  /**
   * An agent of `owner` that goes by a name of its own in the org (ReplySlip): whoever is of the org may write to it. In a transaction of the
   * caller's. `conflict` when an agent there has that name or handle in whatever case, `invalid_field`, 403 with `quota`.
   */
  async insertNamed(
    tx: Tx,
    owner: Member,
    team: { id: string; handle: string },
    q: { name: string; description: string },
  ): Promise<Agent | Refusal> {
    if (!NAMED.test(q.name)) {
      return invalid('name', 'must start with a letter, then letters, digits, `_` or `-`: at most 64 of them');
    }
    const fault = profileFault({ ...bare, description: q.description });
    if (fault) return fault;
    const { org, handle: user } = owner;
    const path = { org, team: team.handle, user, agent: q.name.toLowerCase() };
    await store.lockOrg(tx, owner.orgId);
    if (await store.isTaken(tx, owner.orgId, path.agent)) return nameTaken();
    const created = await this.#create(tx, owner, path, team.id);
    if (created instanceof Refusal) return created;
    const [agent] = await store.agentsByPath(tx, [path]);
    if (!agent || !created) return nameTaken();
    const policy = { ...bare.policy, allow: ['org'] };
    await store.updateAgent(tx, agent.id, { now: this.#deps.clock.now(), description: q.description, policy });
    await store.setName(tx, agent.id, q.name);
    return (await store.agentsById(tx, [agent.id]))[0]!;
  }

  async #create(tx: Tx, owner: Member, path: store.AgentPath, team: string): Promise<boolean | Refusal> {
    const { clock, keyring } = this.#deps;
    await store.lockOrg(tx, owner.orgId);
    const { plan } = (await orgsById(tx, [owner.orgId]))[0]!;
    const id = newId(clock);
    const row = { id, orgId: owner.orgId, teamId: team, memberId: owner.id, handle: path.agent, now: clock.now() };
    if (!(await store.insertAgent(tx, row))) return false;
    const limit = plans[plan].agents;
    if (limit !== null && (await store.countAgents(tx, owner.orgId)) > limit) {
      return refuse('quota_exceeded', `The ${plan} plan of ${owner.org} allows ${limit} agents.`, {
        status: 403,
        data: { quota: true, limit },
      });
    }
    await store.insertMailbox(tx, id);
    const { org, orgIsPrimary } = owner;
    await keyring.create(
      tx,
      keyring.agent({ id, org, orgIsPrimary, user: path.user, team: path.team, handle: path.agent }),
    );
    return true;
  }

  async #change(tx: Tx, agent: Agent, said: Announcement, node: NodeIdentity): Promise<void> {
    const { description, adapter, profile } = said;
    await store.updateAgent(tx, agent.id, {
      now: this.#deps.clock.now(),
      ...(description !== undefined && { description }),
      ...(adapter !== undefined && { adapter }),
      ...(profile !== undefined && { profile: JSON.stringify(profile) }),
      ...(said.listening && { policy: said.policy }),
    });
    if (said.listening) await store.setListener(tx, agent.id, node.nodeId);
    if (said.isDefault && !agent.isDefault) {
      await store.lockOrg(tx, agent.orgId);
      await store.markDefault(tx, agent.memberId, agent.id);
    }
    await setMarks(tx, agent.id, said);
  }

  /** What an admin may say about somebody else's agent. */
  async #mark(caller: Member, path: store.AgentPath, said: Announcement): Promise<Announced | Refusal> {
    const { isListed, isFrontDesk } = said;
    if (isListed === undefined && isFrontDesk === undefined) {
      return refuse('forbidden', `Only ${path.user} announces agents of ${path.org}/${path.team}/${path.user}.`);
    }
    return attempt(this.#deps.db, async (tx): Promise<Announced | Refusal> => {
      const agent = (await store.agentsByPath(tx, [path]))[0];
      if (!agent) return refuse('not_found', `${caller.org} has no agent ${path.team}/${path.user}/${path.agent}.`);
      await setMarks(tx, agent.id, said);
      return { agent: (await store.agentsById(tx, [agent.id]))[0]!, created: false };
    });
  }
}

async function setMarks(tx: Tx, agentId: string, { isListed, isFrontDesk }: Announcement): Promise<void> {
  if (isListed === undefined && isFrontDesk === undefined) return;
  if (isFrontDesk) await store.clearFrontDesk(tx, agentId);
  await store.setMarks(tx, agentId, { listed: isListed ?? null, frontDesk: isFrontDesk ?? null });
}

function marksFault(node: NodeIdentity, caller: Member, said: Announcement): Refusal | undefined {
  if (said.isListed !== undefined && caller.role !== 'admin') {
    return refuse('forbidden', `Only an admin of ${caller.org} lists agents.`);
  }
  if (said.isFrontDesk !== undefined && !node.isOperator) {
    return refuse('forbidden', 'Only the operator of this gateway chooses its front desk.');
  }
  return undefined;
}

function policyFault({ listening, policy }: Announcement): Refusal | undefined {
  if (!listening) return undefined;
  if (policy.allow.length > MAX_ALLOW) return invalid('allow', `has more than ${MAX_ALLOW} entries`);
  const odd = policy.allow.find((entry) => !ALLOW.test(entry));
  if (odd !== undefined) {
    return invalid('allow', 'takes the handle of a person, `team:<team>`, `org`, `org:<linked org>` and `anyone`');
  }
  if (policy.trust === 'full' && policy.allow.length === 0) {
    return invalid('allow', 'must name who: full trust lets them do anything on the machine');
  }
  if (policy.trust === 'full' && policy.allow.includes('anyone')) {
    return invalid('allow', 'must not hold `anyone` together with full trust');
  }
  return undefined;
}

function profileFault({ profile, description, adapter }: Announcement): Refusal | undefined {
  if (profile !== undefined && Buffer.byteLength(JSON.stringify(profile)) > MAX_PROFILE) {
    return invalid('profile', `is larger than ${MAX_PROFILE} bytes`);
  }
  if ((description?.length ?? 0) > 2_000) return invalid('description', 'is longer than 2000 characters');
  if ((adapter?.length ?? 0) > 200) return invalid('adapter', 'is longer than 200 characters');
  return undefined;
}

function invalid(field: string, why: string): Refusal {
  return refuse('invalid_field', `\`${field}\` ${why}.`, { data: { field } });
}

function nameTaken(): Refusal {
  return refuse('conflict', 'name already exists. Pick another name: the code is still unused.', {
    data: { field: 'name' },
  });
}
