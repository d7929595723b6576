import { AgentCard } from '@a2a-js/sdk';
import { type Client, ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import type { DeliveredEnvelope } from '../../src/client/index.ts';
import type { Lifetime } from '../support/database.ts';
import { eventually, type TestGateway, type TestGatewayOptions, testGateway } from '../support/gateway.ts';

export const address = 'acme/general/joel/desk';
export const tenant = 'joel:general:desk';
/** Where 1.0 is spoken to the desk, and 0.3. */
export const path = `/a2a/v1/${tenant}`;
export const legacyPath = '/agents/joel/general/desk';

/** What an agent of A2A's vocabulary says in a body. */
export type Data = Record<string, unknown>;

export interface Say {
  progress(body: string | Data, more?: object): Promise<void>;
  reply(body: string | Data, more?: object): Promise<void>;
}

export type Behaviour = (text: string, say: Say, envelope: DeliveredEnvelope) => Promise<void>;

export interface Desk {
  readonly gateway: TestGateway;
  /** All that the agent took, in order. */
  readonly taken: DeliveredEnvelope[];
  /** Waits for something that the agent took. */
  took(what: (envelope: DeliveredEnvelope) => boolean): Promise<DeliveredEnvelope>;
  /** The agent posts this itself, at `base` instead of the gateway when it is given. */
  post(envelope: object, base?: string): Promise<{ status: number; json: { code?: string } }>;
  /** What an answer to a taken envelope looks like. */
  answering(envelope: DeliveredEnvelope, kind: 'progress' | 'reply', body: string | Data, more?: object): object;
}

/** A gateway with an agent behind REDSYN that takes anyone, or whom `allow` names, and does what its requests say. */
export async function startDesk(
  lifetime: Lifetime,
  options: TestGatewayOptions & { allow?: string[]; behave?: Behaviour } = {},
): Promise<Desk> {
  const { allow = ['anyone'], behave = asTold, ...more } = options;
  const stopping = new AbortController();
  const ends: Array<() => Promise<void>> = [];
  lifetime.after(async () => {
    stopping.abort();
    for (const end of ends.reverse()) await end();
  });
  const gateway = await testGateway({ after: (fn) => void ends.push(fn) }, { org: 'acme', admin: 'joel', ...more });
  await gateway.admin.announce(address, { allow, default: true, listed: true, front_desk: true });
  const taken: DeliveredEnvelope[] = [];

  const desk: Desk = {
    gateway,
    taken,
    took: (what) => eventually('the agent took it', async () => taken.find(what)),
    async post(envelope, base = gateway.url) {
      const response = await fetch(`${base}/redsyn/v1/messages`, {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.token}`, 'content-type': 'application/json' },
        body: JSON.stringify(envelope),
      });
      return { status: response.status, json: (await response.json()) as { code?: string } };
    },
    answering: (envelope, kind, body, rest = {}) => ({
      v: 1,
      kind,
      from: address,
      thread: envelope.thread,
      reply_to: envelope.id,
      body:
        typeof body === 'string' ? { type: 'text/plain', text: body } : { type: 'application/a2a+json', data: body },
      ...rest,
    }),
  };

  async function serve(envelope: DeliveredEnvelope): Promise<void> {
    if (envelope.kind !== 'request') return;
    const said =
      (kind: 'progress' | 'reply') =>
      async (body: string | Data, rest?: object): Promise<void> => {
        const { status, json } = await desk.post(desk.answering(envelope, kind, body, rest));
        if (status !== 201 && json.code !== 'exchange_closed') throw new Error(JSON.stringify(json));
      };
    await behave(envelope.body.text ?? '', { progress: said('progress'), reply: said('reply') }, envelope);
  }

  async function listen(): Promise<void> {
    while (!stopping.signal.aborted) {
      const items = await gateway.admin
        .take(address, { wait: 25, max: 20, signal: stopping.signal })
        .catch((): DeliveredEnvelope[] => []);
      for (const item of items) {
        taken.push(item);
        void serve(item).catch((error) => !stopping.signal.aborted && console.error(error));
      }
      if (items.length > 0)
        await gateway.admin
          .ack(
            address,
            items.map((item) => item.id),
          )
          .catch(() => undefined);
    }
  }
  const listening = listen();
  ends.push(() => listening);
  return desk;
}

/** One word of the request says what to do. */
export const asTold: Behaviour = async (text, say) => {
  switch (text.split(' ')[0]) {
    case 'hold':
      return;
    case 'done':
      return say.reply({ status: { state: 'TASK_STATE_COMPLETED', message: { parts: [{ text: 'Done.' }] } } });
    case 'ask':
      return say.progress('Which year?', { body: { type: 'application/json', data: { question: 'Which year?' } } });
    case 'login':
      return say.progress({ status: { state: 'TASK_STATE_AUTH_REQUIRED', message: { parts: [{ text: 'Log in.' }] } } });
    case 'reject':
      return say.reply({ status: { state: 'rejected', message: { parts: [{ text: 'Not mine.' }] } } });
    case 'fail':
      return say.reply('It broke.', { error: true });
    case 'message':
      return say.reply({ message: { parts: [{ text: 'Just a word.' }] } });
    case 'stream':
      await say.progress({ status: { state: 'TASK_STATE_WORKING', message: { parts: [{ text: 'Counting.' }] } } });
      await say.progress({ artifacts: [{ artifactId: 'a', name: 'count', parts: [{ text: 'one ' }] }] });
      await say.progress({ artifacts: [{ artifactId: 'a', parts: [{ text: 'two' }], append: true, lastChunk: true }] });
      return say.reply({
        artifacts: [{ artifactId: 'b', parts: [{ data: { n: 2 } }, { raw: 'AAEC', filename: 'x.bin' }] }],
        status: { state: 'TASK_STATE_COMPLETED' },
      });
    default:
      return say.reply(`You said: ${text}`);
  }
};

export type Binding = 'JSONRPC' | 'HTTP+JSON';

/** The SDK's own client, made from the desk's own card. A token makes it somebody of the instance, else it is nobody. */
export async function sdkClient(
  { gateway }: Pick<Desk, 'gateway'>,
  {
    version,
    binding,
    token,
    base = gateway.url,
  }: { version: '1.0' | '0.3'; binding: Binding; token?: string; base?: string },
): Promise<Client> {
  const fetchImpl: typeof fetch = (input, init) => {
    const headers = new Headers(init?.headers);
    if (token) headers.set('authorization', `Bearer ${token}`);
    return fetch(String(input).replace(gateway.url, base), { ...init, headers });
  };
  const response = await fetch(`${gateway.url}${legacyPath}/.well-known/agent-card.json`, {
    headers: { 'a2a-version': '1.0' },
  });
  const card = AgentCard.fromJSON((await response.json()) as never);
  card.supportedInterfaces = card.supportedInterfaces.filter(
    (one) => one.protocolVersion === version && one.protocolBinding === binding,
  );
  const options = { fetchImpl, legacyCompat: { enabled: true } };
  return new ClientFactory({
    transports: [new JsonRpcTransportFactory(options), new RestTransportFactory(options)],
  }).createFromAgentCard(card);
}

export interface Spoken {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers
  json: any;
}

/** A JSON-RPC call of 1.0, or of 0.3 where the method's name is one of that version. */
export async function rpc(
  gateway: Pick<TestGateway, 'url'>,
  method: string,
  params: object,
  {
    token,
    target = path,
    headers = {},
  }: { token?: string | undefined; target?: string; headers?: Record<string, string> } = {},
): Promise<Spoken> {
  const response = await fetch(gateway.url + target, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(!method.includes('/') && { 'a2a-version': '1.0' }),
      ...(token && { authorization: `Bearer ${token}` }),
      ...headers,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  return { status: response.status, headers: response.headers, json: await response.json() };
}

let count = 0;

export function message(text: string, more: object = {}): object {
  return { messageId: `m-${++count}`, role: 'ROLE_USER', parts: [{ text }], ...more };
}

/** Sends a message and answers the task. */
export async function ask(
  gateway: Pick<TestGateway, 'url'>,
  text: string,
  { token, more = {}, configuration = {} }: { token?: string | undefined; more?: object; configuration?: object } = {},
  // biome-ignore lint/suspicious/noExplicitAny: tests look into tasks
): Promise<any> {
  const { json } = await rpc(gateway, 'SendMessage', { message: message(text, more), configuration }, { token });
  if (json.error) throw new Error(JSON.stringify(json.error));
  return json.result.task ?? json.result;
}
