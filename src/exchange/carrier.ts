import type { Db, Tx } from '../db/types.ts';
import { readAddress } from '../directory/names.ts';
import type { Clock } from '../lib/clock.ts';
import { Refusal, type RefusalCode, refusals } from '../lib/refusal.ts';
import type { GivenUp, OutboxItem, SendResult } from '../outbox/types.ts';
import { withZip } from './files/files.ts';
import { pauseSender } from './limits/store.ts';
import type { MessageKind } from './message.ts';
import { carriedMessage, recordRemoteAgent, recordRemoteSession, withdrawRequest } from './store.ts';
import { endUndelivered, undeliveredWords } from './undelivered.ts';

/** A message that leaves for another gateway, as its carrier needs it. */
export interface Carried {
  /** The envelope, byte for byte as the sender's node wrote it. */
  envelopeText: string;
  kind: MessageKind;
  messageId: string;
  /** The thread as the receiving side writes it. */
  thread: string;
  /** Whose key signs the carrier: an owner here, or null for the gateway's own notice, which the instance signs. */
  ownerId: string | null;
  /** The org here from which it leaves. */
  orgId: string | null;
  /** Where it goes, with the session when one is asked for. */
  to: string;
  /** Of a request: how many requests led to it, itself included; 0: nothing is known. */
  turns?: number;
  /** An event that this gateway hands on: its topic and publisher in full, and the orgs behind the other gateway that it is for. */
  handedOn?: { topic: string; from: string; audience: ReadonlyArray<{ org: string; rev: number }> };
}

/** What the wire's client asks of the exchange about an outbox item. */
export interface MessageCarrier {
  /** Null when the message is gone, or may not go there any more. */
  load(messageSeq: number, item: OutboxItem): Promise<Carried | null>;
  /** `to`: whom the far side says it is for. */
  delivered(tx: Tx, messageSeq: number, to: string | null): Promise<void>;
  givenUp(tx: Tx, outboxId: number, messageSeq: number, why: GivenUp, item: OutboxItem): Promise<void>;
}

/** The outbox as a sender waits on it. */
export interface FirstTries {
  sendNow(outboxIds: readonly number[]): void;
  firstTry(outboxId: number, timeoutMs: number): Promise<SendResult | null>;
  isDown(destination: string): Promise<boolean>;
}

/** Recording the end of a try takes no longer. */
const recordMs = 10_000;

/**
 * The exchange's half of carrying messages to other gateways: what is carried, and what becomes of the exchange. The outbox calls it
 * through the wire's client.
 */
export class Carrier {
  readonly #db: Db;
  readonly #clock: Clock;
  readonly #outbox: FirstTries;
  /** Outbox rows whose sender still waits for the first answer; `claimed` once a refusal is being recorded as that answer. */
  readonly #waiting = new Map<number, 'open' | 'claimed'>();

  constructor(db: Db, clock: Clock, outbox: FirstTries) {
    this.#db = db;
    this.#clock = clock;
    this.#outbox = outbox;
  }

  /**
   * Sends an outbox row now and waits for what the far side answers: its refusal (then the request was taken back, and its id may be used
   * again), the session it opened (`#s7`), or null when no answer came within `ms`.
   */
  async first(outboxId: number, destination: string, ms: number): Promise<Refusal | { session: string } | null> {
    this.#waiting.set(outboxId, 'open');
    try {
      this.#outbox.sendNow([outboxId]);
      const [tried, down] = [this.#outbox.firstTry(outboxId, ms), this.#outbox.isDown(destination)];
      let result = (await down) ? null : await tried;
      // A refusal that is being recorded as the answer must become the answer.
      if (result === null && this.#waiting.get(outboxId) === 'claimed')
        result = await this.#outbox.firstTry(outboxId, recordMs);
      if (result?.outcome === 'refused') return farRefusal(result);
      return result?.outcome === 'delivered' ? { session: noted(result.note) } : null;
    } finally {
      this.#waiting.delete(outboxId);
    }
  }

  /** Somebody still waits for the first answer to that outbox row. */
  awaits(outboxId: number): boolean {
    return this.#waiting.has(outboxId);
  }

  /** Null when the message is gone. */
  async load(messageSeq: number): Promise<Carried | null> {
    const row = await carriedMessage(this.#db, messageSeq);
    if (!row) return null;
    const asksSession = /#(s\d+|new)$/.exec(row.kind === 'request' ? requestedTo(row.envelope) : row.to_addr);
    return {
      envelopeText: await withZip(this.#db, messageSeq, row.envelope),
      kind: row.kind,
      messageId: row.id,
      thread: row.wire_thread,
      ownerId: row.owner,
      orgId: row.org_id,
      to: row.to_addr.replace(/#.*$/, '') + (asksSession?.[0] ?? ''),
      ...(row.turns !== null && { turns: row.turns }),
    };
  }

  async delivered(tx: Tx, messageSeq: number, to: string | null): Promise<void> {
    const at = to === null ? null : readAddress(to);
    if (at === null || at instanceof Refusal) return;
    // Who asked for an owner's default agent is told which one that is; nobody else's can stand in for it.
    await recordRemoteAgent(tx, messageSeq, at);
    if (typeof at.session === 'number') await recordRemoteSession(tx, messageSeq, at.session);
  }

  async givenUp(
    tx: Tx,
    outboxId: number,
    messageSeq: number,
    why: { code: string; words: string; status?: number; data?: Record<string, unknown> },
  ): Promise<void> {
    // What came through too many agents is that one message; what grows is paused.
    if (why.code === 'loop_detected' && why.data?.of === 'turns') await pauseSender(tx, messageSeq, this.#clock.now());
    if (this.#waiting.has(outboxId) && why.code !== 'expired') {
      this.#waiting.set(outboxId, 'claimed');
      await withdrawRequest(tx, messageSeq);
      return;
    }
    const now = this.#clock.now();
    if (why.code === 'expired') {
      await endUndelivered(tx, messageSeq, 'expired', (address) => undeliveredWords('expired', address), now);
    } else {
      await endUndelivered(tx, messageSeq, 'refused', () => `not delivered: ${why.words}`, now);
    }
  }
}

/** The session that the far side says it opened, or ''. Whom the message is for is not for it to say. */
function noted(note: unknown): string {
  const to = (note as { to?: unknown } | null | undefined)?.to;
  return (typeof to === 'string' && /#s[1-9]\d{0,8}$/.exec(to)?.[0]) || '';
}

function requestedTo(envelopeText: string): string {
  const { to } = JSON.parse(envelopeText) as { to?: unknown };
  return typeof to === 'string' ? to : '';
}

/** The far side's refusal in our own form: its code when we know it. Its 401 is about this gateway: the caller here is who it proved to be. */
function farRefusal(why: { code: string; words: string; status?: number; data?: Record<string, unknown> }): Refusal {
  const code: RefusalCode = Object.hasOwn(refusals, why.code) ? (why.code as RefusalCode) : 'forbidden';
  return new Refusal(code, why.words, {
    ...(why.status !== undefined && why.status >= 400 && { status: why.status === 401 ? 403 : why.status }),
    ...(why.data && { data: why.data }),
  });
}
