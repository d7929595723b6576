import type { DeliveredEnvelope } from '../../src/client/index.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { newId } from '../../src/lib/ids.ts';
import type { Called, TestGateway } from '../support/gateway.ts';

let events = 0;

export function event(from: string, to: string, more: Record<string, unknown> = {}): Record<string, unknown> {
  const id = `e${++events}-${newId(systemClock)}`;
  return { v: 1, id, kind: 'event', from, to, body: { type: 'text/plain', text: `event ${events}` }, ...more };
}

export function publish(at: TestGateway, envelope: Record<string, unknown>, token = at.token): Promise<Called> {
  return at.call('POST', '/redsyn/v1/messages', { body: envelope, token });
}

export function subscribe(at: TestGateway, agent: string, topic: string, token = at.token): Promise<Called> {
  return at.call('PUT', '/redsyn/v1/subscriptions', { body: { agent, topic }, token });
}

export function unsubscribe(at: TestGateway, agent: string, topic: string, token = at.token): Promise<Called> {
  return at.call('POST', '/redsyn/v1/subscriptions/remove', { body: { agent, topic }, token });
}

/** What waits now, taken and confirmed. */
export async function inbox(at: TestGateway, agent: string, token = at.token, wait = 0): Promise<DeliveredEnvelope[]> {
  const { json } = await at.call('GET', `/redsyn/v1/inbox/${agent}?wait=${wait}`, { token });
  const items = json.items as DeliveredEnvelope[];
  const ids = items.map(({ id }) => id);
  if (ids.length > 0) await at.call('POST', `/redsyn/v1/inbox/${agent}/ack`, { token, body: { ids } });
  return items;
}

export async function topicsOf(at: TestGateway, token = at.token): Promise<Array<Record<string, unknown>>> {
  return (await at.call('GET', '/redsyn/v1/topics', { token })).json.topics;
}
