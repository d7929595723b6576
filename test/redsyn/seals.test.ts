import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Client, nodeKeys } from '../../src/client/index.ts';
import { verifyDelivered } from '../../src/identity/redsyn-seal.ts';
import { ManualClock } from '../../src/lib/clock.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { testGateway } from '../support/gateway.ts';
import { type Answered, envelope, refusalOf, rows, sendTo } from '../support/peer.ts';

/** REDSYN "Firmas": only the key that this node registered, only over exactly what arrived, only within ten minutes. */
const clock = new ManualClock(Date.now());
const acme = await testGateway({ after }, { clock });
const from = 'acme/general/joel/asker';
const to = 'acme/general/joel/desk';
const keys = nodeKeys();
const others = nodeKeys();
let token: string;
let other: string;

before(async () => {
  const made = await acme.admin.call<{ token: string }>('POST', '/nodes', { name: 'desk' });
  const second = await acme.admin.call<{ token: string }>('POST', '/nodes', { name: 'laptop' });
  [token, other] = [made.token, second.token];
  await new Client({ url: acme.url, token, keys }).registerKeys();
  await new Client({ url: acme.url, token: other, keys: others }).registerKeys();
  await acme.admin.announce(from);
  await acme.admin.announce(to);
});

function send(of: Record<string, unknown> | string, by = token): Promise<Answered> {
  const body = typeof of === 'string' ? of : JSON.stringify(of);
  return sendTo(acme, { path: '/redsyn/v1/messages', body, headers: { authorization: `Bearer ${by}` } });
}

const sealed = (fields: object = {}, options: { now?: number; keys?: typeof keys } = {}): Record<string, unknown> =>
  envelope({ from, to, ...fields }, { now: clock.now(), keys, ...options });

async function refused(of: Record<string, unknown> | string, by = token): Promise<void> {
  const was = await rows(acme);
  const answered = await send(of, by);
  const { code, status, gate } = refusalOf(answered);
  assert.deepEqual([code, status, gate], ['envelope_signature_invalid', 401, 'integrity'], answered.text);
  assert.deepEqual(await rows(acme), was);
}

describe('the seal of a node', () => {
  it("is taken from that node alone, be the other one the same person's", async () => {
    assert.equal((await send(sealed())).status, 201);
    await refused(sealed(), other);
    await refused(sealed({}, { keys: others }));
    await refused({ ...sealed(), sig: { ...(sealed().sig as object), key: others.registration().public_key } });
  });

  it('is not taken from a node that has no key', async () => {
    const { token: bare } = await acme.admin.call<{ token: string }>('POST', '/nodes', { name: 'bare' });
    await refused(sealed(), bare);
    assert.equal((await send(envelope({ from, to }, { sealed: false }), bare)).status, 201);
  });

  it('holds for ten minutes, both ways, and no second longer', async () => {
    const now = Math.floor(clock.now() / 1000) * 1000;
    clock.jump(now);
    for (const off of [-600_000, 600_000]) assert.equal((await send(sealed({}, { now: now + off }))).status, 201);
    for (const off of [-601_000, 601_000]) await refused(sealed({}, { now: now + off }));
  });

  for (const [name, change] of Object.entries({
    id: { id: 'another' },
    to: { to: from },
    thread: { thread: 'another' },
    ts: { ts: Math.floor(clock.now() / 1000) - 1 },
    body: { body: { type: 'text/plain', text: 'another' } },
    'body.type': { body: { type: 'text/markdown', text: 'May I ask?' } },
    'an unknown member of the body': { body: { type: 'text/plain', text: 'May I ask?', more: 1 } },
    refs: { refs: [{ url: 'https://elsewhere.test' }] },
    files: { files: { zip: 'UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA==' } },
    error: { error: true },
    'the value of the seal': { sig: { alg: 'ed25519', key: keys.registration().public_key, value: 'A'.repeat(86) } },
    'the algorithm': { sig: { alg: 'none', key: keys.registration().public_key, value: '' } },
  })) {
    it(`does not hold once ${name} was changed`, () => refused({ ...sealed(), ...change }));
  }

  it('covers numbers by their value, and what is delivered can be verified by whoever takes it (CAN-03, CAN-06)', async () => {
    const data = { one: 1, hundred: 100, tenth: 0.1, huge: 1e21, z: 'last', a: 'first' };
    const of = sealed({ body: { type: 'application/json', data } });
    const text = JSON.stringify(of)
      .replace('"one":1', '"one":1.0')
      .replace('"hundred":100', '"hundred":1E2')
      .replace('"huge":1e+21', '"huge":1000000000000000000000');
    const answered = await send(text);
    assert.equal(answered.status, 201, answered.text);
    const { items } = (await acme.call('GET', '/redsyn/v1/inbox/acme/general/joel/desk?max=100')).json;
    const item = items.find((one: { id: string }) => one.id === of.id);
    const verified = verifyDelivered(item);
    assert.ok(!(verified instanceof Refusal), String((verified as Refusal).words));
    assert.equal(item.signed, true);
  });

  it('is no way round a token that was revoked', async () => {
    const made = await acme.admin.call<{ id: string; token: string }>('POST', '/nodes', { name: 'lost' });
    const lost = nodeKeys();
    await new Client({ url: acme.url, token: made.token, keys: lost }).registerKeys();
    assert.equal((await send(sealed({}, { keys: lost }), made.token)).status, 201);
    await acme.admin.call('DELETE', `/nodes/${made.id}`);
    const answered = await send(sealed({}, { keys: lost }), made.token);
    assert.deepEqual(refusalOf(answered), { code: 'unauthenticated', status: 401, gate: 'authenticate' });
  });
});
