import type { Db, Tx } from '../db/types.ts';
import type { Clock } from '../lib/clock.ts';
import { newId, newToken } from '../lib/ids.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import { attempt } from './attempt.ts';
import type { Keyring } from './keyring.ts';
import { authorityOf, namesAuthority, readName, readNewName } from './names.ts';
import { revokeAllNodes } from './nodes/store.ts';
import { type Nodes, tokenHash } from './nodes.ts';
import * as store from './people/store.ts';
import { type Plan, type PlanName, plans } from './plans.ts';
import type { Member, NodeIdentity, Org } from './types.ts';

export interface PeopleDeps {
  db: Db;
  clock: Clock;
  keyring: Keyring;
  nodes: Nodes;
  /** Of GATEHOUSE_URL. */
  authority: string;
  /** Plan of the orgs that people make (GATEHOUSE_PLAN). */
  plan: PlanName;
  /** The REDSYN date that is current now: what a new org is pinned to. */
  apiVersion: string;
  /** Who may make further orgs. Default `anyone` with a token. */
  orgCreation?: 'anyone' | 'operator';
}

export interface Invitation {
  code: string;
  email: string;
  team: string;
  /** Milliseconds. */
  expiresAt: number;
}

export interface Usage {
  plan: PlanName;
  limits: Plan;
  used: store.Used;
}

const INVITE_MS = 7 * 86_400_000;
const DAY_MS = 86_400_000;
const EMAIL = /^[^\s@\p{Cc}]{1,64}@[^\s@\p{Cc}]{1,189}$/u;

/** Orgs, teams, members and how one gets in (design §7 "Getting in"). */
export class People {
  readonly #deps: PeopleDeps;

  constructor(deps: PeopleDeps) {
    this.#deps = deps;
  }

