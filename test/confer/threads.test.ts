import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { eventually, person, team, testGateway } from '../support/gateway.ts';
import { envelope, inA2a, inA2a03, linkPeer, sendSigned } from '../support/peer.ts';
import { befriend, conferPeer } from './peer.ts';

const globex = await testGateway({ after }, { org: 'globex', admin: 'bob' });
const zoe = await conferPeer({ after });
const billing = 'globex/erp/bob/billing';
const helper = 'globex/general/ana/helper';
const tenant: Record<string, string> = { [helper]: 'ana:general:helper', [billing]: 'bob:erp:billing' };
let ana: Awaited<ReturnType<typeof person>>;
let n = 0;

before(async () => {
  await team(globex, 'erp', ['bob']);
  ana = await person(globex, 'ana');
  await ana.announce(helper, { allow: ['org', 'org:initech'] });
  await globex.admin.announce(billing, { is_default: true, allow: ['org', 'org:initech'] });
  for (const user of ['ana', 'bob']) await befriend(globex, user, zoe.owner.did);
});

/** The question goes to ana, then with the id of ana's own conversation to bob: there it must be another one, and ana's stays as it was. */
async function attack(ask: (to: string, thread?: string) => Promise<unknown>): Promise<void> {
  await ask(helper);
  const first = await eventually("ana's question", async () => (await ana.take(helper, { max: 1 }))[0]);
  await ana.ack(helper, [first.id]);
  await ask(billing, first.thread);
  const poured = await eventually("bob's question", async () => (await globex.admin.take(billing, { max: 1 }))[0]);
  await globex.admin.ack(billing, [poured.id]);
  const thread = `/redsyn/v1/threads/${first.thread}`;
  const hers = (await globex.call('GET', thread, { token: ana.token })).json;
  assert.equal(hers.messages.length, 1, 'nothing was poured in');
  // A local asker may have a conversation by that name under bob; ana's is not it.
  const his = (await globex.call('GET', thread)).json.messages ?? [];
  assert.ok(
    his.every((one: { id: string }) => one.id !== first.id),
    'hers is not shown to bob',
  );
  await ask(helper, first.thread);
  const more = await eventually('her next', async () => (await ana.take(helper, { max: 1 }))[0]);
  await ana.ack(helper, [more.id]);
  assert.equal(more.thread, first.thread, 'in her own it goes on');
}

describe('the attack on threads, on the other wires (confer.md "Vinculación del hilo")', () => {
  it('A2A 1.0, by a DID', () =>
    attack(async (to, contextId) => {
      const message = {
        messageId: `a${n++}`,
        role: 'ROLE_USER',
        parts: [{ text: 'x' }],
        ...(contextId && { contextId }),
      };
      const params = { message, configuration: { returnImmediately: true } };
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params });
      const sent = { path: `/a2a/v1/${tenant[to]}`, body, headers: { 'a2a-version': '1.0' } };
      const { json } = await sendSigned(globex, sent, zoe.owner);
      assert.ok(json.result, JSON.stringify(json));
    }));

  it('A2A 0.3, by a DID', () =>
    attack(async (to, contextId) => {
      const parts = [{ kind: 'text', text: 'x' }];
      const message = { kind: 'message', messageId: `b${n++}`, role: 'user', parts, ...(contextId && { contextId }) };
      const params = { message, configuration: { blocking: false } };
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'message/send', params });
      const { json } = await sendSigned(globex, { path: `/a2a/v1/${tenant[to]}`, body }, zoe.owner);
      assert.ok(json.result, JSON.stringify(json));
    }));

  for (const [version, wrap] of [
    ['1.0', inA2a],
    ['0.3', inA2a03],
  ] as const) {
    it(`envelopes of a linked org, in A2A ${version}`, async () => {
      if (version === '1.0') {
        await linkPeer(globex, zoe, 'initech');
        await globex.admin.call('PUT', '/orgs/globex/links/initech/rules', { signed_only: false });
        for (const pattern of ['general/ana/helper', 'erp/bob/billing'])
          await globex.admin.call('PUT', '/orgs/globex/links/initech/expose', { kind: 'agent', pattern, on: true });
      }
      await attack(async (to, thread) => {
        const from = 'initech/sales/zoe/bot';
        const of = envelope({ from, to, ...(thread && { thread }) }, { sealed: false });
        const headers: Record<string, string> = version === '1.0' ? { 'a2a-version': '1.0' } : {};
        const body = wrap(of, thread ? { message: { contextId: thread } } : {});
        const { json } = await sendSigned(globex, { path: '/a2a/v1', body, headers }, zoe.owner);
        assert.ok(json.result, JSON.stringify(json));
      });
    });
  }

  it('REDSYN, by a colleague', async () => {
    const eve = await person(globex, 'eve');
    const from = 'globex/general/eve/asker';
    await eve.announce(from);
    await attack(async (to, thread) => {
      const body = {
        v: 1,
        kind: 'request',
        from,
        to,
        ...(thread && { thread }),
        body: { type: 'text/plain', text: 'x' },
      };
      const sent = await globex.call('POST', '/redsyn/v1/messages', { token: eve.token, body });
      assert.equal(sent.status, 201, sent.text);
    });
  });
});

describe('FED-06: nobody at a tenant', () => {
  it('an envelope of a DID to a missing agent of an owner who is here is told what it would be told of a hidden one', async () => {
    const mallory = zoe.identity('agents:mallory');
    await globex.admin.announce('globex/erp/bob/hidden');
    const of = async (at: string, to: string) => {
      const wrapped = inA2a(envelope({ from: mallory.did, to }, { sealed: false }));
      const sent = { path: `/a2a/v1/${at}`, body: wrapped, headers: { 'a2a-version': '1.0' } };
      const { status, json } = await sendSigned(globex, sent, mallory);
      return { status, code: json.error?.data?.[0]?.metadata?.code, gate: json.error?.data?.[0]?.metadata?.gate };
    };
    const hidden = await of('bob:erp:hidden', 'globex/erp/bob/hidden');
    assert.equal(hidden.code, 'pending_connection');
    assert.deepEqual(await of('bob:erp:nobody', 'globex/erp/bob/nobody'), hidden);
    assert.deepEqual(await of('bob:nowhere:nobody', 'globex/nowhere/bob/nobody'), hidden);
    assert.equal((await of('nobody:erp:hidden', 'globex/erp/nobody/hidden')).code, 'address_not_found');
    const { rows: found } = await globex.database.db.query(`select from connection_requests where peer_did = $1`, [
      mallory.did,
    ]);
    assert.equal(found.length, 1, 'one request, however many names');
  });
});
