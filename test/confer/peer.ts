import { derivedId } from '../../src/lib/ids.ts';
import type { Lifetime } from '../support/database.ts';
import { eventually, type TestGateway } from '../support/gateway.ts';
import { type Answered, documentOf, type Identity, type Peer, says, sendSigned, startPeer } from '../support/peer.ts';

/** What a Confer instance was brought, as it was written. */
export interface Brought {
  from: string;
  to: string;
  thread_id?: string;
  message: { type: string; content: string; language?: string; context?: Record<string, unknown> };
  headers: Record<string, unknown>;
}

/** A Confer instance that is none of ours (confer-wire-facts §12): DIDs with ConferAgent services, `/a2a/v1/messages` over signatures of its owners. */
export interface ConferPeer extends Peer {
  readonly owner: Identity;
  /** `<owner>:agent`, which no route serves. */
  readonly agent: string;
  readonly brought: Brought[];
  /** From now on its `/a2a/v1/messages` answers so; a function sees what came. */
  respond(status: number, body: unknown | ((brought: Brought) => unknown), headers?: Record<string, string>): void;
  /** Says something to a gateway, signed by the owner. */
  say(gateway: TestGateway, to: string, message: object, more?: Record<string, unknown>): Promise<Answered>;
  next(count: number): Promise<Brought[]>;
}

export async function conferPeer(lifetime: Lifetime, user = 'zoe'): Promise<ConferPeer> {
  const peer = await startPeer(lifetime);
  const owner = peer.identity(`agents:${user}`);
  const service = [
    { id: `${owner.did}#confer-agent`, type: 'ConferAgent', serviceEndpoint: `http://${peer.authority}/a2a/v1` },
  ];
  peer.answer(owner.path, says(documentOf(owner, { service })));
  const agent = `${owner.did}:agent`;
  const brought: Brought[] = [];
  const respond: ConferPeer['respond'] = (status, body, headers = {}) =>
    peer.answer('/a2a/v1/messages', (request, response, bytes) => {
      const one = { ...JSON.parse(bytes.toString()), headers: request.headers } as Brought;
      brought.push(one);
      const said = typeof body === 'function' ? (body as (of: Brought) => unknown)(one) : body;
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(said));
    });
  respond(201, ({ thread_id }: Brought) => ({
    message_id: '01JGHQ6Z4E8X2V5T9RB3KC7MDA',
    thread_id,
    stream_url: '/a2a/v1/stream/01JGHQ6Z4E8X2V5T9RB3KC7MDA',
  }));
  return {
    ...peer,
    owner,
    agent,
    brought,
    respond,
    say: (gateway, to, message, more = {}) =>
      sendSigned(
        gateway,
        { path: '/a2a/v1/messages', body: JSON.stringify({ from: agent, to, ...more, message }) },
        owner,
      ),
    next: (count) => eventually(`${count} messages at the peer`, async () => brought.length >= count && brought),
  };
}

/** The owner of an agent here makes a DID her contact, as her tray or a lookup would. */
export async function befriend(gateway: TestGateway, user: string, did: string): Promise<string> {
  const { db } = gateway.database;
  const domain = decodeURIComponent(did.split(':')[2]!);
  const { rows } = await db.query<{ id: string }>(
    `insert into peers (id, did, domain, created_at) values ($1, $2, $3, 0) on conflict (did) do update set did = excluded.did returning id`,
    [crockford(did), did, domain],
  );
  await db.query(
    `insert into contacts (id, owner, peer_id, created_at) select $1, m.id, $2, 0 from members m where m.handle = $3 on conflict do nothing`,
    [crockford(`${user} ${did}`), rows[0]!.id, user],
  );
  return rows[0]!.id;
}

function crockford(text: string): string {
  return derivedId(['test', text]);
}

/** Events of an SSE body. */
export function eventsOf(text: string): Array<{ event: string; data: Record<string, unknown>; id?: string }> {
  return text
    .split('\n\n')
    .filter((block) => block !== '' && !block.startsWith(':'))
    .map((block) => {
      const field = (name: string): string | undefined =>
        block
          .split('\n')
          .find((line) => line.startsWith(`${name}: `))
          ?.slice(name.length + 2);
      const id = field('id');
      return { event: field('event') ?? '', data: JSON.parse(field('data') ?? '{}'), ...(id !== undefined && { id }) };
    });
}