  /** The caller's membership of an org. Not being in it and there being none are one refusal. */
  memberOf(node: NodeIdentity, org: string): Member | Refusal {
    const isHere = namesAuthority(org, this.#deps.authority);
    const member = node.members.find((m) => m.org === org || (isHere && m.orgIsPrimary));
    return member ?? refuse('not_found');
  }

  adminOf(node: NodeIdentity, org: string): Member | Refusal {
    const member = this.memberOf(node, org);
    if (member instanceof Refusal || member.role === 'admin') return member;
    return refuse('forbidden', `Only an admin of ${member.org} may do that.`);
  }

  /** REDSYN "Organizaciones y enlaces": the caller becomes its admin, in the team `general`. */
  async createOrg(node: NodeIdentity, input: { handle: string; me: string }): Promise<Member | Refusal> {
    const { db, authority, orgCreation } = this.#deps;
    if (orgCreation === 'operator' && !node.isOperator) {
      return refuse('forbidden', 'Only the operator of this gateway makes orgs here.');
    }
    const handle = readNewName(input.handle, 'handle', 'org');
    if (handle instanceof Refusal) return handle;
    const me = readNewName(input.me, 'me', 'user');
    if (me instanceof Refusal) return me;
    if (namesAuthority(handle, authority)) return taken(handle);
    // A handle that reads as another company's domain would take that company's messages.
    if (authorityOf(handle) !== null && !node.isOperator) {
      return refuse(
        'invalid_field',
        '`handle` reads as a domain: only the operator of this gateway may give that one.',
        {
          data: { field: 'handle' },
        },
      );
    }
    return attempt(db, (tx) => this.insertOrg(tx, { handle, me, personId: node.personId, isPrimary: false }));
  }

  async insertOrg(
    tx: Tx,
    org: { handle: string; me: string; personId: string; isPrimary: boolean; ownerSeed?: Uint8Array },
  ): Promise<Member | Refusal> {
    const { clock, apiVersion, keyring } = this.#deps;
    const now = clock.now();
    const { handle, isPrimary, personId } = org;
    const plan = (await store.planOf(tx, personId)) ?? this.#deps.plan;
    const id = newId(clock);
    if (!(await store.insertOrg(tx, { id, handle, isPrimary, apiVersion, plan, createdBy: personId, now })))
      return taken(handle);
    const member: Member = {
      id: newId(clock),
      orgId: id,
      org: handle,
      orgIsPrimary: isPrimary,
      personId,
      handle: org.me,
      role: 'admin',
    };
    await store.insertMember(tx, { ...member, now });
    await keyring.create(tx, keyring.owner(member), org.ownerSeed);
    const general = newId(clock);
    await store.insertTeam(tx, { id: general, orgId: id, handle: 'general', now });
    await store.addToTeams(tx, member.id, [general]);
    return member;
  }

  /** "Los pone el plan de la persona que creó la organización": another plan for her, and so for every org that she made. The operator's. */
  async setPlan(
    node: NodeIdentity,
    org: string,
    plan: PlanName,
  ): Promise<{ plan: PlanName; orgs: string[] } | Refusal> {
    if (!node.isOperator) return refuse('forbidden', 'Only the operator of this gateway changes plans.');
    const target = await this.orgAt(org);
    if (!target) return refuse('not_found');
    return { plan, orgs: await store.setPlan(this.#deps.db, target.id, plan) };
  }

  async createTeam(node: NodeIdentity, org: string, team: string): Promise<{ org: string; team: string } | Refusal> {
    const admin = this.adminOf(node, org);
    if (admin instanceof Refusal) return admin;
    const handle = readNewName(team, 'handle', 'team');
    if (handle instanceof Refusal) return handle;
    const { db, clock } = this.#deps;
    const made = await store.insertTeam(db, { id: newId(clock), orgId: admin.orgId, handle, now: clock.now() });
    return made ? { org: admin.org, team: handle } : refuse('conflict', `${admin.org} has a team ${handle} already.`);
  }

  /** Puts somebody who is in the org into one of its teams. Twice is once. */
  async addToTeam(
    node: NodeIdentity,
    q: { org: string; team: string; who: string },
  ): Promise<{ org: string; team: string; who: string } | Refusal> {
    const admin = this.adminOf(node, q.org);
    if (admin instanceof Refusal) return admin;
    const team = await this.#team(admin, q.team);
    if (team instanceof Refusal) return team;
    const who = await this.#colleague(admin, q.who);
    if (who instanceof Refusal) return who;
    await store.addToTeams(this.#deps.db, who.id, [team]);
    return { org: admin.org, team: q.team, who: who.handle };
  }

  /** Makes a member an admin too. */
  async addAdmin(node: NodeIdentity, org: string, who: string): Promise<Member | Refusal> {
    const admin = this.adminOf(node, org);
    if (admin instanceof Refusal) return admin;
    const member = await this.#colleague(admin, who);
    if (member instanceof Refusal) return member;
    await store.setRole(this.#deps.db, member.id, 'admin');
    return { ...member, role: 'admin' };
  }

  /** A one-time code, good for 7 days. Told once: only its SHA-256 is kept. */
  async invite(node: NodeIdentity, org: string, q: { email: string; team: string }): Promise<Invitation | Refusal> {
    const admin = this.adminOf(node, org);
    if (admin instanceof Refusal) return admin;
    const email = q.email.trim().toLowerCase();
    if (!EMAIL.test(email)) {
      return refuse('invalid_field', '`email` must be an e-mail address.', { data: { field: 'email' } });
    }
    const team = await this.#team(admin, q.team);
    if (team instanceof Refusal) return team;
    const { db, clock } = this.#deps;
    const [code, now] = [newToken('ghi_'), clock.now()];
    const row = {
      id: newId(clock),
      orgId: admin.orgId,
      teamId: team,
      email,
      codeHash: tokenHash(code),
      by: node.personId,
      now,
    };
    await store.insertInvite(db, { ...row, until: now + INVITE_MS });
    return { code, email, team: q.team, expiresAt: now + INVITE_MS };
  }

  /**
   * A code for a token. An e-mail address that has a person here is only logged in by an operator's code: whoever may invite would
   * otherwise become anybody by inviting her. Where no operator stood for the address before, his code ends the earlier tokens.
   */
  async login(code: string, nodeName: string): Promise<{ token: string; personId: string; email: string } | Refusal> {
    const { db, clock, nodes } = this.#deps;
    return attempt(db, async (tx): Promise<{ token: string; personId: string; email: string } | Refusal> => {
      const now = clock.now();
      const invite = await store.spendCode(tx, tokenHash(code), now);
      if (!invite) return refuse('unauthenticated', 'That code is not known here, was used, or is past its time.');
      const { email, byOperator } = invite;
      let personId = newId(clock);
      if (!(await store.insertPerson(tx, { id: personId, email, isOperator: false, isVouched: byOperator, now }))) {
        const person = await store.lockPersonByEmail(tx, email);
        if (!person) throw new Error('a person is there and is not');
        if (!byOperator) {
          return refuse(
            'conflict',
            `${email} has an account here. Join with its token, and send this code along as \`code\`.`,
          );
        }
        personId = person.id;
        if (!person.isVouched) {
          await revokeAllNodes(tx, personId, now);
          await store.vouch(tx, personId);
        }
      }
      const { token } = await nodes.insert(tx, personId, nodeName);
      return { token, personId, email };
    });
  }

  /** Enters an org that the caller's e-mail address was invited to, with every team of her invitations. */
  async join(node: NodeIdentity, org: string, q: { me: string; code: string | null }): Promise<Member | Refusal> {
    const me = readNewName(q.me, 'me', 'user');
    if (me instanceof Refusal) return me;
    const { db, clock, keyring } = this.#deps;
    const target = await this.orgAt(org);
    // An outsider without an invitation is told nothing about the org.
    const uninvited = refuse('not_found', 'No invitation of yours is open there.');
    if (!target) return uninvited;
    return attempt(db, async (tx): Promise<Member | Refusal> => {
      const now = clock.now();
      const codeHash = q.code === null ? null : tokenHash(q.code);
      const teams = await store.spendInvites(tx, { orgId: target.id, personId: node.personId, codeHash, now });
      if (teams.length === 0) return uninvited;
      const row = {
        id: newId(clock),
        orgId: target.id,
        personId: node.personId,
        handle: me,
        role: 'member' as const,
        now,
      };
      const isNew = await store.insertMember(tx, row);
      const member = await store.memberOfPerson(tx, target.id, node.personId);
      if (!member) return refuse('conflict', `Somebody else is ${target.handle}/${me} already: choose another name.`);
      if (isNew) await keyring.create(tx, keyring.owner(member));
      await store.addToTeams(tx, member.id, teams);
      return member;
    });
  }

  /** An org of this instance by its handle, or by the instance's domain for the primary one. */
  async orgAt(org: string): Promise<Org | undefined> {
    const { db, authority } = this.#deps;
    if (namesAuthority(org, authority)) return store.primaryOrg(db);
    return (await store.orgsByHandle(db, [org]))[0];
  }

  async usage(node: NodeIdentity, org: string): Promise<Usage | Refusal> {
    const member = this.memberOf(node, org);
    if (member instanceof Refusal) return member;
    const { db, clock } = this.#deps;
    const row = (await store.orgsById(db, [member.orgId]))[0]!;
    const used = await store.usage(db, row.id, Math.floor(clock.now() / DAY_MS));
    return { plan: row.plan, limits: plans[row.plan], used };
  }

  openInvites(email: string): Promise<Array<{ org: string; team: string; expiresAt: number }>> {
    return store.openInvites(this.#deps.db, email, this.#deps.clock.now());
  }

  async #team(member: Member, handle: string): Promise<string | Refusal> {
    const name = readName(handle, 'team');
    if (name instanceof Refusal) return name;
    const id = await store.teamId(this.#deps.db, member.orgId, name);
    return id ?? refuse('not_found', `${member.org} has no team ${name}.`);
  }

  async #colleague(member: Member, who: string): Promise<Member | Refusal> {
    const name = readName(who, 'who');
    if (name instanceof Refusal) return name;
    const found = await store.memberByHandle(this.#deps.db, member.orgId, name);
    return found ?? refuse('not_found', `Nobody in ${member.org} is called ${name}.`);
  }
}

function taken(handle: string): Refusal {
  return refuse('conflict', `The handle ${handle} is taken on this gateway.`);
}
