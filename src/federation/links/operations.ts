import type { Db, Tx } from '../../db/types.ts';
import { attempt } from '../../directory/attempt.ts';
import { handleOfAuthority } from '../../directory/names.ts';
import type { People } from '../../directory/people.ts';
import { plans } from '../../directory/plans.ts';
import type { Member, NodeIdentity } from '../../directory/types.ts';
import type { Clock } from '../../lib/clock.ts';
import { newId } from '../../lib/ids.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { readExposure } from '../exposure.ts';
import type { LinkView, Outcome } from '../types.ts';
import { change, learn, propose, revoke, type Standing, stateOf } from './moves.ts';
import { type Other, peerName, readOther } from './peer-name.ts';
import { readIps } from './rules.ts';
import { settle } from './settle.ts';
import { maxExposures } from './side-message.ts';
import type { LinkRow } from './store.ts';
import * as store from './store.ts';
import type { Teller } from './teller.ts';
import { viewOf } from './view.ts';

export interface OperationsDeps {
  db: Db;
  clock: Clock;
  /** Of GATEHOUSE_URL. */
  authority: string;
  people: Pick<People, 'adminOf'>;
  teller: Teller;
}

/** An action of an admin, with everything that it writes in one transaction. */
type Action = (
  tx: Tx,
  link: LinkRow,
) => Promise<{ standing: Standing; what: string; detail?: Record<string, unknown> } | null | Refusal>;

const logShown = 50;

/** What admins do with links (REDSYN "Organizaciones y enlaces"). */
export class Operations {
  readonly #deps: OperationsDeps;

  constructor(deps: OperationsDeps) {
    this.#deps = deps;
  }

