import type { Db, Tx } from '../../db/types.ts';
import { attempt } from '../../directory/attempt.ts';
import type { Agent } from '../../directory/types.ts';
import { didKeyOf } from '../../identity/introduction.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Refusal, refuse } from '../../lib/refusal.ts';
import type { Contacts } from '../contacts/contacts.ts';
import * as store from './store.ts';
import type { CallTeller } from './teller.ts';

export interface ConnectDeps {
  db: Db;
  clock: Clock;
  contacts: Pick<Contacts, 'requestConnection' | 'letIn'>;
  teller: CallTeller;
}

export interface Knock extends store.Reach {
  note: string;
}

/** The "friend request" between did:keys (muretai.md "connect/request", muretai-wire-facts §12). */
export class Connect {
  readonly #deps: ConnectDeps;

  constructor(deps: ConnectDeps) {
    this.#deps = deps;
  }

  /**
   * `caller` asks to be let in. It grants nothing by itself: the agent's policy decides. Who is blocked is told what a stranger whose question waits is
   * told. Refusals: `connect_refused`, `already_connected`, `rate_limited` when too many questions wait for the owner.
   */
  async request(agent: Agent, caller: string, knock: Knock): Promise<{ status: 'pending' | 'connected' } | Refusal> {
    const { db, clock, contacts } = this.#deps;
    const now = clock.now();
    const q = { agentId: agent.id, owner: agent.memberId, did: caller, now };
    const [{ connect }, { relation }] = await Promise.all([store.settingsOf(db, agent.id), store.standing(db, q)]);
    if (relation === 'direct') return refuse('already_connected');
    if (connect === 'closed') return refuse('connect_refused');
    if (relation === 'blocked') return { status: 'pending' };
    const isMutual = await attempt(db, async (tx): Promise<boolean> => {
      const weAsked = await store.endAsked(tx, { agentId: agent.id, did: caller, state: 'connected', now });
      if (!weAsked && connect !== 'open') return false;
      await this.#connected(tx, agent, caller, knock);
      return true;
    });
    if (isMutual) return { status: 'connected' };
    const firstMessage = knock.note || `${knock.name || caller} asks to connect.`;
    await contacts.requestConnection({ owner: agent.memberId, peerDid: caller, agentId: agent.id, firstMessage });
    if (!(await store.hasKnocked(db, agent.memberId, caller))) {
      return refuse('rate_limited', 'Too many requests wait for the owner. Try again later.');
    }
    await store.savePeer(db, { agentId: agent.id, did: caller, reach: knock, now });
    return { status: 'pending' };
  }

  /** `caller` answers what the agent asked it. An answer to nothing is `no_pending_request`, and plants nothing. */
  async respond(
    agent: Agent,
    caller: string,
    { accept, ...reach }: store.Reach & { accept: boolean },
  ): Promise<{ status: 'connected' | 'declined' } | Refusal> {
    const { db, clock } = this.#deps;
    return attempt(db, async (tx): Promise<{ status: 'connected' | 'declined' } | Refusal> => {
      const state = accept ? 'connected' : 'declined';
      const isAnswer = await store.endAsked(tx, { agentId: agent.id, did: caller, state, now: clock.now() });
      if (!isAnswer) return refuse('no_pending_request');
      if (accept) await this.#connected(tx, agent, caller, reach);
      return { status: state };
    });
  }

  /** The agent asks another one. The row waits until it answers: then, and only then, its did:key is a contact. */
  async ask(agent: Agent, to: { did: string; url: string; note: string }): Promise<true | Refusal> {
    const { did, url, note } = to;
    return this.#askBy(agent, { did, url, method: 'connect/request', params: note === '' ? {} : { note } });
  }

  /** The agent takes up an invitation that was checked. */
  async claim(agent: Agent, to: { did: string; url: string; nonce: string }): Promise<true | Refusal> {
    const { did, url, nonce } = to;
    return this.#askBy(agent, { did, url, method: 'onboard/claim', params: { nonce } });
  }

  /** What the other side answered to a call of ours; `problem`: why it never will. In the transaction that ends the call. */
  async answered(
    tx: Tx,
    call: { agent: Agent; did: string },
    answer: { status: 'connected' | 'pending' } | { problem: string },
  ): Promise<void> {
    const { agent, did } = call;
    const now = this.#deps.clock.now();
    if ('problem' in answer) {
      await store.endAsked(tx, { agentId: agent.id, did, state: 'failed', problem: answer.problem, now });
    } else if (answer.status === 'connected') {
      const waited = await store.endAsked(tx, { agentId: agent.id, did, state: 'connected', now });
      if (waited) await this.#connected(tx, agent, did, { name: '', url: null, relay: null, encPub: null });
    }
  }

  asked(agent: Agent): Promise<store.AskedRow[]> {
    return store.askedBy(this.#deps.db, agent.id);
  }

  async #askBy(
    agent: Agent,
    q: { did: string; url: string; method: store.AskedRow['method']; params: Record<string, unknown> },
  ): Promise<true | Refusal> {
    const { db, clock, teller } = this.#deps;
    const { did, url, method, params } = q;
    if (!didKeyOf(did)) return invalid('did', 'must be an Ed25519 did:key');
    if (!URL.canParse(url) || !/^https?:/i.test(url) || url.length > 1024)
      return invalid('url', 'must be an https URL');
    return attempt(db, async (tx): Promise<true | Refusal> => {
      const now = clock.now();
      const { relation } = await store.standing(tx, { agentId: agent.id, owner: agent.memberId, did, now });
      if (relation === 'direct') return refuse('already_connected');
      if (relation === 'blocked') return refuse('conflict', 'You blocked that contact: unblock it first.');
      await store.insertAsked(tx, { agentId: agent.id, did, method, now });
      await store.savePeer(tx, { agentId: agent.id, did, reach: { name: '', url, relay: null, encPub: null }, now });
      await teller.owe(tx, { method, agentId: agent.id, to: did, url, params });
      return true;
    });
  }

  async #connected(tx: Tx, agent: Agent, did: string, reach: store.Reach): Promise<void> {
    const { contacts, clock } = this.#deps;
    await contacts.letIn(tx, agent.memberId, did, { alias: null, via: 'muretai_connect' });
    await store.savePeer(tx, { agentId: agent.id, did, reach, now: clock.now() });
  }
}

function invalid(field: string, why: string): Refusal {
  return refuse('invalid_field', `\`${field}\` ${why}.`, { data: { field } });
}
