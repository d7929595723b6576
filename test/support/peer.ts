import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { type NodeKeys, nodeKeys } from '../../src/client/index.ts';
import { signRequest } from '../../src/identity/http-signature/sign.ts';
import { generateSeed, type KeyPair, keyPair } from '../../src/identity/keys.ts';
import { signEnvelope } from '../../src/identity/redsyn-seal.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { REDSYN_EXTENSION } from '../../src/wires/a2a/protocol.ts';
import type { Lifetime } from './database.ts';
import { eventually, type TestGateway } from './gateway.ts';

/** A DID on the peer with its key, and what its did.json says of it. */
export interface Identity {
  readonly did: string;
  readonly keyId: string;
  readonly key: KeyPair;
  readonly path: string;
}

export type Answer = (request: IncomingMessage, response: ServerResponse, body: Buffer) => void;

/** One that arrived at the peer. */
export interface Arrived {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/**
 * A server of somebody else's that signs as it likes: its DID documents, its answers and what it sends are whatever a test makes of them.
 */
export interface Peer {
  readonly authority: string;
  readonly instance: Identity;
  readonly requests: Arrived[];
  /** An identity with a document that is in order. `path` beneath the instance: `agents:eve`. */
  identity(path: string): Identity;
  /** From now on this path (without query) is answered so; undefined: as before. */
  answer(path: string, answer: Answer | undefined): void;
}

export async function startPeer(lifetime: Lifetime): Promise<Peer> {
  const answers = new Map<string, Answer>();
  const requests: Arrived[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    request.on('error', () => {});
    response.on('error', () => {});
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const path = (request.url ?? '').split('?', 1)[0]!;
    requests.push({ method: request.method ?? '', path, headers: request.headers, body: body.toString() });
    (answers.get(path) ?? notFound)(request, response, body);
  });
  await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve));
  lifetime.after(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const authority = `localhost:${(server.address() as AddressInfo).port}`;

  const identity = (path: string): Identity => {
    const did = ['did:web', authority.replace(':', '%3A'), ...(path === '' ? [] : [path])].join(':');
    const where = path === '' ? '/.well-known/did.json' : `/${path.replaceAll(':', '/')}/did.json`;
    const made = { did, keyId: `${did}#key-1`, key: keyPair(generateSeed()), path: where };
    answers.set(where, says(documentOf(made)));
    return made;
  };
  return {
    authority,
    instance: identity(''),
    requests,
    identity,
    answer(path, answer) {
      if (answer) answers.set(path, answer);
      else answers.delete(path);
    },
  };
}

export function documentOf({ did, keyId, key }: Omit<Identity, 'path'>, more: object = {}): Record<string, unknown> {
  return {
    '@context': ['https://www.w3.org/ns/did/v1'],
    id: did,
    verificationMethod: [
      {
        id: keyId,
        type: 'Ed25519VerificationKey2020',
        controller: did,
        publicKeyMultibase: key.publicKeyMultibase,
      },
    ],
    authentication: [keyId],
    ...more,
  };
}

export function says(value: unknown, status = 200, headers: Record<string, string> = {}): Answer {
  return (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));
  };
}

export const redirectsTo =
  (location: string): Answer =>
  (_request, response) =>
    void response.writeHead(302, { location }).end();

export const neverAnswers: Answer = () => {};

/** `bytes` of a document that would be right if it ended. */
export const isHuge =
  (identity: Identity, bytes: number): Answer =>
  (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    const text = JSON.stringify(documentOf(identity, { padding: 'x'.repeat(bytes) }));
    response.end(text);
  };

const notFound = says({ error: 'nothing here' }, 404);

export interface Sent {
  readonly method?: string;
  readonly path: string;
  readonly body?: string | undefined;
  readonly headers?: Record<string, string>;
}

export interface Answered {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers
  readonly json: any;
}

/** Sends exactly these headers (with Host and Content-Length), whatever a fetch would make of them. */
export function sendTo(
  gateway: Pick<TestGateway, 'authority'>,
  { method = 'POST', path, body, headers }: Sent,
): Promise<Answered> {
  const [, port] = gateway.authority.split(':');
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      {
        host: '127.0.0.1',
        port: Number(port),
        method,
        path,
        headers: {
          host: gateway.authority,
          ...(body !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
          ...headers,
        },
        agent: false,
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString();
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json: parsed(text) });
        });
      },
    );
    request.on('error', reject);
    request.end(body);
  });
}

/** The bytes of a request as they are; all that comes back until the gateway closes. */
export function sendRaw(gateway: Pick<TestGateway, 'authority'>, bytes: string): Promise<Answered> {
  const [, port] = gateway.authority.split(':');
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), '127.0.0.1', () => socket.write(bytes));
    let all = '';
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      all += chunk;
    });
    socket.on('error', reject).on('close', () => {
      const text = all.slice(all.indexOf('\r\n\r\n') + 4);
      resolve({ status: Number(/^HTTP\/1\.1 (\d{3})/.exec(all)?.[1]), headers: {}, text, json: parsed(text) });
    });
  });
}

/** The headers that sign a request to a gateway. */
export function signatureFor(
  gateway: Pick<TestGateway, 'url'>,
  { method = 'POST', path, body }: Sent,
  by: Pick<Identity, 'keyId' | 'key'>,
  options: { now?: number; nonce?: string } = {},
): Promise<Record<string, string>> {
  return signRequest(
    { method, url: gateway.url + path, ...(body !== undefined && { body: Buffer.from(body) }) },
    {
      keyId: by.keyId,
      key: by.key,
      now: options.now ?? Date.now(),
      ...(options.nonce !== undefined && { nonce: options.nonce }),
    },
  );
}

