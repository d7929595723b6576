import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type Message, Role } from '@a2a-js/sdk';
import { type Client, ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { type SigningPeer, signedFetch, signingPeer } from '../../src/client/index.ts';
import { eventually, team, testGateway } from '../support/gateway.ts';
import { says, startPeer } from '../support/peer.ts';

const acme = await testGateway({ after }, { org: 'acme', admin: 'joel' });
const clerk = 'acme/desk/joel/clerk';
const host = await startPeer({ after });

/** A program with a did:web of its own, whose document stands where the DID says. */
function newcomer(name: string): SigningPeer & { did: string } {
  const did = `did:web:${host.authority.replace(':', '%3A')}:${name}`;
  const peer = signingPeer(did);
  host.answer(`/${name}/did.json`, says(peer.document, 200, { 'content-type': 'application/did+json' }));
  return { ...peer, did };
}

const eve = newcomer('eve');

before(async () => {
  await team(acme, 'desk', ['joel']);
  await acme.admin.announce(clerk, { allow: [] });
  // Known to strangers by its card, but takes requests from contacts alone.
  const { db } = acme.database;
  await db.query('update agents set is_listed = true');
  await db.query(`insert into peers (id, did, domain, created_at) values ('eve', $1, $2, 0)`, [
    eve.did,
    host.authority,
  ]);
  await db.query(`insert into contacts (id, owner, peer_id, created_at) select 'c', m.id, 'eve', 0 from members m`);
});

function clientOf(
  fetchImpl: typeof fetch,
  transport: 'JSONRPC' | 'HTTP+JSON' = 'JSONRPC',
  legacy = false,
): Promise<Client> {
  const options = { fetchImpl, legacyCompat: { enabled: legacy } };
  const factory = new ClientFactory({
    transports: [transport === 'JSONRPC' ? new JsonRpcTransportFactory(options) : new RestTransportFactory(options)],
    clientConfig: { polling: true },
  });
  return factory.createFromUrl(`${acme.url}/agents/joel/desk/clerk/.well-known/agent-card.json`, '');
}

function message(text: string): Message {
  return {
    messageId: crypto.randomUUID(),
    contextId: '',
    taskId: '',
    role: Role.ROLE_USER,
    parts: [{ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: '' }],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  };
}

describe('signedFetch in the client of @a2a-js/sdk', () => {
  for (const transport of ['JSONRPC', 'HTTP+JSON'] as const) {
    it(`makes a program a peer that may ask: ${transport}`, async () => {
      const client = await clientOf(signedFetch(eve), transport);
      const sent = await client.sendMessage({
        tenant: '',
        message: message(`by ${transport}`),
        configuration: undefined,
        metadata: undefined,
      });
      assert.ok('status' in sent);
      const [request] = await eventually('the request', async () => {
        const items = await acme.admin.take(clerk, { wait: 2 });
        return items.length > 0 && items;
      });
      assert.equal(request!.body.text, `by ${transport}`);
      assert.ok(request!.from.includes(host.authority) || request!.from === eve.did, request!.from);
      await acme.admin.reply(request!, 'Yes.');
      const done = await eventually('the end of the task', async () => {
        const task = await client.getTask({ tenant: '', id: sent.id });
        return task.artifacts.length > 0 && task;
      });
      assert.deepEqual(done.artifacts[0]!.parts[0]!.content, { $case: 'text', value: 'Yes.' });
    });
  }

  it('a stranger that signs is a pending connection; one that does not hears what it lacks', async () => {
    const mallory = newcomer('mallory');
    const signed = await clientOf(signedFetch(mallory));
    const ask = { tenant: '', message: message('?'), configuration: undefined, metadata: undefined };
    await assert.rejects(signed.sendMessage(ask), /awaiting approval/);
    const plain = await clientOf(fetch);
    await assert.rejects(plain.sendMessage(ask), /rfc9421|extension/i);
  });
});

describe('signedFetch', () => {
  const seen: Array<{ url: string; headers: Headers; body: string; redirect: string | undefined }> = [];
  const record: typeof fetch = async (input, init) => {
    const body = init?.body ? Buffer.from(init.body as Uint8Array).toString() : '';
    seen.push({ url: String(input), headers: new Headers(init?.headers), body, redirect: init?.redirect });
    return new Response('{}');
  };
  const send = signedFetch({ keyId: eve.keyId, key: eve.seed }, { fetch: record });

  it('takes a Request, a URL, text, bytes, a form and a stream', async () => {
    const stream = new Response('streamed').body!;
    await send(new Request('https://x.test/a?b=c#d', { method: 'POST', body: 'text' }));
    await send(new URL('https://x.test/a'), { method: 'POST', body: Buffer.from('bytes') });
    await send('https://x.test/a', { method: 'POST', body: new URLSearchParams({ a: 'b' }) });
    await send('https://x.test/a', { method: 'POST', body: stream });
    await send('https://x.test/a');
    assert.deepEqual(
      seen.map(({ url, body }) => [url, body]),
      [
        ['https://x.test/a?b=c', 'text'],
        ['https://x.test/a', 'bytes'],
        ['https://x.test/a', 'a=b'],
        ['https://x.test/a', 'streamed'],
        ['https://x.test/a', ''],
      ],
    );
    for (const { headers, body, redirect } of seen) {
      assert.match(headers.get('signature-input') ?? '', /^sig1=\("@method" "@authority" "@path"/);
      assert.equal(headers.has('content-digest'), body !== '');
      assert.equal(redirect, 'error');
    }
  });

  it('declares the extension beside what is declared already', async () => {
    seen.length = 0;
    await send('https://x.test/a', { headers: { 'A2A-Version': '1.0', 'A2A-Extensions': 'https://x.test/e' } });
    await send('https://x.test/a');
    const [v1, v03] = seen;
    assert.equal(v1!.headers.get('a2a-extensions'), 'https://x.test/e, https://www.rfc-editor.org/rfc/rfc9421');
    assert.equal(v1!.headers.get('x-a2a-extensions'), null);
    assert.equal(v03!.headers.get('x-a2a-extensions'), 'https://www.rfc-editor.org/rfc/rfc9421');
  });

  it('a peer of a kept secret is the same peer', () => {
    const again = signingPeer(eve.did, eve.seed);
    assert.deepEqual(again.document, eve.document);
    assert.notEqual(signingPeer(eve.did).seed, eve.seed);
  });
});
