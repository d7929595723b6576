import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type NodeKeys, nodeKeys } from '../../src/client/index.ts';
import { ManualClock } from '../../src/lib/clock.ts';
import { person, type TestGateway, team, testGateway } from '../support/gateway.ts';
import {
  type Answered,
  envelope,
  type Identity,
  inA2a,
  inA2a03,
  linkPeer,
  nodeOfPeer,
  type Peer,
  refusalOf,
  rows,
  sendSigned,
  sendTo,
  signatureFor,
  startPeer,
} from '../support/peer.ts';

/** An envelope on its way over one of the wires, to an agent that its address names. */
interface Wire {
  readonly name: string;
  path(to: string): string;
  body(of: Record<string, unknown>, to: string): string;
}

const pathOf = (to: string): string => to.split('#')[0]!.split('/').slice(1).join('/');
const tenantOf = (to: string): string => {
  const [team, user, agent] = pathOf(to).split('/');
  return `${user}:${team}:${agent}`;
};
const agentPath = (to: string): string => {
  const [team, user, agent] = pathOf(to).split('/');
  return `/agents/${user}/${team}/${agent}`;
};

const wires: readonly Wire[] = [
  { name: 'REDSYN POST /messages', path: () => '/redsyn/v1/messages', body: (of) => JSON.stringify(of) },
  { name: 'A2A 1.0 /a2a/v1', path: () => '/a2a/v1', body: (of) => inA2a(of) },
  {
    name: 'A2A 1.0 /a2a/v1, params.tenant',
    path: () => '/a2a/v1',
    body: (of, to) => inA2a(of, { params: { tenant: tenantOf(to) } }),
  },
  { name: 'A2A 1.0 /a2a/v1/{tenant}', path: (to) => `/a2a/v1/${tenantOf(to)}`, body: (of) => inA2a(of) },
  { name: 'A2A 1.0 /', path: () => '/', body: (of) => inA2a(of) },
  { name: 'A2A 1.0 /agents/…', path: agentPath, body: (of) => inA2a(of) },
  { name: 'A2A 0.3 /a2a/v1', path: () => '/a2a/v1', body: (of) => inA2a03(of) },
  { name: 'A2A 0.3 /a2a/v1/{tenant}', path: (to) => `/a2a/v1/${tenantOf(to)}`, body: (of) => inA2a03(of) },
  { name: 'A2A 0.3 /', path: () => '/', body: (of) => inA2a03(of) },
  { name: 'A2A 0.3 /agents/…', path: agentPath, body: (of) => inA2a03(of) },
];

/** What a wire makes of a status: A2A tells a refusal in the body and keeps HTTP's for what HTTP has to say (a2a-conformance §9.5). */
const statusOn = (wire: Wire, { code, status }: Expected): number =>
  wire.name.startsWith('REDSYN') || status === 401 || code === 'rate_limited' ? status : 200;

const globex = await testGateway({ after }, { org: 'globex', admin: 'bob', env: { GATEHOUSE_PLAN: 'free' } });
const peer: Peer = await startPeer({ after });
const eve = peer.identity('agents:eve');
const mallory = peer.identity('agents:mallory');
const bot = 'initech/dev/eve/bot';
const billing = 'globex/erp/bob/billing';
const safe = 'globex/erp/bob/safe';
const vault = 'globex/erp/bob/vault';
const hidden = 'globex/erp/bob/hidden';
let ana: Awaited<ReturnType<typeof person>>;

before(async () => {
  await team(globex, 'erp', ['bob']);
  await globex.admin.announce(billing, { allow: ['org:initech', 'org'] });
  // Takes only sealed requests; of whom it takes any is another question.
  await globex.admin.announce(safe, { allow: ['org:initech', 'org'], encrypted_only: true });
  await globex.admin.announce(vault, { encrypted_only: true });
  await globex.admin.announce(hidden, { allow: ['org:initech'] });
  ana = await person(globex, 'ana');
  await ana.announce('globex/general/ana/asker');
  await linkPeer(globex, peer, 'initech');
  for (const name of ['billing', 'safe', 'vault']) {
    const exposure = { kind: 'agent', pattern: `erp/bob/${name}`, on: true };
    await globex.admin.call('PUT', '/orgs/globex/links/initech/expose', exposure);
  }
});

