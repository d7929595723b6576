import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { isSignedBy } from '../../src/identity/introduction.ts';
import { signInvitation } from '../../src/identity/invitation.ts';
import { eventually, testGateway } from '../support/gateway.ts';
import { type Node, startNode } from './node.ts';

const gateway = await testGateway({ after });
const desk = 'acme/general/joel/desk';
let did: string;

before(async () => {
  await gateway.call('PUT', `/redsyn/v1/agents/${desk}`, { body: { listening: true } });
  did = (await shown()).did;
});

const shown = async () => (await gateway.call('GET', `/api/v1/trust/${desk}`)).json;
const ask = (body: object) => gateway.call('POST', `/api/v1/trust/${desk}/connect`, { body });
const became = (node: Node, state: string) =>
  eventually(state, async () => {
    const row = (await shown()).asked.find((one: { did: string }) => one.did === node.did);
    return row?.state === state && row;
  });
const isContact = async ({ did: other }: Node): Promise<boolean> => {
  const { contacts } = (await gateway.call('GET', '/api/v1/contacts')).json;
  return contacts.some(({ peer }: { peer: { did: string } }) => peer.did === other);
};

test('a request to connect leaves signed; a yes at once makes the contact, a later one is awaited', async () => {
  const friendly = await startNode({ after }, () => ({ status: 'connected' }));
  assert.equal((await ask({ did: friendly.did, url: friendly.url, note: 'hello' })).status, 202);
  await became(friendly, 'connected');
  assert.ok(await isContact(friendly));
  const [{ method, params, message }] = friendly.heard as [(typeof friendly.heard)[0]];
  assert.deepEqual([method, message.text, message.from], ['connect/request', 'connect/request', did]);
  assert.deepEqual(
    [params.note, params.name, params.url],
    ['hello', 'desk', `${gateway.url}/agents/joel/general/desk`],
  );
  assert.equal((await ask({ did: friendly.did, url: friendly.url })).status, 409);

  const slow = await startNode({ after }, () => ({ status: 'pending' }));
  await ask({ did: slow.did, url: slow.url });
  await eventually('the request', async () => slow.heard.length > 0);
  assert.equal((await became(slow, 'pending')).problem, null);
  assert.equal(await isContact(slow), false);

  const known = await startNode({ after }, () => -32022);
  await ask({ did: known.did, url: known.url });
  await became(known, 'connected');
});

test('a no, a node without a trust layer, and a URL that leads nowhere good are told to the owner', async () => {
  const closed = await startNode({ after }, () => -32020);
  await ask({ did: closed.did, url: closed.url });
  assert.match((await became(closed, 'failed')).problem, /-32020/);
  assert.equal(await isContact(closed), false);
  const refused = await ask({ did: 'did:web:acme.com', url: closed.url });
  assert.equal(refused.status, 400);
  const inside = await startNode({ after });
  await ask({ did: inside.did, url: 'http://10.0.0.1/' });
  await became(inside, 'failed');
});

test('an invitation is taken up by its link; its value travels once it was checked', async () => {
  const host = await startNode({ after }, ({ params }) =>
    params.nonce === 'f'.repeat(32) ? { status: 'connected' } : -32011,
  );
  const card = (more: object = {}) =>
    signInvitation(
      {
        did: '',
        name: 'Host',
        url: host.url,
        specialty: 'general',
        nonce: 'f'.repeat(32),
        relay: null,
        expiresAt: Date.now() + 60_000,
        ...more,
      },
      host.pair,
    );
  const link = (of: object): string => `agent://invite?d=${Buffer.from(JSON.stringify(of)).toString('base64url')}`;
  const forged = await ask({ invite: link({ ...card(), name: 'Somebody else' }) });
  assert.equal(forged.json.error.code, 'introduction_invalid');
  const late = await ask({ invite: link(card({ expiresAt: Date.now() - 1_000 })) });
  assert.equal(late.status, 403);
  assert.equal(host.heard.length, 0);
  const taken = await ask({ invite: link(card()) });
  assert.deepEqual([taken.status, taken.json.did], [202, host.did]);
  await became(host, 'connected');
  assert.deepEqual([host.heard[0]?.method, host.heard[0]?.message.text], ['onboard/claim', 'onboard/claim']);
  assert.ok(await isContact(host));
});

test('the card of an introduction’s issuer tells what it revoked, signed; who issued none has no such page', async () => {
  const { did: one } = await startNode({ after });
  const { did: two } = await startNode({ after });
  const page = () => gateway.call('GET', '/agents/joel/general/desk/revocations', { token: null });
  assert.equal((await page()).status, 404);
  assert.equal((await gateway.call('GET', '/agents/joel/general/nobody/revocations', { token: null })).status, 404);
  const issue = { subject: one, to: two };
  const { id, credential } = (await gateway.call('POST', `/api/v1/trust/${desk}/introductions`, { body: issue })).json;
  assert.equal(credential.issuerEndpoint, `${gateway.url}/agents/joel/general/desk`);
  await gateway.call('DELETE', `/api/v1/trust/${desk}/introductions/${id}`);
  const { revoked, ts, typ, v, sig } = (await page()).json;
  assert.deepEqual(revoked, [id]);
  assert.ok(isSignedBy(did, { revoked, ts, typ, v }, sig));
});
