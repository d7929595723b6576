import type { Called, TestGateway } from '../support/gateway.ts';
import { type Answered, type Identity, sendSigned } from '../support/peer.ts';

export interface Asked {
  /** The tenant: `joel`, `joel:dev:reviewer`. */
  to?: string;
  contextId?: string;
  taskId?: string;
  /** Of a capability token. */
  authorization?: string;
  metadata?: object;
}

/** What the gateway showed. */
export type Row = Called['json'];

let count = 0;

/** Of the gateways in the test, for what is signed. */
export const time = { now: (): number => Date.now() };

/** A plain A2A question of somebody who comes as itself. */
export function ask(
  gateway: TestGateway,
  by: Pick<Identity, 'keyId' | 'key'>,
  text: string,
  { to = 'joel:dev:reviewer', contextId, taskId, authorization, metadata }: Asked = {},
): Promise<Answered> {
  const message = {
    messageId: `owner-${process.pid}-${count++}`,
    role: 'ROLE_USER',
    parts: [{ text }],
    ...(contextId && { contextId }),
    ...(taskId && { taskId }),
    ...(metadata && { metadata }),
  };
  const params = { message, configuration: { returnImmediately: true } };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params });
  const headers = { 'a2a-version': '1.0', ...(authorization && { authorization }) };
  return sendSigned(gateway, { path: `/a2a/v1/${to}`, body, headers }, by, { now: time.now() });
}

/** The state of the task in an answer; `code status` of a refusal. */
export function outcome({ json }: Answered): string {
  const task = json?.result?.task ?? json?.result;
  if (task?.status) return task.status.state;
  const detail = json?.error?.data?.[0]?.metadata;
  return detail?.code ?? JSON.stringify(json);
}

export function taskId({ json }: Answered): string {
  return (json.result.task ?? json.result).id;
}

export async function stateOf(gateway: TestGateway, by: Pick<Identity, 'keyId' | 'key'>, id: string): Promise<string> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id } });
  const sent = { path: '/a2a/v1', body, headers: { 'a2a-version': '1.0' } };
  return outcome(await sendSigned(gateway, sent, by, { now: time.now() }));
}

export async function pending(gateway: TestGateway, token = gateway.token): Promise<Row[]> {
  return (await gateway.call('GET', '/api/v1/permissions/pending', { token })).json.permissions;
}

export function decide(
  gateway: TestGateway,
  id: string,
  decision: string,
  { scope, token = gateway.token }: { scope?: string; token?: string | null } = {},
): ReturnType<TestGateway['call']> {
  const body = { decision, ...(scope && { scope }) };
  return gateway.call('POST', `/api/v1/permissions/${id}/decide`, { token, body });
}

/** Makes a DID a contact of the admin, by a look-up of nothing but its document. */
export async function befriend(gateway: TestGateway, by: Identity, alias?: string): Promise<string> {
  await ask(gateway, by, 'May I?');
  const [request] = (await pending(gateway)).filter((row) => row.action === 'connect' && row.peer_did === by.did);
  await decide(gateway, request.id, 'allow_always');
  const { json } = await gateway.call('GET', '/api/v1/contacts');
  const contact = json.contacts.find((each: { peer: { did: string } }) => each.peer.did === by.did);
  if (alias) await gateway.call('PATCH', `/api/v1/contacts/${contact.id}`, { body: { alias } });
  return contact.id;
}

export function putPolicy(gateway: TestGateway, yaml: string, token?: string): ReturnType<TestGateway['call']> {
  return gateway.call('PUT', '/api/v1/policies', {
    body: yaml,
    headers: { 'content-type': 'application/yaml' },
    ...(token && { token }),
  });
}
