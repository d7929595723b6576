import { Client, type ClientOptions, nodeKeys } from '../../src/client/index.ts';
import type { Lifetime } from '../support/database.ts';
import { person, type TestGateway, testGateway } from '../support/gateway.ts';

export const shout = 'acme/general/ana/shout';
export const cli = 'acme/general/joel/cli';

export interface Two {
  gateway: TestGateway;
  joel: Client;
  ana: Client;
  anaToken: string;
}

/** joel asks, ana's agent answers: each on a node of their own with keys, sealing as a program does by default. */
export async function twoPeople(lifetime: Lifetime): Promise<Two> {
  const gateway = await testGateway(lifetime);
  const { token } = await person(gateway, 'ana');
  const joel = await node(gateway, gateway.token);
  const ana = await node(gateway, token);
  await joel.announce(cli);
  await ana.announce(shout);
  return { gateway, joel, ana, anaToken: token };
}

/** A client on a further node of somebody, its keys registered. */
export async function node(
  gateway: TestGateway,
  token: string,
  options: Partial<ClientOptions> = {},
): Promise<Client & { token: string }> {
  const { json } = await gateway.call('POST', '/redsyn/v1/nodes', { token, body: { name: 'a further machine' } });
  const client = new Client({ url: gateway.url, token: json.token, keys: nodeKeys(), ...options });
  await client.registerKeys();
  return Object.assign(client, { token: json.token as string });
}

/** Runs until the test stops it. */
export function during(lifetime: Lifetime, work: (signal: AbortSignal) => Promise<void>): () => Promise<void> {
  const stop = new AbortController();
  const done = work(stop.signal);
  done.catch(() => undefined);
  const end = async (): Promise<void> => {
    stop.abort();
    await done;
  };
  lifetime.after(() => end().catch(() => undefined));
  return end;
}