interface Expected {
  code: string;
  status: number;
  gate: string;
}

async function refusedBy(
  gateway: TestGateway,
  wire: Wire,
  expected: Expected,
  send: () => Promise<Answered>,
  leaves: Record<string, number> = {},
): Promise<void> {
  const was = await rows(gateway);
  const answered = await send();
  const { code, status, gate } = refusalOf(answered);
  // REDSYN names no gate where something is not found.
  const named = expected.status === 404 && wire.name.startsWith('REDSYN') ? undefined : expected.gate;
  assert.deepEqual(
    { code, status, gate },
    { code: expected.code, status: statusOn(wire, expected), gate: named },
    answered.text,
  );
  const is = await rows(gateway);
  for (const [table, count] of Object.entries(leaves)) is[table]! -= count;
  assert.deepEqual(is, was);
}

/** The faults of a foreign message, in the order of the gates; a message has those from one on. */
const faults = ['authenticate', 'integrity', 'capability', 'address', 'link', 'consent', 'policy', 'thread'] as const;
type Fault = (typeof faults)[number];

async function foreign(wire: Wire, first: Fault | 'none'): Promise<Answered> {
  const from = first === 'none' ? faults.length : faults.indexOf(first);
  const has = (fault: Fault): boolean => faults.indexOf(fault) >= from;
  const to = has('consent') ? vault : has('policy') ? safe : has('thread') ? `${billing}#s999` : billing;
  let of = envelope({ from: has('address') ? 'initech/dev/somebody/bot' : bot, to }, { sealed: !has('link') });
  // A broken seal is no seal at all to the link; so the two faults can stand together.
  if (has('integrity'))
    of = { ...envelope({ from: of.from as string, to }), body: { type: 'text/plain', text: 'swapped' } };
  const sent = { path: wire.path(to), body: wire.body(of, to) };
  const by: Pick<Identity, 'keyId' | 'key'> = has('authenticate') ? { keyId: eve.keyId, key: mallory.key } : eve;
  const headers = has('capability') ? { authorization: 'Capability of.no.kind' } : {};
  return sendSigned(globex, { ...sent, headers }, by);
}

const ofForeign: Record<Fault, Expected> = {
  authenticate: { code: 'signature_failed', status: 401, gate: 'authenticate' },
  integrity: { code: 'envelope_signature_invalid', status: 401, gate: 'integrity' },
  capability: { code: 'capability_invalid', status: 401, gate: 'capability' },
  address: { code: 'sender_mismatch', status: 403, gate: 'address' },
  link: { code: 'policy_denied', status: 403, gate: 'link' },
  consent: { code: 'pending_connection', status: 202, gate: 'consent' },
  policy: { code: 'policy_denied', status: 403, gate: 'policy' },
  thread: { code: 'address_not_found', status: 404, gate: 'thread' },
};

/** The same for somebody with a token here. The day's count comes last: a repeat, which only the acceptance can tell, is not counted. */
const localFaults = ['authenticate', 'integrity', 'address', 'policy', 'thread', 'quota'] as const;
type LocalFault = (typeof localFaults)[number];

const anasKeys: NodeKeys = nodeKeys();

async function local(wire: Wire, first: LocalFault | 'none'): Promise<Answered> {
  const from = first === 'none' ? localFaults.length : localFaults.indexOf(first);
  const has = (fault: LocalFault): boolean => localFaults.indexOf(fault) >= from;
  const to = has('policy') ? safe : has('thread') ? `${billing}#s999` : billing;
  const sender = has('address') ? billing : 'globex/general/ana/asker';
  // Sealed by a key that this node did not register.
  const of = envelope(
    { from: sender, to },
    { sealed: has('integrity'), keys: has('integrity') ? nodeOfPeer : anasKeys },
  );
  const token = has('authenticate') ? 'ghn_of-nobody-at-all-0123456789012345678901234' : ana.token;
  await setUsed(has('quota') ? 1_000 : 0);
  const sent = { path: wire.path(to), body: wire.body(of, to), headers: { authorization: `Bearer ${token}` } };
  return sendTo(globex, sent);
}

