import type { Tx } from '../../db/types.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Outbox } from '../../outbox/index.ts';
import { knockOf } from './store.ts';

/** Of the outbox; the muretai wire's client sends them. */
export const callKind = 'muretai-call';

/** A call that an agent here makes of another node, as its outbox row has it. */
export interface TrustCall {
  method: 'connect/request' | 'connect/respond' | 'onboard/claim';
  agentId: string;
  /** The did:key that is called, and where. */
  to: string;
  url: string;
  /** Beside the signed message. */
  params: Record<string, unknown>;
}

const keepTryingMs = 7 * 86_400_000;

/** Owes calls to nodes elsewhere, in the transaction that decides them. */
export class CallTeller {
  readonly #clock: Clock;
  readonly #outbox: Pick<Outbox, 'enqueue'>;

  constructor(deps: { clock: Clock; outbox: Pick<Outbox, 'enqueue'> }) {
    this.#clock = deps.clock;
    this.#outbox = deps.outbox;
  }

  owe(tx: Tx, call: TrustCall): Promise<number> {
    return this.#outbox.enqueue(tx, {
      kind: callKind,
      destination: new URL(call.url).host,
      lane: `${callKind} ${call.agentId} ${call.to}`,
      body: JSON.stringify(call),
      expiresAt: this.#clock.now() + keepTryingMs,
    });
  }

  /** The owner answered a did:key that had asked to connect: it is told, when it said where. */
  async answer(tx: Tx, q: { owner: string; did: string; agentId: string | null }, accept: boolean): Promise<void> {
    const { did } = q;
    if (!did.startsWith('did:key:')) return;
    const knock = await knockOf(tx, q);
    if (!knock?.url) return;
    await this.owe(tx, {
      method: 'connect/respond',
      agentId: knock.agentId,
      to: did,
      url: knock.url,
      params: { accept },
    });
  }
}
