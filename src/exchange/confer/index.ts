import type { Db } from '../../db/types.ts';
import { attempt } from '../../directory/attempt.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Refusal, refuse } from '../../lib/refusal.ts';
import type { Admitted } from '../admitted.ts';
import type { Envelope, MessageKind } from '../message.ts';
import * as store from './store.ts';

/** An answer on its way to a foreign asker that reads no envelopes. */
export interface LeavingAnswer {
  kind: MessageKind;
  messageId: string;
  envelope: Envelope;
  /** As the asker wrote it. */
  thread: string;
  /** Whose key signs, and her org. */
  ownerId: string;
  orgId: string;
  /** The machine-readable reason of a failed end. */
  reason: string | null;
}

/** A request on its way to a foreign agent that reads no envelopes. */
export interface LeavingQuestion {
  exchangeId: string;
  messageId: string;
  envelope: Envelope;
  thread: string;
  ownerId: string;
  orgId: string;
  from: string;
  /** It ended, or was brought there already. */
  done: boolean;
}

export interface ConsultMessage {
  id: string;
  kind: MessageKind;
  isOwn: boolean;
  replyTo: string | null;
  exchangeId: string | null;
  envelope: Envelope;
  reason: string | null;
  createdAt: number;
}

const shown = 200;

/** Exchanges as Confer's wire needs them: what leaves in its form, threads that are opened empty, conversations that are read back. */
export class Letters {
  readonly #db: Db;
  readonly #clock: Clock;

  constructor(deps: { db: Db; clock: Clock }) {
    this.#db = deps.db;
    this.#clock = deps.clock;
  }

  async answer(messageSeq: number): Promise<LeavingAnswer | null> {
    const row = await store.answerBySeq(this.#db, messageSeq);
    if (!row) return null;
    const { kind, id: messageId, thread, owner: ownerId, org_id: orgId, reason } = row;
    return { kind, messageId, envelope: JSON.parse(row.envelope) as Envelope, thread, ownerId, orgId, reason };
  }

  async question(messageSeq: number): Promise<LeavingQuestion | null> {
    const row = await store.questionBySeq(this.#db, messageSeq);
    if (!row) return null;
    const {
      exchange_id: exchangeId,
      id: messageId,
      thread,
      owner: ownerId,
      org_id: orgId,
      asker_addr: from,
      done,
    } = row;
    return {
      exchangeId,
      messageId,
      envelope: JSON.parse(row.envelope) as Envelope,
      thread,
      ownerId,
      orgId,
      from,
      done,
    };
  }

  /** The other side has the request: it is not brought again, and nothing can withdraw it. */
  brought(exchangeId: string): Promise<void> {
    return store.setAskedVia(this.#db, exchangeId, 'confer');
  }

  /** Whether a caller that proved to be `did` told that message, which opened no exchange. */
  isTold(messageId: string, did: string): Promise<boolean> {
    return /^[0-9A-Z]{26}$/.test(messageId) ? store.isTold(this.#db, messageId, [did]) : Promise.resolve(false);
  }

  /** The DID of a peer row. */
  peerDid(id: string): Promise<string | null> {
    return /^[0-9A-Z]{26}$/.test(id) ? store.peerDid(this.#db, id) : Promise.resolve(null);
  }

  /**
   * Opens the thread of an admitted request without a message in it. Answers the thread as its asker writes it. Refusals: `signature_replayed`,
   * `address_not_found` where the addressee does not live here.
   */
  async openThread({ target, senderKey, proof }: Admitted): Promise<string | Refusal> {
    if (target.kind !== 'agent') return refuse('address_not_found');
    const { asked, derived, mayOpen } = target.thread;
    const thread = asked ?? derived;
    const opened = await attempt(this.#db, async (tx): Promise<string | Refusal> => {
      if (proof && !(await store.insertProof(tx, proof.key, proof.expiresAt)))
        return refuse('signature_replayed').by('integrity');
      const now = this.#clock.now();
      await store.bindConversation(tx, {
        owner: target.agent.memberId,
        asker: senderKey,
        asked,
        derived,
        mayOpen,
        theirs: thread,
        now,
      });
      return thread;
    });
    return opened;
  }

  /** Newest 200 of a conversation of one of these members, oldest first; without what was said in between. */
  async conversation(memberIds: readonly string[], conversation: string): Promise<readonly ConsultMessage[]> {
    if (conversation.length > 256 || conversation.includes('\0')) return [];
    const rows = await store.consultMessages(this.#db, { owners: memberIds, conversation, limit: shown });
    return rows.map((row) => ({
      id: row.id,
      kind: row.kind,
      isOwn: row.is_own,
      replyTo: row.reply_to,
      exchangeId: row.exchange_id,
      envelope: JSON.parse(row.envelope) as Envelope,
      reason: row.reason,
      createdAt: row.created_at,
    }));
  }
}
