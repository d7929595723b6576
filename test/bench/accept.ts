/**
 * `npm run bench:accept`: how many messages of 1 KB a server accepts. Gatehouse proves who sends (RFC 9421), looks at every gate and has the
 * message on the disk before it answers; the SDK's server does none of this. Ratios are of one run; read them, not the rates.
 */
import { randomBytes } from 'node:crypto';
import { nodeKeys } from '../../src/client/index.ts';
import { signRequest } from '../../src/identity/http-signature/sign.ts';
import { wireRequest } from '../../src/wires/a2a/client-request.ts';
import { envelope, linkPeer, startPeer } from '../support/peer.ts';
import { cpuOf } from './cpu.ts';
import { Load, post } from './load.ts';
import { gateway, lifetime, type Running, sdkServer } from './servers.ts';
import { option, print, quantile, type Row, word } from './table.ts';

const rounds = option('rounds', 5);
const scale = option('scale', 1);
const agents = 100;
const text = 'x'.repeat(1_000);
const run = randomBytes(3).toString('hex');
let count = 0;

interface Contender {
  name: string;
  at: Running;
  /** Requests of one measurement. */
  requests: number;
  make(n: number): Promise<Buffer[]>;
}

const life = lifetime();
const load = new Load();
try {
  const only = new RegExp(word('only') ?? '', 'i');
  const contenders = [...(await sdks()), ...(await gatehouse())].filter(({ name }) => only.test(name));
  for (const each of contenders) await measure(each, 32, Math.ceil(each.requests / 4));
  for (const connections of [32, 128]) {
    const rows = contenders.map(({ name }): Row => ({ name, samples: [] }));
    for (let round = 0; round < rounds; round++) {
      // Another one begins in each round: whoever follows a heavy one finds a busy disk.
      for (let i = 0; i < contenders.length; i++) {
        const at = (i + round) % contenders.length;
        rows[at]!.samples.push(await measure(contenders[at]!, connections, contenders[at]!.requests));
      }
    }
    print(`${connections} connections, 1 KB messages, ${rounds} rounds`, 'rps', rows, contenders[0]!.name);
  }
} finally {
  await load.close();
  await life.end();
}

async function measure(of: Contender, connections: number, n: number): Promise<Row['samples'][number]> {
  const requests = await of.make(n);
  const before = await cpuOf(of.at);
  const { elapsed, latencies, failures, firstFailure } = await load.run(of.at.port, connections, requests);
  const after = await cpuOf(of.at);
  if (failures > 0) throw new Error(`${of.name}: ${failures} of ${n} were refused: ${firstFailure}`);
  return {
    rate: (n / elapsed) * 1000,
    p50: quantile(latencies, 0.5),
    p99: quantile(latencies, 0.99),
    server: ((after.server - before.server) / n) * 1000,
    ...(of.at.databaseUrl !== undefined && { database: ((after.database - before.database) / n) * 1000 }),
  };
}

async function sdks(): Promise<Contender[]> {
  const sdk = async (name: string, store: 'memory' | 'postgres', answer: 'message' | 'task', requests: number) => {
    const at = await sdkServer(life, store, answer);
    return { name, at, requests: Math.ceil(requests * scale), make: (n: number) => some(n, () => plain(at.port)) };
  };
  return [
    await sdk('@a2a-js/sdk, answers a message: no proof, nothing kept', 'memory', 'message', 3_000),
    await sdk('@a2a-js/sdk, answers a task: no proof, kept in memory', 'memory', 'task', 3_000),
    await sdk('@a2a-js/sdk, its PostgreSQL store: no proof, durable', 'postgres', 'task', 600),
  ];
}

async function gatehouse(): Promise<Contender[]> {
  const target = await gateway(life);
  const at = { port: Number(target.authority.split(':')[1]), pid: target.pid, databaseUrl: target.databaseUrl };
  const node = nodeKeys();
  const { admin, authority, url } = target;
  const addresses = Array.from({ length: agents }, (_, i) => `acme/general/joel/a${i}`);
  for (const address of addresses) await admin.announce(address, { allow: ['org', 'org:globex'] });
  const local = await admin.call<{ token: string }>('POST', '/nodes', { name: 'bench' });
  const byNode = { Authorization: `Bearer ${local.token}` };
  await fetch(`${url}/redsyn/v1/nodes/key`, {
    method: 'PUT',
    headers: { authorization: byNode.Authorization, 'content-type': 'application/json' },
    body: JSON.stringify(node.registration()),
  });

  const peer = await startPeer(life);
  const eve = peer.identity('agents:eve');
  await linkPeer({ ...target, call: undefined } as never, peer, 'globex');
  const expose = { kind: 'agent', pattern: '*', on: true };
  await admin.call('PUT', '/orgs/acme/links/globex/expose', expose);
  await admin.call('PUT', '/orgs/acme/links/globex/rules', { signed_only: false });

  const carried = async (sealed: boolean): Promise<Buffer> => {
    const to = addresses[count % agents]!;
    const id = newId();
    const body = { type: 'text/plain', text };
    const of = envelope({ id, from: 'globex/sales/eve/asker', to, body }, { sealed, keys: node });
    const request = wireRequest(
      { envelopeText: JSON.stringify(of), kind: 'request', messageId: id, thread: id, ownerId: null, to } as never,
      '1.0',
    );
    const signed = await signRequest(
      { method: 'POST', url: `${url}/a2a/v1`, body: request.body },
      { keyId: eve.keyId, key: eve.key, now: Date.now() },
    );
    const { 'content-type': _type, ...headers } = request.headers;
    return post(authority, '/a2a/v1', { ...headers, ...signed }, request.body);
  };
  const redsyn = (sealed: boolean): Buffer => {
    const body = { type: 'text/plain', text };
    const to = addresses[count % agents]!;
    const of = envelope({ id: newId(), from: addresses[0]!, to, body }, { sealed, keys: node });
    return post(authority, '/redsyn/v1/messages', byNode, JSON.stringify(of));
  };
  const one = (name: string, make: () => Buffer | Promise<Buffer>): Contender => ({
    name,
    at,
    requests: Math.ceil(3_000 * scale),
    make: (n) => some(n, make),
  });
  return [
    one('Gatehouse, A2A from a linked company: RFC 9421 proof, durable', () => carried(false)),
    one("Gatehouse, the same, and the node's own signature", () => carried(true)),
    one('Gatehouse, REDSYN: node token, durable', () => redsyn(false)),
    one("Gatehouse, REDSYN: node token, node's signature, durable", () => redsyn(true)),
  ];
}

/** What an A2A client sends. */
function plain(port: number): Buffer {
  const id = newId();
  const message = { messageId: id, role: 'ROLE_USER', parts: [{ text }] };
  const body = JSON.stringify({ jsonrpc: '2.0', id, method: 'SendMessage', params: { message } });
  return post(`localhost:${port}`, '/rpc', { 'A2A-Version': '1.0' }, body);
}

function newId(): string {
  return `b${run}-${count++}`;
}

async function some(n: number, make: () => Buffer | Promise<Buffer>): Promise<Buffer[]> {
  const all: Buffer[] = [];
  for (let i = 0; i < n; i++) all.push(await make());
  return all;
}
