import type { DeliveredEnvelope } from '../../src/client/index.ts';
import type { Lifetime } from '../support/database.ts';
import { eventually, type TestGateway, type TestGatewayOptions, team, testGateway } from '../support/gateway.ts';

export const reviewer = 'acme/dev/joel/reviewer';

/** A gateway with an agent that asks agents elsewhere. */
export interface Asker {
  readonly gateway: TestGateway;
  ask(to: string, text?: string, more?: object): Promise<{ id: string; thread: string; to: string }>;
  /** All that comes of a request, its reply last. Acked. */
  answersTo(id: string): Promise<DeliveredEnvelope[]>;
  replyTo(id: string): Promise<DeliveredEnvelope>;
  /** The next that is told of it. Acked. */
  next(id: string): Promise<DeliveredEnvelope>;
  /** What the POST is answered when the message is refused. */
  refusal(to: string, more?: object): Promise<{ status: number; code: string; error: string }>;
}

export async function startAsker(lifetime: Lifetime, options: TestGatewayOptions = {}): Promise<Asker> {
  const gateway = await testGateway(lifetime, { org: 'acme', admin: 'joel', ...options });
  await team(gateway, 'dev', ['joel']);
  await gateway.admin.announce(reviewer);
  const { admin } = gateway;
  const take = async (id: string): Promise<DeliveredEnvelope[]> => {
    const items = await admin.take(reviewer, { wait: 1, replyTo: id });
    await admin.ack(
      reviewer,
      items.map((one) => one.id),
    );
    return items;
  };
  const early = new Map<string, DeliveredEnvelope[]>();
  const answersTo = async (id: string): Promise<DeliveredEnvelope[]> => {
    const all = early.get(id) ?? [];
    await eventually(`the reply to ${id}`, async () => {
      if (!all.some(({ kind }) => kind === 'reply')) all.push(...(await take(id)));
      return all.some(({ kind }) => kind === 'reply');
    });
    return all;
  };
  return {
    gateway,
    ask: (to, text = 'How are you?', more = {}) => admin.send({ from: reviewer, to, text, ...more }),
    answersTo,
    replyTo: async (id) => (await answersTo(id)).at(-1)!,
    next(id) {
      return eventually(`something about ${id}`, async () => {
        const left = early.get(id) ?? [];
        if (left.length === 0) left.push(...(await take(id)));
        early.set(id, left);
        return left.shift();
      });
    },
    async refusal(to, more = {}) {
      const body = { v: 1, kind: 'request', from: reviewer, to, body: { type: 'text/plain', text: 'x' }, ...more };
      const { status, json } = await gateway.call('POST', '/redsyn/v1/messages', { body });
      return { status, ...json };
    },
  };
}
