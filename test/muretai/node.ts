import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { generateSeed, type KeyPair, keyPair } from '../../src/identity/keys.ts';
import { readMessage, type SignedMessage, signMessage, verifyMessage } from '../../src/identity/muretai-message.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import type { Lifetime } from '../support/database.ts';
import type { Called, TestGateway } from '../support/gateway.ts';

export interface Heard {
  method: string;
  params: Called['json'];
  message: SignedMessage;
}

/** What a node answers to a call: a result, or an error's code. */
export type Answers = (heard: Heard) => object | number;

/** A muretai node: a did:key, a place where it is called, and calls of its own. It answers nothing that is not signed, and for it. */
export interface Node {
  readonly pair: KeyPair;
  readonly did: string;
  readonly url: string;
  readonly heard: Heard[];
  answers: Answers;
}

export async function startNode(lifetime: Lifetime, answers: Answers = () => ({})): Promise<Node> {
  const pair = keyPair(generateSeed());
  const heard: Heard[] = [];
  const node = { pair, did: pair.did, url: '', heard, answers };
  const server: Server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += String(chunk);
    const { id, method, params } = JSON.parse(text);
    const message = readMessage(JSON.stringify(params.message));
    if (message instanceof Refusal) throw new Error(message.words);
    const { from, to, sig, timestamp } = message;
    const fields = { ...message, from: from!, to: to!, timestamp: timestamp! };
    const isGood = to === pair.did && !(verifyMessage(fields, sig!) instanceof Refusal);
    const call = { method, params, message };
    if (isGood) heard.push(call);
    const said = isGood ? node.answers(call) : -32001;
    const outcome = typeof said === 'number' ? { error: { code: said, message: 'no' } } : { result: said };
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ jsonrpc: '2.0', id, ...outcome }));
  });
  await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve));
  lifetime.after(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  node.url = `http://localhost:${(server.address() as AddressInfo).port}/`;
  return node;
}

let count = 0;

export interface Sent {
  /** The did:key that is called, and the path of its agent. */
  to: string;
  path: string;
  method: string;
  text?: string;
  params?: object;
  metadata?: Record<string, unknown>;
  messageId?: string;
  now?: number;
}

/** Signs and sends. */
export function call(gateway: TestGateway, by: KeyPair, sent: Sent): Promise<Called> {
  const {
    to,
    path,
    method,
    text = method,
    params = {},
    metadata,
    messageId = `m-${process.pid}-${count++}`,
    now = Date.now(),
  } = sent;
  const fields = { role: 'user' as const, to, text, messageId, contextId: null, now };
  const message = signMessage({ ...fields, ...(metadata && { more: metadata }) }, by);
  const body = { jsonrpc: '2.0', id: 1, method, params: { message, ...params } };
  return gateway.call('POST', path, { token: null, body });
}

/** `code` of an error, or the result. */
export function outcome({ json }: Called): Called['json'] {
  return json?.error ? json.error.code : json?.result;
}
