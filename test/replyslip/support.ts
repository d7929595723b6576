import assert from 'node:assert/strict';
import type { TestGateway } from '../support/gateway.ts';

export interface TestAgent {
  id: string;
  name: string;
  address: string;
  key: string;
}

/** An agent that registered with a join code of the admin's. */
export async function registered(gateway: TestGateway, name: string, more: object = {}): Promise<TestAgent> {
  const { json } = await gateway.call('POST', '/api/v1/join-codes');
  const done = await gateway.call('POST', '/api/v1/agents/register', { token: json.code, body: { name, ...more } });
  assert.equal(done.status, 201, done.text);
  const { agent, api_key: key } = done.json;
  return { id: agent.id, name, address: agent.address, key };
}

export async function setDelivery(gateway: TestGateway, agent: TestAgent, order: object): Promise<object> {
  const { status, json, text } = await gateway.call('PUT', `/api/v1/agents/${agent.id}/delivery`, { body: order });
  assert.equal(status, 200, text);
  return json;
}

let count = 0;

/** An envelope from an agent with its own key. Answers its id. */
export async function say(gateway: TestGateway, from: TestAgent, envelope: object): Promise<string> {
  const id = `say-${++count}`;
  const { status, text } = await gateway.call('POST', '/redsyn/v1/messages', {
    token: from.key,
    body: {
      v: 1,
      id,
      from: from.address,
      kind: 'request',
      body: { type: 'text/plain', text: 'secret words' },
      ...envelope,
    },
  });
  assert.equal(status, 201, text);
  return id;
}
