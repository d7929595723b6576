import type { Tx } from '../../db/types.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Outbox, OutboxItem, Sender, SendResult } from '../../outbox/index.ts';
import { codeOf, faultOf, type PeerAnswer, type PeerClient } from '../peer-client.ts';

export interface ConsentTellerDeps {
  clock: Clock;
  client: PeerClient;
  outbox: Pick<Outbox, 'enqueue'>;
}

const kind = 'consent';
/** Messages wait no longer than a day unless they say so. */
const keepTryingMs = 86_400_000;

/**
 * Tells another Gatehouse that one of its people was let in, so that it delivers at once what it holds for us (design §4 "Consent"). A server that is
 * no Gatehouse has no such call, and is left alone: its own next try finds the door open.
 */
export class ConsentTeller implements Sender {
  readonly kind = kind;
  readonly #deps: ConsentTellerDeps;

  constructor(deps: ConsentTellerDeps) {
    this.#deps = deps;
  }

  /** In the transaction that let it in. `did`: who was. */
  owe(tx: Tx, domain: string, did: string): Promise<number> {
    const expiresAt = this.#deps.clock.now() + keepTryingMs;
    return this.#deps.outbox.enqueue(tx, {
      kind,
      destination: domain,
      lane: `consent ${domain}`,
      body: did,
      expiresAt,
    });
  }

  async send(item: OutboxItem): Promise<SendResult> {
    let answer: PeerAnswer;
    try {
      answer = await this.#deps.client.post(item.destination, '/federation/v1/consent', { did: item.body });
    } catch (error) {
      return { outcome: 'retry', reason: faultOf(error), destinationDown: true };
    }
    const { status, json } = answer;
    if (status >= 200 && status < 300) return { outcome: 'delivered' };
    const reason = `${item.destination} answered ${status}${codeOf(json) && ` (${codeOf(json)})`}.`;
    if (status >= 500 || status === 429) return { outcome: 'retry', reason, destinationDown: status >= 500 };
    return { outcome: 'refused', code: codeOf(json) || 'not_found', words: reason, status };
  }
}