  async propose(caller: NodeIdentity, org: string, other: string): Promise<Outcome<LinkView>> {
    const { db, clock, people, teller } = this.#deps;
    const admin = people.adminOf(caller, org);
    if (admin instanceof Refusal) return admin;
    const named = readOther(other);
    if (named instanceof Refusal) return named;
    const done = await attempt(db, async (tx) => {
      const id = await this.#find(tx, admin, named);
      if (id instanceof Refusal) return id;
      return this.#act(tx, id, admin, async (_tx, link) => {
        const standing = propose(link, clock.now());
        if (!standing) return null;
        const limit = plans[link.plan].links;
        if (limit !== null && (await store.countWanted(tx, link.orgId)) >= limit) {
          return refuse(
            'quota_exceeded',
            `The ${link.plan} plan of ${link.org} allows ${limit} ${limit === 1 ? 'link' : 'links'}.`,
            {
              status: 403,
              data: { quota: true, limit },
            },
          );
        }
        return { standing, what: link.theirWant > 0 ? 'accepted' : 'proposed' };
      });
    });
    if (done instanceof Refusal) return done;
    await teller.tellNow(done.outboxId);
    return this.#view(done.id);
  }

  async expose(
    caller: NodeIdentity,
    org: string,
    other: string,
    said: { kind: string; pattern: string; on: boolean },
  ): Promise<Outcome<LinkView>> {
    const exposure = readExposure(said.kind, said.pattern);
    if (exposure instanceof Refusal) return exposure;
    return this.#change(caller, org, other, async (tx, link) => {
      const standing = change(link, this.#deps.clock.now());
      if (!standing) return notWanted(link);
      if (said.on && link.ours.length >= maxExposures) {
        return refuse('conflict', `A link holds at most ${maxExposures} exposures: use a wider pattern.`);
      }
      const changed = await (said.on ? store.addExposure : store.removeExposure)(tx, link.id, 'ours', exposure);
      return changed ? { standing, what: said.on ? 'exposed' : 'unexposed', detail: { ...exposure } } : null;
    });
  }

  async rules(
    caller: NodeIdentity,
    org: string,
    other: string,
    said: { signedOnly?: boolean; ips?: readonly string[] | string },
  ): Promise<Outcome<LinkView>> {
    const read = said.ips === undefined ? undefined : readIps(said.ips);
    if (read instanceof Refusal) return read;
    return this.#change(caller, org, other, async (tx, link) => {
      const standing = change(link, this.#deps.clock.now());
      if (!standing) return notWanted(link);
      const rules = { signedOnly: said.signedOnly ?? link.signedOnly, ips: read ?? link.ips };
      if (rules.signedOnly === link.signedOnly && rules.ips.join() === link.ips.join()) return null;
      await store.saveRules(tx, link.id, rules);
      const ips = rules.ips.join(',');
      const detail = { signed_only: rules.signedOnly, ips: ips.length > 1500 ? `${ips.slice(0, 1500)}…` : ips };
      return { standing, what: 'rules', detail };
    });
  }

  async revoke(caller: NodeIdentity, org: string, other: string): Promise<Outcome<LinkView>> {
    return this.#change(caller, org, other, async (_tx, link) => {
      const standing = revoke(link, this.#deps.clock.now());
      if (!standing) return null;
      return { standing, what: link.ourWant > 0 ? 'revoked' : 'declined' };
    });
  }

  async list(caller: NodeIdentity): Promise<readonly LinkView[]> {
    const { db } = this.#deps;
    const rows = await store.linksByOrg(db, [...new Set(caller.members.map((member) => member.orgId))]);
    const logs = await store.logOf(
      db,
      rows.map((row) => row.id),
      logShown,
    );
    return rows.map((row) => viewOf(row, logs.get(row.id) ?? []));
  }

  async #view(id: string): Promise<LinkView> {
    const { db } = this.#deps;
    const [row, logs] = await Promise.all([store.linkById(db, id), store.logOf(db, [id], logShown)]);
    if (!row) throw new Error('a link that was just changed is not there');
    return viewOf(row, logs.get(id) ?? []);
  }

  /** A change of a link that is there. */
  async #change(caller: NodeIdentity, org: string, other: string, action: Action): Promise<Outcome<LinkView>> {
    const { db, people, teller } = this.#deps;
    const admin = people.adminOf(caller, org);
    if (admin instanceof Refusal) return admin;
    const found = (await store.linksByPeer(db, [peerName(admin.orgId, other, this.#deps.authority)]))[0];
    if (!found) return refuse('not_found', `${admin.org} has no link with ${other.slice(0, 300)}.`);
    const done = await attempt(db, (tx) => this.#act(tx, found.id, admin, action));
    if (done instanceof Refusal) return done;
    teller.wake(done.outboxId);
    return this.#view(found.id);
  }

  /**
   * One action on a locked link with its log entry and what it owes to the other side: its row here, or an outbox item. `outboxId` null: nothing changed,
   * or the other side lives here.
   */
  async #act(
    tx: Tx,
    id: string,
    admin: Member,
    action: Action,
  ): Promise<Outcome<{ id: string; outboxId: number | null }>> {
    const { clock, teller } = this.#deps;
    const twin = await store.twinOf(tx, id);
    const rows = await store.lockLinks(tx, twin === null ? [id] : [id, twin]);
    const link = rows.find((row) => row.id === id);
    if (!link) return refuse('not_found');
    const result = await action(tx, link);
    if (result instanceof Refusal) return result;
    if (result === null) return { id, outboxId: null };
    const now = clock.now();
    await store.addLog(tx, id, [
      {
        id: newId(clock),
        side: 'ours',
        // A revision is the clock's time, and of two changes in one millisecond it still tells the later one.
        at: result.standing.ourRev,
        by: admin.handle,
        what: result.what,
        detail: JSON.stringify(result.detail ?? {}),
      },
    ]);
    await settle(tx, link, result.standing, now);
    if (twin === null) return { id, outboxId: await teller.owe(tx, { id, peerDomain: link.peerDomain! }) };
    await mirror(tx, id, rows.find((row) => row.id === twin)!, now);
    return { id, outboxId: null };
  }

  /** The link that `other` names, made if there is none yet. Holds the lock on the org afterwards. */
  async #find(tx: Tx, admin: Member, other: Other): Promise<string | Refusal> {
    if (other.kind === 'gateway' && other.authority !== this.#deps.authority) return this.#findRemote(tx, admin, other);
    const handle = other.kind === 'handle' ? other.handle : other.org;
    const local = await store.orgByHandle(tx, handle);
    if (local) return this.#findLocal(tx, admin, local);
    if (other.kind === 'gateway') return refuse('not_found', `This gateway has no org ${handle}.`);
    await store.lockOrgs(tx, [admin.orgId]);
    const found = (await store.linksByPeer(tx, [peerName(admin.orgId, other.handle, this.#deps.authority)]))[0];
    const namesake = (await store.strangersCalled(tx, admin.orgId, other.handle))[0];
    if (namesake !== undefined && (!found || found.ourWant > 0)) return taken(other.handle, namesake);
    return (
      found?.id ??
      refuse(
        'not_found',
        `There is no org ${other.handle} here and no proposal from one. Name another gateway by its domain.`,
      )
    );
  }

  async #findLocal(tx: Tx, admin: Member, peer: store.OrgRow): Promise<string | Refusal> {
    const { clock } = this.#deps;
    if (peer.id === admin.orgId)
      return refuse('conflict', 'An org needs no link with itself.', { data: { field: 'other' } });
    await store.lockOrgs(tx, [admin.orgId, peer.id]);
    const own = await store.orgById(tx, admin.orgId);
    if (!own) return refuse('not_found');
    for (const [a, b] of [
      [own, peer],
      [peer, own],
    ] as const) {
      const row = {
        orgId: a.id,
        peerHandle: b.handle,
        peerDomain: null,
        peerAlias: null,
        peerOrg: b.handle,
        peerOrgId: b.id,
      };
      await store.insertLink(tx, { id: newId(clock), ...row, now: clock.now() });
    }
    const id = await store.linkBetween(tx, own.id, peer.id);
    const back = await store.linkBetween(tx, peer.id, own.id);
    // Somebody else goes by that name: on our side, or (which is not ours to tell) on theirs.
    return id !== undefined && back !== undefined ? id : taken(peer.handle, null);
  }

  async #findRemote(tx: Tx, admin: Member, other: Extract<Other, { kind: 'gateway' }>): Promise<string | Refusal> {
    const { clock } = this.#deps;
    const alias = handleOfAuthority(other.authority);
    await store.lockOrgs(tx, [admin.orgId]);
    const isPrimary = other.org === null || other.org === alias;
    const found = isPrimary
      ? (await store.linksByPeer(tx, [{ orgId: admin.orgId, name: alias, home: false }]))[0]?.id
      : await store.linkBehind(tx, { orgId: admin.orgId, domain: other.authority, peerOrg: other.org!, alias: null });
    if (found !== undefined) return found;
    const peerHandle = isPrimary ? alias : other.org!;
    if (await store.isHandleTaken(tx, { orgId: admin.orgId, handle: peerHandle, except: null })) {
      return taken(peerHandle, isPrimary ? null : other.authority);
    }
    const id = newId(clock);
    await store.insertLink(tx, {
      id,
      orgId: admin.orgId,
      peerHandle,
      peerDomain: other.authority,
      peerAlias: isPrimary ? alias : null,
      peerOrg: isPrimary ? null : other.org,
      peerOrgId: null,
      now: clock.now(),
    });
    return id;
  }
}

/** Tells the other side of a link between two orgs of this instance, in the same transaction. */
async function mirror(tx: Tx, id: string, twin: LinkRow, now: number): Promise<void> {
  const link = (await store.linksById(tx, [id]))[0]!;
  const standing = learn(twin, { rev: link.ourRev, want: link.ourWant, voids: link.voided }, now);
  if (standing) {
    await settle(tx, twin, standing, now);
    await store.replaceExposures(tx, twin.id, 'theirs', link.ourWant > 0 ? link.ours : []);
  }
  await store.saveTold(tx, twin.id, {
    peerHandle: twin.peerHandle,
    peerAlias: null,
    peerOrg: link.org,
    knownAs: link.peerHandle,
    theirRules: JSON.stringify(link.ourWant > 0 ? { signed_only: link.signedOnly, ips: link.ips } : {}),
  });
  const own = (await store.logOf(tx, [id], logShown, ['ours'])).get(id) ?? [];
  await store.addLog(
    tx,
    twin.id,
    own.map((entry) => ({ ...entry, side: 'theirs' as const })),
  );
}

function notWanted(link: LinkRow): Refusal {
  const how = stateOf(link) === 'proposed' ? 'Accept it first' : 'Propose it anew first';
  return refuse(
    'conflict',
    `${link.org} has not agreed to the link with ${link.peerHandle}. ${how}: POST /orgs/${link.org}/links.`,
  );
}

function taken(handle: string, domain: string | null): Refusal {
  const way =
    domain === null
      ? 'Name the other side by its domain, and use the domain as its handle'
      : `Use the domain as handle: {"other": "${domain}"}`;
  return refuse('conflict', `${handle} is the name of another organisation here. ${way}.`, {
    data: { field: 'other', ...(domain !== null && { use: domain }) },
  });
}
