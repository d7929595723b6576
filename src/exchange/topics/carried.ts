import type { Db, Tx } from '../../db/types.ts';
import type { Clock } from '../../lib/clock.ts';
import type { GivenUp, OutboxItem } from '../../outbox/types.ts';
import type { Carried, Carrier, MessageCarrier } from '../carrier.ts';
import { withZip } from '../files/files.ts';
import type { Envelope } from '../message.ts';
import { audienceBehind, type EventRow, eventBySeq, insertNotice, isLinkActive, publisherOf } from './store.ts';

/** How long the word that an event went nowhere waits for its publisher. */
const noticeTtl = 7 * 86_400_000;

/** What `spread_event` notes with an event that leaves: it goes to its topic's own gateway, or to a gateway whose orgs listen. */
type Errand = { link: string } | { link?: undefined; topic: string; checks: string[] };

/** Carries events: to a topic's own gateway under the publisher's key, and from it to the gateways of those who listen under its own. */
export class EventCarrier implements MessageCarrier {
  readonly #db: Db;
  readonly #clock: Clock;
  readonly #carrier: Pick<Carrier, 'awaits' | 'givenUp'>;

  constructor(db: Db, clock: Clock, carrier: Pick<Carrier, 'awaits' | 'givenUp'>) {
    this.#db = db;
    this.#clock = clock;
    this.#carrier = carrier;
  }

  /** Null when it may no longer go there: each event is checked against the link again when it is handed out. */
  async load(messageSeq: number, item: OutboxItem): Promise<Carried | null> {
    const event = await eventBySeq(this.#db, messageSeq);
    if (!event) return null;
    const errand = errandOf(item);
    const carried = {
      envelopeText: await withZip(this.#db, messageSeq, event.envelope),
      kind: 'event' as const,
      messageId: event.id,
      thread: threadOf(event),
      orgId: null,
      to: event.to_addr,
    };
    if (errand.link !== undefined) {
      return (await isLinkActive(this.#db, errand.link)) ? { ...carried, ownerId: ownerOf(event) } : null;
    }
    const { topic: topicId, checks } = errand;
    const { destination: domain } = item;
    const audience = await audienceBehind(this.#db, { topicId, domain, checks, signed: event.signed });
    if (audience.length === 0) return null;
    return { ...carried, ownerId: null, handedOn: { topic: event.to_addr, from: event.from_addr, audience } };
  }

  async delivered(): Promise<void> {}

  /** Whoever published hears of it when the topic's gateway never took it. Nobody else is told: nobody answers for an event. */
  async givenUp(tx: Tx, outboxId: number, messageSeq: number, why: GivenUp, item: OutboxItem): Promise<void> {
    const { link } = errandOf(item);
    if (link === undefined) return;
    if (this.#carrier.awaits(outboxId) && why.code !== 'expired') {
      return this.#carrier.givenUp(tx, outboxId, messageSeq, why);
    }
    const event = await eventBySeq(tx, messageSeq);
    const owner = event && ownerOf(event);
    const publisher = owner ? await publisherOf(tx, messageSeq, owner) : null;
    if (!event || !owner || !publisher) return;
    const now = this.#clock.now();
    const words = !(await isLinkActive(tx, link))
      ? 'the link with that organisation has ended'
      : why.code === 'expired'
        ? `it expired before ${event.to_addr} took it`
        : why.words;
    const envelope: Envelope = {
      v: 1,
      id: `undelivered-${messageSeq}`,
      kind: 'reply',
      from: event.to_addr,
      thread: publisher.thread,
      reply_to: event.id,
      ts: Math.floor(now / 1000),
      body: { type: 'text/plain', text: `not delivered: ${words}` },
      error: true,
    };
    const isNew = await insertNotice(tx, {
      ...publisher,
      id: envelope.id,
      from: event.to_addr,
      to: event.from_addr,
      replyTo: event.id,
      envelope: JSON.stringify(envelope),
      owner,
      now,
      expiresAt: now + noticeTtl,
    });
    if (isNew) tx.notify(`inbox:${publisher.agentId}`);
  }
}

function errandOf({ body }: OutboxItem): Errand {
  return JSON.parse(body ?? '{"topic":"","checks":[]}') as Errand;
}

function ownerOf({ sender }: EventRow): string | null {
  return sender.startsWith('m:') ? sender.slice('m:'.length) : null;
}

function threadOf({ envelope, id }: EventRow): string {
  const { thread } = JSON.parse(envelope) as { thread?: unknown };
  return typeof thread === 'string' && thread !== '' ? thread : id;
}
