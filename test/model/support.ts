import { eventually, type TestGateway } from '../support/gateway.ts';

export const key = 'sk-secret-0123456789abcdefWXYZ';

/** An agent of the admin's that a model answers for. Its address. */
export async function modelAgent(
  gateway: TestGateway,
  name: string,
  settings: Record<string, unknown>,
  allow: string[] = ['org', 'anyone'],
): Promise<string> {
  const address = `${gateway.org}/general/joel/${name}`;
  await gateway.admin.announce(address, { allow });
  const set = await gateway.call('PUT', `/api/v1/agents/${address}/model`, {
    body: { provider: 'openai', model: 'stand-in-1', key, memory: false, ...settings },
  });
  if (set.status !== 200) throw new Error(`${set.status} ${set.text}`);
  return address;
}

export interface Envelope {
  id: string;
  kind: string;
  from: string;
  reply_to: string;
  thread: string;
  error?: boolean;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers
  body: any;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers
  sig?: any;
}

let count = 0;

/** A request of one of these tokens' agents; its id. */
export async function request(
  gateway: TestGateway,
  q: { from: string; to: string; text: string; thread?: string; token?: string },
): Promise<string> {
  const id = `model-${process.pid}-${count++}`;
  const body = {
    v: 1,
    id,
    kind: 'request',
    from: q.from,
    to: q.to,
    body: { type: 'text/plain', text: q.text },
    ...(q.thread && { thread: q.thread }),
  };
  const sent = await gateway.call('POST', '/redsyn/v1/messages', { body, ...(q.token && { token: q.token }) });
  if (sent.status >= 300) throw new Error(`${sent.status} ${sent.text}`);
  return id;
}

/** What came back for it: the reply, and all that was said before. */
export async function answerTo(
  gateway: TestGateway,
  id: string,
  { from, token }: { from: string; token?: string },
): Promise<{ reply: Envelope; all: Envelope[] }> {
  const all: Envelope[] = [];
  const reply = await eventually(`an answer to ${id}`, async () => {
    const path = `/redsyn/v1/inbox/${from}?reply_to=${id}&wait=5`;
    const taken = await gateway.call('GET', path, token ? { token } : {});
    all.push(...taken.json.items);
    const ids = taken.json.items.map((item: Envelope) => item.id);
    await gateway.call('POST', `/redsyn/v1/inbox/${from}/ack`, { body: { ids }, ...(token && { token }) });
    return all.find(({ kind }) => kind === 'reply');
  });
  return { reply, all };
}

export async function ask(
  gateway: TestGateway,
  q: { from: string; to: string; text: string; thread?: string; token?: string },
): Promise<Envelope> {
  const id = await request(gateway, q);
  return (await answerTo(gateway, id, q)).reply;
}
