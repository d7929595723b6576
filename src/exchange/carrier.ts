import type { Db, Tx } from '../db/types.ts';
import type { Clock } from '../lib/clock.ts';
import { Refusal, type RefusalCode, refusals } from '../lib/refusal.ts';
import type { MessageKind } from './message.ts';
import { carriedMessage, recordRemoteSession, withdrawRequest } from './store.ts';
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
  /** Where it goes, with the session when one is asked for. */
  to: string;
}

/** What the other side answered to the first try, for whoever waits on it. */
export type FirstAnswer = Refusal | { to: string | null };

/**
 * The exchange's half of carrying messages to other gateways: what is carried, and what becomes of the exchange. The outbox calls it
 * through the wire's client; {@link Carrier.waitForFirst} lets a caller hear of the first try.
 */
export class Carrier {
  readonly #db: Db;
  readonly #clock: Clock;
  /** By outbox row: callers that still wait for the first answer. */
  readonly #waiting = new Map<number, (answer: FirstAnswer) => void>();

  constructor(db: Db, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  /** The first answer of the far side to an outbox row, or null when none came within `ms`. A refusal that it hears takes the request back. */
  waitForFirst(outboxId: number, ms: number): Promise<FirstAnswer | null> {
    return new Promise((resolve) => {
      const done = (answer: FirstAnswer | null): void => {
        cancel();
        this.#waiting.delete(outboxId);
        resolve(answer);
      };
      const cancel = this.#clock.after(ms, () => done(null));
      this.#waiting.set(outboxId, done);
    });
  }

  /** Null when the message is gone. */
  async load(messageSeq: number): Promise<Carried | null> {
    const row = await carriedMessage(this.#db, messageSeq);
    if (!row) return null;
    const asksSession = /#(s\d+|new)$/.exec(row.kind === 'request' ? requestedTo(row.envelope) : row.to_addr);
    return {
      envelopeText: row.envelope,
      kind: row.kind,
      messageId: row.id,
      thread: row.wire_thread,
      ownerId: row.owner,
      to: row.to_addr.replace(/#.*$/, '') + (asksSession?.[0] ?? ''),
    };
  }

  async delivered(tx: Tx, outboxId: number, messageSeq: number, to: string | null): Promise<void> {
    const session = /#s([1-9]\d{0,8})$/.exec(to ?? '');
    if (session) await recordRemoteSession(tx, messageSeq, Number(session[1]));
    this.#waiting.get(outboxId)?.({ to });
  }

  async givenUp(
    tx: Tx,
    outboxId: number,
    messageSeq: number,
    why: { code: string; words: string; status?: number; data?: Record<string, unknown> },
  ): Promise<void> {
    const waiting = this.#waiting.get(outboxId);
    if (waiting && why.code !== 'expired') {
      await withdrawRequest(tx, messageSeq);
      waiting(farRefusal(why));
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

function requestedTo(envelopeText: string): string {
  const { to } = JSON.parse(envelopeText) as { to?: unknown };
  return typeof to === 'string' ? to : '';
}

/** The far side's refusal in our own words' form: its code when we know it, else what its status means. */
function farRefusal(why: { code: string; words: string; status?: number; data?: Record<string, unknown> }): Refusal {
  const code: RefusalCode = why.code in refusals ? (why.code as RefusalCode) : 'forbidden';
  return new Refusal(code, why.words, {
    ...(why.status !== undefined && why.status >= 400 && { status: why.status }),
    ...(why.data && { data: why.data }),
  });
}