const ofLocal: Record<LocalFault, Expected> = {
  authenticate: { code: 'unauthenticated', status: 401, gate: 'authenticate' },
  integrity: { code: 'envelope_signature_invalid', status: 401, gate: 'integrity' },
  address: { code: 'sender_mismatch', status: 403, gate: 'address' },
  policy: { code: 'policy_denied', status: 403, gate: 'policy' },
  quota: { code: 'quota_exceeded', status: 429, gate: 'quota' },
  thread: { code: 'address_not_found', status: 404, gate: 'thread' },
};

async function setUsed(used: number): Promise<void> {
  const { db } = globex.database;
  await db.query('delete from quota_days');
  await db.query(`insert into quota_days select id, $1, 0, $2 from orgs where handle = 'globex'`, [
    Math.floor(Date.now() / 86_400_000),
    used,
  ]);
}

for (const wire of wires) {
  describe(`${wire.name}: a message with every fault is refused by the first gate, and mended fault by fault it comes one gate further`, () => {
    describe('from a linked company', () => {
      for (const [i, fault] of faults.entries()) {
        it(fault, () =>
          // One stranger is one row with the owner, however often it knocks.
          refusedBy(globex, wire, ofForeign[fault], () => foreign(wire, fault), {
            ...(fault === 'consent' && wire === wires[0] && { requests: 1 }),
          }),
        );
        if (i < faults.length - 1) continue;
        it('none: it is taken', async () => {
          const was = await rows(globex);
          const answered = await foreign(wire, 'none');
          assert.equal(refusalOf(answered).code, 'ok', answered.text);
          assert.equal((await rows(globex)).deliveries, was.deliveries! + 1);
        });
      }

      it('a hidden agent is a missing address', async () => {
        const of = envelope({ from: bot, to: hidden });
        const expected = { code: 'address_not_found', status: 404, gate: 'address' };
        const sent = { path: wire.path(hidden), body: wire.body(of, hidden) };
        await refusedBy(globex, wire, expected, () => sendSigned(globex, sent, eve));
      });

      it('a body that is not what was signed', async () => {
        const sent = { path: wire.path(billing), body: wire.body(envelope({ from: bot, to: billing }), billing) };
        const other = wire.body(envelope({ from: bot, to: billing }), billing);
        const headers = await signatureFor(globex, sent, eve);
        const expected = { code: 'digest_mismatch', status: 401, gate: 'integrity' };
        await refusedBy(globex, wire, expected, () => sendTo(globex, { ...sent, body: other, headers }));
      });

      it('the same bytes twice', async () => {
        const sent = { path: wire.path(billing), body: wire.body(envelope({ from: bot, to: billing }), billing) };
        const headers = await signatureFor(globex, sent, eve);
        assert.equal(refusalOf(await sendTo(globex, { ...sent, headers })).code, 'ok');
        const expected = { code: 'signature_replayed', status: 401, gate: 'integrity' };
        await refusedBy(globex, wire, expected, () => sendTo(globex, { ...sent, headers }));
      });
    });

    describe('from somebody here', () => {
      after(() => setUsed(0));
      for (const fault of localFaults) {
        it(fault, () => refusedBy(globex, wire, ofLocal[fault], () => local(wire, fault)));
      }
      it('none: it is taken', async () => {
        const was = await rows(globex);
        const answered = await local(wire, 'none');
        assert.equal(refusalOf(answered).code, 'ok', answered.text);
        assert.equal((await rows(globex)).deliveries, was.deliveries! + 1);
      });
    });
  });
}

