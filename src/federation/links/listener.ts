import type { Db, Tx } from '../../db/types.ts';
import { handleOfAuthority } from '../../directory/names.ts';
import type { Clock } from '../../lib/clock.ts';
import { newId } from '../../lib/ids.ts';
import { Refusal } from '../../lib/refusal.ts';
import type { Outcome } from '../types.ts';
import { learn } from './moves.ts';
import { mayBeCalled } from './peer-name.ts';
import { settle } from './settle.ts';
import { maxLogTold, readSide, type SideMessage, sideOf } from './side-message.ts';
import type { LinkRow } from './store.ts';
import * as store from './store.ts';

/** Proposals of strangers that wait in one org, and links of any state with one domain: what outsiders can make us store is bounded. */
export const maxStrangers = 100;
export const maxOfDomain = 10;
const theirLogKept = 200;
const clockSkewMs = 300_000;

/** Hears what peers tell of their side of links. */
export class Listener {
  readonly #db: Db;
  readonly #clock: Clock;

  constructor(deps: { db: Db; clock: Clock }) {
    this.#db = deps.db;
    this.#clock = deps.clock;
  }

  /** See `LinkOperations.receive`. */
  async receive(domain: string, message: unknown): Promise<Outcome<{ side: SideMessage | null }>> {
    const side = readSide(message);
    if (side instanceof Refusal) return side;
    const org = await store.orgByHandle(this.#db, side.to.org);
    if (!org) return { side: null };
    const id = await this.#db.tx(async (tx) => {
      await store.lockOrgs(tx, [org.id]);
      const alias = side.from.primary ? handleOfAuthority(domain) : null;
      const known = await store.linkBehind(tx, { orgId: org.id, domain, peerOrg: side.from.org, alias });
      const found = known ?? (side.want > 0 ? await this.#admit(tx, org.id, domain, side) : undefined);
      const link = found === undefined ? undefined : (await store.lockLinks(tx, [found]))[0];
      if (link) await this.#take(tx, link, side);
      return link?.id;
    });
    const link = id === undefined ? undefined : await store.linkById(this.#db, id);
    // Nobody of the org has said anything about this peer yet.
    if (!link || link.ourRev === 0) return { side: null };
    const log = (await store.logOf(this.#db, [link.id], maxLogTold, ['ours'])).get(link.id) ?? [];
    return { side: sideOf(link, log) };
  }

  /** The peer's answer to our side of `told`. False: it speaks for another org than the one that was written to. */
  async hear(told: LinkRow, side: SideMessage): Promise<boolean> {
    return this.#db.tx(async (tx) => {
      await store.lockOrgs(tx, [told.orgId]);
      const link = (await store.lockLinks(tx, [told.id]))[0];
      if (!link) return true;
      const isAddressee = side.from.org === link.peerOrg || (link.peerAlias !== null && side.from.primary);
      if (isAddressee) await this.#take(tx, link, side);
      return isAddressee;
    });
  }

  /** A row for a stranger's proposal, while there is room and its name is free. */
  async #admit(tx: Tx, orgId: string, domain: string, side: SideMessage): Promise<string | undefined> {
    const { pending, ofDomain } = await store.countStrangers(tx, orgId, domain);
    if (pending >= maxStrangers || ofDomain >= maxOfDomain || (await store.isBlocked(tx, orgId, domain)))
      return undefined;
    const { org, primary } = side.from;
    const peerHandle = primary ? handleOfAuthority(domain) : org;
    if (
      !mayBeCalled(peerHandle, domain) ||
      (await store.isHandleTaken(tx, { orgId, handle: peerHandle, except: null }))
    )
      return undefined;
    const id = newId(this.#clock);
    const peerAlias = primary ? peerHandle : null;
    const row = {
      id,
      orgId,
      peerHandle,
      peerDomain: domain,
      peerAlias,
      peerOrg: org,
      peerOrgId: null,
      now: this.#clock.now(),
    };
    return (await store.insertLink(tx, row)) ? id : undefined;
  }

  async #take(tx: Tx, link: LinkRow, side: SideMessage): Promise<void> {
    const now = this.#clock.now();
    if (side.seen > link.toldRev && side.seen <= link.ourRev) await store.saveConfirmed(tx, link.id, side.seen);
    const standing = learn(link, side, now);
    if (!standing) return;
    // A stranger that took its proposal back leaves nothing.
    if (standing.ourRev === 0 && standing.theirWant === 0) return store.deleteLink(tx, link.id);
    await settle(tx, link, standing, now);
    if (standing.theirWant > 0) await store.replaceExposures(tx, link.id, 'theirs', side.exposes);
    await store.saveTold(tx, link.id, {
      ...(await this.#names(tx, link, side)),
      peerOrg: side.from.org,
      knownAs: side.calls_you,
      theirRules: JSON.stringify(side.rules ?? {}),
    });
    const told = side.log.map((entry) => ({
      ...entry,
      side: 'theirs' as const,
      at: Math.min(entry.at, now + clockSkewMs),
      detail: JSON.stringify(entry.detail),
    }));
    await store.addLog(tx, link.id, told);
    await store.trimTheirLog(tx, link.id, theirLogKept);
  }

  /**
   * By its own handle where that is free here, else by its domain. What our admin agreed to under one name keeps it: another one would be in
   * `allow` lists and addresses that were meant for somebody else.
   */
  async #names(
    tx: Tx,
    link: LinkRow,
    { from }: SideMessage,
  ): Promise<{ peerHandle: string; peerAlias: string | null }> {
    const { orgId, id, peerHandle } = link;
    const domain = link.peerDomain!;
    const isFree = async (handle: string): Promise<boolean> =>
      !(await store.isHandleTaken(tx, { orgId, handle, except: id }));
    const domainHandle = handleOfAuthority(domain);
    const peerAlias = link.peerAlias ?? (from.primary && (await isFree(domainHandle)) ? domainHandle : null);
    const isAgreed = link.ourWant > 0 && link.peerOrg !== null;
    if (from.org === peerHandle || isAgreed) return { peerHandle, peerAlias };
    if (mayBeCalled(from.org, domain) && (await isFree(from.org))) return { peerHandle: from.org, peerAlias };
    return { peerHandle: peerAlias ?? peerHandle, peerAlias };
  }
}
