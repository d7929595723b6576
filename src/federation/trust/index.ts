import type { Db } from '../../db/types.ts';
import type { Keyring } from '../../directory/keyring.ts';
import type { Agent, Directory } from '../../directory/types.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Fetch } from '../../lib/fetch-types.ts';
import { type Refusal, refuse } from '../../lib/refusal.ts';
import type { Contacts } from '../contacts/contacts.ts';
import type { Rooms } from '../rooms/index.ts';
import { Admission } from './admission.ts';
import { Connect } from './connect.ts';
import { Introductions } from './introductions.ts';
import { Invites } from './invites.ts';
import { expertiseOf, Referrals } from './referral.ts';
import * as store from './store.ts';
import type { CallTeller } from './teller.ts';

export type { Knock } from './connect.ts';
export type { Introducing } from './introductions.ts';
export type { Referral, ReferralQuestion } from './referral.ts';
export type {
  AskedRow,
  ConnectPolicy,
  HeldRow,
  InviteRow,
  IssuedRow,
  PeerRow,
  Reach,
  TrustPrivacy,
  TrustSettings,
} from './store.ts';
export { CallTeller, callKind, type TrustCall } from './teller.ts';

export interface TrustDeps {
  db: Db;
  clock: Clock;
  fetch: Fetch;
  keyring: Pick<Keyring, 'agent' | 'didKey' | 'signer'>;
  directory: Pick<Directory, 'agentByDid' | 'agentById'> & { publicAgents(): Promise<readonly Agent[]> };
  contacts: Pick<Contacts, 'requestConnection' | 'letIn'>;
  rooms: Rooms;
  teller: CallTeller;
  /** The public base URL without a slash at its end. */
  base: string;
}

/** `trust/status` (muretai.md "trust/status", muretai-wire-facts §12). */
export interface TrustStatus {
  subject: string;
  trusted: boolean;
  relation: 'self' | 'direct' | 'introduced' | 'none';
  /** Steps from the agent: 0 itself, 1 a contact, 2 introduced by one; null for who is not trusted. Trust goes no further. */
  depth: 0 | 1 | 2 | null;
  /** Thousandths. */
  trustLevel: number | null;
  vouchedBy: string[];
  expertise: string[];
}

const longestDid = 512;

/** What an agent here knows of did:keys: whom it trusts, how far, and on whose word. A contact is the owner's, so all her agents know it. */
export class Trust {
  readonly introductions: Introductions;
  readonly invites: Invites;
  readonly connect: Connect;
  readonly referrals: Referrals;
  readonly #deps: TrustDeps;

  constructor(deps: TrustDeps) {
    this.#deps = deps;
    this.introductions = new Introductions(deps);
    const admission = new Admission(deps);
    this.invites = new Invites({ ...deps, admission });
    this.connect = new Connect({ ...deps, admission });
    this.referrals = new Referrals({ ...deps, introductions: this.introductions });
  }

  /**
   * Of `caller` itself, or of `subject`: that depends on the owner's privacy (`self`: nobody asks about third parties; `trusted`: whom the agent
   * trusts; `public`: anybody who signs). Refusals: `query_not_permitted`, `invalid_field`.
   */
  async status(agent: Agent, caller: string, subject: string = caller): Promise<TrustStatus | Refusal> {
    if (subject.length > longestDid || !subject.startsWith('did:')) {
      return refuse('invalid_field', '`subject` must be a DID.', { data: { field: 'subject' } });
    }
    const self = await this.didOf(agent);
    if (subject !== caller && subject !== self && !(await this.#mayAsk(agent, caller)))
      return refuse('query_not_permitted');
    if (subject === self) {
      const expertise = expertiseOf(agent);
      return { subject, trusted: true, relation: 'self', depth: 0, trustLevel: 1000, vouchedBy: [], expertise };
    }
    const { relation, level, vouchers, expertise } = await this.introductions.standing(agent, subject);
    const none = { subject, trusted: false, relation: 'none' as const, depth: null, trustLevel: null };
    if (relation === 'none' || relation === 'blocked') return { ...none, vouchedBy: [], expertise: [] };
    const depth = relation === 'direct' ? 1 : 2;
    return { subject, trusted: true, relation, depth, trustLevel: level, vouchedBy: vouchers, expertise };
  }

  /** The did:key that muretai knows the agent by. */
  didOf(agent: Agent): Promise<string> {
    const { keyring } = this.#deps;
    return keyring.didKey(keyring.agent(agent));
  }

  settings(agentId: string): Promise<store.TrustSettings> {
    return store.settingsOf(this.#deps.db, agentId);
  }

  async changeSettings(agentId: string, change: Partial<store.TrustSettings>): Promise<store.TrustSettings> {
    await store.saveSettings(this.#deps.db, agentId, change);
    return this.settings(agentId);
  }

  /** What the owner says of a peer: how far she trusts it, and what it knows, for which it may be named in referrals. */
  describe(agent: Agent, did: string, what: { level?: number; expertise?: readonly string[] }): Promise<store.PeerRow> {
    const { db, clock } = this.#deps;
    const { level = null, expertise = null } = what;
    return store.describePeer(db, { agentId: agent.id, did, level, expertise, now: clock.now() });
  }

  async #mayAsk(agent: Agent, caller: string): Promise<boolean> {
    const { privacy } = await this.settings(agent.id);
    if (privacy !== 'trusted') return privacy === 'public';
    const { relation } = await this.introductions.standing(agent, caller);
    return relation === 'direct' || relation === 'introduced';
  }
}