/** Confer's wire has neither envelopes nor orgs: who comes over it comes as itself, with the faults that such a message can have. */
describe('Confer POST /a2a/v1/messages: the same gates', async () => {
  const zoe = await startPeer({ after });
  const friend = zoe.identity('agents:zoe');
  const stranger = zoe.identity('agents:nobody');
  const owner = `${globex.did}:agents:bob`;

  before(async () => {
    await globex.database.db.query(`insert into peers (id, did, domain, created_at) values ('PEERZOE', $1, $2, 0)`, [
      friend.did,
      zoe.authority,
    ]);
    await globex.database.db.query(
      `insert into contacts (id, owner, peer_id, created_at) select 'CONTACTZOE', id, 'PEERZOE', 0 from members where handle = 'bob'`,
    );
  });

  const order = ['authenticate', 'capability', 'address', 'consent', 'policy'] as const;
  const refusals = {
    authenticate: ['signature_failed', 401],
    capability: ['capability_invalid', 401],
    address: ['sender_mismatch', 401],
    consent: ['pending_connection', 202],
    policy: ['policy_denied', 403],
  } as const;

  async function send(first: (typeof order)[number] | 'none'): Promise<Answered> {
    const from = first === 'none' ? order.length : order.indexOf(first);
    const has = (fault: (typeof order)[number]): boolean => order.indexOf(fault) >= from;
    const by = has('consent') ? stranger : friend;
    const body = JSON.stringify({
      from: has('address') ? 'did:web:elsewhere.test:agents:zoe' : by.did,
      to: `${owner}:erp:${has('policy') ? 'safe' : 'billing'}`,
      message: { type: 'question', content: 'May I ask?' },
    });
    const headers = has('capability') ? { authorization: 'Capability of.no.kind' } : {};
    return sendSigned(
      globex,
      { path: '/a2a/v1/messages', body, headers },
      has('authenticate') ? { keyId: by.keyId, key: mallory.key } : by,
    );
  }

  for (const fault of order) {
    it(fault, async () => {
      const was = await rows(globex);
      const { status, json, text } = await send(fault);
      assert.deepEqual([json.error?.code ?? json.status, status], refusals[fault], text);
      assert.deepEqual(await rows(globex), { ...was, requests: was.requests! + (fault === 'consent' ? 1 : 0) });
    });
  }

  it('none: it is taken', async () => {
    const was = await rows(globex);
    const answered = await send('none');
    assert.equal(answered.status, 201, answered.text);
    assert.equal((await rows(globex)).deliveries, was.deliveries! + 1);
  });
});

describe('too much (flood)', async () => {
  const clock = new ManualClock(Date.now());
  const umbrella = await testGateway(
    { after },
    {
      org: 'umbrella',
      admin: 'bob',
      clock,
      env: { GATEHOUSE_RATE_IP: '5', GATEHOUSE_RATE_PEER: '3' },
    },
  );
  const flooding = await startPeer({ after });
  const flooder = flooding.identity('agents:eve');
  const to = 'umbrella/erp/bob/billing';

  before(async () => {
    await team(umbrella, 'erp', ['bob']);
    await umbrella.admin.announce(to);
  });

  for (const wire of wires) {
    it(`${wire.name}: from one address, before anything is looked up`, async () => {
      clock.advance(60_000);
      const sent = { path: wire.path(to), body: wire.body(envelope({ from: bot, to }), to) };
      for (let i = 0; i < 5; i++) assert.equal(refusalOf(await sendTo(umbrella, sent)).code, 'unauthenticated');
      const expected = { code: 'rate_limited', status: 429, gate: 'flood' };
      await refusedBy(umbrella, wire, expected, () => sendTo(umbrella, sent));
      const asked = flooding.requests.length;
      const signed = await sendSigned(umbrella, sent, flooder, { now: clock.now() });
      assert.equal(refusalOf(signed).code, 'rate_limited');
      assert.ok(Number(signed.headers['retry-after']) >= 1);
      assert.equal(flooding.requests.length, asked);
      // A token of this gateway is nobody's flood.
      const unsealed = wire.body(envelope({ from: bot, to }, { sealed: false }), to);
      const own = { ...sent, body: unsealed, headers: { authorization: `Bearer ${umbrella.token}` } };
      assert.equal(refusalOf(await sendTo(umbrella, own)).code, 'sender_mismatch');
    });

    it(`${wire.name}: from one domain, in whichever of its names`, async () => {
      clock.advance(60_000);
      const sent = { path: wire.path(to), body: wire.body(envelope({ from: bot, to }), to) };
      const send = (by: Identity): Promise<Answered> => sendSigned(umbrella, sent, by, { now: clock.now() });
      const names = [flooder, flooding.identity('agents:mia'), flooding.identity('agents:noa')];
      for (const by of names) assert.equal(refusalOf(await send(by)).code, 'address_not_found');
      const expected = { code: 'rate_limited', status: 429, gate: 'flood' };
      const asked = flooding.requests.length;
      await refusedBy(umbrella, wire, expected, () => send(flooding.identity('agents:oda')));
      assert.equal(flooding.requests.length, asked);
    });
  }
});
