import type { Db, Tx } from '../../db/types.ts';
import { attempt } from '../../directory/attempt.ts';
import { roomOf } from '../../directory/rooms.ts';
import type { Agent } from '../../directory/types.ts';
import { didKeyOf } from '../../identity/introduction.ts';
import type { Clock } from '../../lib/clock.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import type { Contacts } from '../contacts/contacts.ts';
import { connectOf, type Rooms } from '../rooms/index.ts';
import type { Admission } from './admission.ts';
import { standingOf } from './standing.ts';
import * as store from './store.ts';
import type { CallTeller } from './teller.ts';

export interface ConnectDeps {
  db: Db;
  clock: Clock;
  contacts: Pick<Contacts, 'requestConnection'>;
  admission: Admission;
  rooms: Pick<Rooms, 'endIn'>;
  teller: CallTeller;
}

const via = 'muretai_connect';

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
    const { db, clock, contacts, admission } = this.#deps;
    const now = clock.now();
    const [connect, { relation }] = await Promise.all([this.#policy(agent), standingOf(db, agent, caller, now)]);
    if (relation === 'direct') return refuse('already_connected');
    if (connect === 'closed') return refuse('connect_refused');
    if (relation === 'blocked') return { status: 'pending' };
    const isMutual = await attempt(db, async (tx): Promise<boolean | Refusal> => {
      const weAsked = await store.endAsked(tx, { agentId: agent.id, did: caller, state: 'connected', now });
      if (!weAsked && connect !== 'open') return false;
      return admission.letIn(tx, agent, caller, { reach: knock, via });
    });
    if (isMutual instanceof Refusal) return isMutual;
    if (isMutual) return { status: 'connected' };
    const owner = agent.memberId;
    const room = roomOf(agent) ? agent.id : '';
    const firstMessage = knock.note || `${knock.name || caller} asks to ${room === '' ? 'connect' : 'join the room'}.`;
    await contacts.requestConnection({ owner, peerDid: caller, agentId: agent.id, firstMessage, room });
    if (!(await store.hasKnocked(db, { owner, did: caller, room }))) {
      return refuse('rate_limited', 'Too many requests wait for the owner. Try again later.');
    }
    await store.savePeer(db, { agentId: agent.id, did: caller, reach: knock, now });
    return { status: 'pending' };
  }

  /**
   * `caller` answers what the agent asked it. An answer to nothing is `no_pending_request`, and plants nothing. A member of a room that declines what it
   * was asked before leaves it.
   */
  async respond(
    agent: Agent,
    caller: string,
    { accept, ...reach }: store.Reach & { accept: boolean },
  ): Promise<{ status: 'connected' | 'declined' } | Refusal> {
    const { db, clock, admission, rooms } = this.#deps;
    return attempt(db, async (tx): Promise<{ status: 'connected' | 'declined' } | Refusal> => {
      const state = accept ? 'connected' : 'declined';
      const isAnswer = await store.endAsked(tx, { agentId: agent.id, did: caller, state, now: clock.now() });
      if (!isAnswer) {
        const left = !accept && roomOf(agent) !== null && (await rooms.endIn(tx, agent, caller, 'left'));
        return left ? { status: 'declined' } : refuse('no_pending_request');
      }
      const done = accept ? await admission.letIn(tx, agent, caller, { reach, via }) : true;
      return done instanceof Refusal ? done : { status: state };
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
    const { clock, admission } = this.#deps;
    const now = clock.now();
    if ('problem' in answer) {
      await store.endAsked(tx, { agentId: agent.id, did, state: 'failed', problem: answer.problem, now });
    } else if (answer.status === 'connected') {
      const waited = await store.endAsked(tx, { agentId: agent.id, did, state: 'connected', now });
      const known = waited ? await store.peerOf(tx, agent.id, did) : null;
      const reach = known ?? { name: '', url: null, relay: null, encPub: null };
      const done = waited ? await admission.letIn(tx, agent, did, { reach, via }) : true;
      if (done instanceof Refusal) await store.failAsked(tx, { agentId: agent.id, did, problem: done.words, now });
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
      const { relation } = await standingOf(tx, agent, did, now);
      if (relation === 'direct') return refuse('already_connected');
      if (relation === 'blocked') return refuse('conflict', 'You blocked that contact: unblock it first.');
      await store.insertAsked(tx, { agentId: agent.id, did, method, now });
      await store.savePeer(tx, { agentId: agent.id, did, reach: { name: '', url, relay: null, encPub: null }, now });
      await teller.owe(tx, { method, agentId: agent.id, to: did, url, params });
      return true;
    });
  }

  async #policy(agent: Agent): Promise<store.ConnectPolicy> {
    const axes = roomOf(agent);
    return axes ? connectOf(axes) : (await store.settingsOf(this.#deps.db, agent.id)).connect;
  }
}

function invalid(field: string, why: string): Refusal {
  return refuse('invalid_field', `\`${field}\` ${why}.`, { data: { field } });
}