/** Signs and sends. */
export async function sendSigned(
  gateway: Pick<TestGateway, 'url' | 'authority'>,
  sent: Sent,
  by: Pick<Identity, 'keyId' | 'key'>,
  options: { now?: number } = {},
): Promise<Answered> {
  const headers = await signatureFor(gateway, sent, by, options);
  return sendTo(gateway, { ...sent, headers: { ...headers, ...sent.headers } });
}

let count = 0;

export const nodeOfPeer: NodeKeys = nodeKeys();

/** An envelope of a request, sealed by the peer's node. `sealed: false` leaves the seal out. */
export function envelope(
  fields: { from: string; to?: string; kind?: string; [more: string]: unknown },
  options: { sealed?: boolean; keys?: NodeKeys; now?: number } = {},
): Record<string, unknown> {
  const full: Record<string, unknown> = {
    v: 1,
    id: `peer-${process.pid}-${count++}`,
    kind: 'request',
    ts: Math.floor((options.now ?? Date.now()) / 1000),
    body: { type: 'text/plain', text: 'May I ask?' },
    ...fields,
  };
  if (options.sealed === false) return full;
  const sig = signEnvelope(full as never, (options.keys ?? nodeOfPeer).signing);
  if (sig instanceof Refusal) throw new Error(sig.words);
  return { ...full, sig };
}

/** An envelope in A2A 1.0, as gateways carry it. */
export function inA2a(of: Record<string, unknown>, more: { message?: object; params?: object } = {}): string {
  return JSON.stringify({
    jsonrpc: '2.0',
    id: 7,
    method: 'SendMessage',
    params: {
      configuration: { returnImmediately: true },
      ...more.params,
      message: {
        messageId: of.id ?? 'no-id',
        role: 'ROLE_USER',
        parts: [{ text: 'shown' }],
        metadata: { [REDSYN_EXTENSION]: of },
        ...more.message,
      },
    },
  });
}

/** The same in A2A 0.3. */
export function inA2a03(of: Record<string, unknown>, more: { message?: object } = {}): string {
  return JSON.stringify({
    jsonrpc: '2.0',
    id: 7,
    method: 'message/send',
    params: {
      configuration: { blocking: false },
      message: {
        kind: 'message',
        messageId: of.id ?? 'no-id',
        role: 'user',
        parts: [{ kind: 'text', text: 'shown' }],
        metadata: { [REDSYN_EXTENSION]: of },
        ...more.message,
      },
    },
  });
}

/** Code, status and gate of a refusal, in whichever wire's form it is; `ok` for what is none. */
export function refusalOf({ status, json }: Answered): { code: string; status: number; gate?: string | undefined } {
  if (json?.jsonrpc === '2.0') {
    const { error } = json;
    if (!error) return { code: 'ok', status };
    const { code = `rpc ${error.code}`, gate } = error.data?.[0]?.metadata ?? {};
    return { code, status, gate };
  }
  if (typeof json?.code === 'string') return { code: json.code, status, gate: json.gate };
  if (typeof json?.error?.code === 'string') return { code: json.error.code, status };
  return { code: 'ok', status };
}

/** How many rows there are of all that a message could leave. */
export async function rows(gateway: Pick<TestGateway, 'database'>): Promise<Record<string, number>> {
  const { rows: found } = await gateway.database.db.query<Record<string, number>>(
    `select (select count(*)::int from messages) as messages, (select count(*)::int from deliveries) as deliveries,
       (select count(*)::int from exchanges) as exchanges, (select count(*)::int from conversations) as conversations,
       (select count(*)::int from conversation_participants) as participants, (select count(*)::int from sessions) as sessions,
       (select count(*)::int from outbox where kind = 'redsyn') as outbox, (select count(*)::int from connection_requests) as requests`,
  );
  return found[0]!;
}

/**
 * Links the peer, as the org `handle`, with the gateway's primary org: the peer proposes, the admin says yes. The peer takes what it is told
 * about the link and says nothing about its own side again.
 */
export async function linkPeer(gateway: TestGateway, peer: Peer, handle: string): Promise<void> {
  peer.answer('/federation/v1/links', (_request, response) => void response.writeHead(202).end());
  await tellLink(gateway, peer, handle, { want: true });
  await gateway.admin.call('POST', `/orgs/${gateway.org}/links`, { other: peer.authority });
  await eventually('the link with the peer', async () => {
    const { links } = await gateway.admin.call<{ links: Array<{ other: string; state: string }> }>('GET', '/links');
    return links.some((link) => link.other === handle && link.state === 'active');
  });
}

/** The peer tells its side of the link. */
export function tellLink(
  gateway: TestGateway,
  peer: Peer,
  handle: string,
  { want, ...more }: { want: boolean; [more: string]: unknown },
): Promise<Answered> {
  const rev = Date.now();
  const body = JSON.stringify({
    v: 1,
    from: { org: handle, primary: true },
    to: { org: null },
    rev,
    want: want ? rev : 0,
    voids: want ? 0 : rev,
    seen: 0,
    calls_you: gateway.org,
    exposes: [{ kind: 'agent', pattern: '*' }],
    rules: null,
    log: [],
    ...more,
  });
  return sendSigned(gateway, { path: '/federation/v1/links', body }, peer.instance);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
