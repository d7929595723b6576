import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { HANDED_ON, REDSYN_EXTENSION } from '../../src/wires/a2a/protocol.ts';
import { eventually, testGateway } from '../support/gateway.ts';
import { type Answered, envelope, inA2a, linkPeer, refusalOf, says, sendSigned, startPeer } from '../support/peer.ts';

const acme = await testGateway({ after });
const peer = await startPeer({ after });
const stranger = await startPeer({ after });
const bob = peer.identity('agents:bob');
const agent = 'acme/general/joel/reviewer';
const bobs = 'globex/erp/bob/billing';
await acme.admin.announce(agent);
await linkPeer(acme, peer, 'globex');

const path = '/federation/v1/subscriptions';
const interest = { v: 1, org: 'acme', for: 'globex', topic: 'general/news', on: true, rev: 5 };
const tell = (more: object = {}, by = peer.instance): Promise<Answered> =>
  sendSigned(acme, { path, body: JSON.stringify({ ...interest, ...more }) }, by);
const expose = (kind: string, pattern: string, on = true) =>
  acme.admin.call('PUT', '/orgs/acme/links/globex/expose', { kind, pattern, on });
const stored = async () =>
  (await acme.database.db.query<{ active: boolean; rev: number }>('select active, rev from topic_links')).rows;

describe('a gateway that says whether it listens to a topic here', () => {
  it('is missing a topic that is not exposed, that is not there, of an org that is not there or not linked: one 404', async () => {
    const hidden = await tell();
    assert.equal(hidden.status, 404);
    await expose('sub', 'general/other');
    for (const [more, by] of [
      [{}, peer.instance],
      [{ topic: 'general/nothing' }, peer.instance],
      [{ org: 'nobody' }, peer.instance],
      [{ for: 'initech' }, peer.instance],
      [{ topic: 'general/other' }, stranger.instance],
    ] as const) {
      const refused = await tell(more, by);
      assert.deepEqual([refused.status, refused.text], [404, hidden.text], JSON.stringify(more));
    }
    assert.deepEqual(await stored(), []);
    assert.deepEqual((await acme.database.db.query('select 1 from topics')).rows, []);
  });

  it('speaks with the key of a gateway itself', async () => {
    await expose('sub', 'general/news');
    assert.equal((await tell({}, bob)).status, 403);
    assert.equal((await acme.call('POST', path, { body: interest })).status, 403);
    assert.equal((await acme.call('POST', path, { body: interest, token: null })).status, 401);
    assert.deepEqual(await stored(), []);
  });

  it('what cannot be read is refused by the field', async () => {
    for (const [field, values] of Object.entries({
      org: [7, '', 'A', 'a/b'],
      for: [null, 'a b'],
      topic: ['news', 'a/b/c', 'a/', '/b', 'a/..', 7, 'x'.repeat(300)],
      on: [1, 'true', null],
      rev: [0, -1, 1.5, '5', 2 ** 53],
    })) {
      for (const value of values) {
        const refused = await tell({ [field]: value });
        assert.deepEqual([refused.status, refused.json.error.field], [422, field], `${field} ${value}`);
      }
    }
    assert.equal((await tell({ v: 2 })).status, 400);
    for (const body of ['[]', '{', 'null'])
      assert.equal((await sendSigned(acme, { path, body }, peer.instance)).status, 400);
    assert.deepEqual(await stored(), []);
  });

  it('is believed in the order of its own revisions, however it arrives', async () => {
    assert.equal((await tell({ rev: 5 })).status, 200);
    assert.equal((await tell({ rev: 5 })).status, 200);
    assert.equal((await tell({ on: false, rev: 9 })).status, 200);
    assert.equal((await tell({ on: true, rev: 7 })).status, 200);
    assert.deepEqual(await stored(), [{ active: false, rev: 9 }]);
    await tell({ on: true, rev: 10 });
    assert.deepEqual(await stored(), [{ active: true, rev: 10 }]);
  });

  it('gets each event once, signed by this gateway, with the envelope as it was written', async () => {
    let got: Record<string, unknown> | undefined;
    peer.answer('/a2a/v1', (request, response, body) => {
      got = JSON.parse(body.toString());
      says({ jsonrpc: '2.0', id: 1, result: { task: { id: 't' } } })(request, response, body);
    });
    const sent = {
      v: 1,
      id: 'event-1',
      kind: 'event',
      from: agent,
      to: 'topic:news',
      body: { type: 'text/plain', text: 'Hear, hear' },
    };
    const published = await acme.call('POST', '/redsyn/v1/messages', { body: `${JSON.stringify(sent)} ` });
    assert.equal(published.status, 201);
    await eventually('the event is there', async () => got !== undefined);
    const calls = peer.requests.filter(({ path: at }) => at === '/a2a/v1');
    assert.equal(calls.length, 1);
    assert.match(String(calls[0]!.headers['signature-input']), new RegExp(`keyid="${acme.did}#`));
    const { metadata } = (got as { params: { message: { metadata: Record<string, unknown> } } }).params.message;
    assert.deepEqual(metadata[REDSYN_EXTENSION], sent);
    const { topic, from, audience } = metadata[HANDED_ON] as {
      topic: string;
      from: string;
      audience: Array<{ org: string }>;
    };
    assert.deepEqual([topic, from, audience.map(({ org }) => org)], ['topic:acme/general/news', agent, ['globex']]);
    assert.ok(calls[0]!.body.includes(JSON.stringify(sent)));
  });
});

describe('a gateway that hands an event on', () => {
  const handedOn = (more: object = {}) => ({
    topic: 'topic:globex/erp/news',
    from: bobs,
    audience: [{ org: 'acme', rev: Date.now() }],
    ...more,
  });
  const handOn = (of: Record<string, unknown>, beside: unknown, by = peer.instance): Promise<Answered> =>
    sendSigned(
      acme,
      { path: '/a2a/v1', body: inA2a(of, { message: { metadata: { [REDSYN_EXTENSION]: of, [HANDED_ON]: beside } } }) },
      by,
    );
  const event = (more: object = {}) => envelope({ kind: 'event', from: bobs, to: 'topic:erp/news', ...more });
  const waiting = async () => (await acme.call('GET', `/redsyn/v1/inbox/${agent}?peek=1`)).json.items;

  before(async () => {
    peer.answer(path, says({ on: true, rev: 1 }));
    const done = await acme.call('PUT', '/redsyn/v1/subscriptions', {
      body: { agent, topic: 'topic:globex/erp/news' },
    });
    assert.equal(done.status, 201);
  });

  it('reaches who listens; the same one again is the same', async () => {
    const one = event();
    assert.equal(refusalOf(await handOn(one, handedOn())).code, 'ok');
    assert.equal(refusalOf(await handOn(one, handedOn())).code, 'ok');
    const items = await waiting();
    assert.deepEqual(
      items.map((item: { id: string; topic: string }) => [item.id, item.topic]),
      [[one.id, 'topic:globex/erp/news']],
    );
    // Ids are their publishers' own: another one may have used the same.
    assert.equal(refusalOf(await handOn(one, handedOn({ from: 'initech/x/y/z' }))).code, 'ok');
    assert.equal((await waiting()).length, 2);
  });

  it('only of its own topics, to an org that it names, from a link that is active; unsigned ones not', async () => {
    const before = (await waiting()).length;
    const missing = { code: 'address_not_found', status: 200, gate: 'address' };
    assert.deepEqual(refusalOf(await handOn(event(), handedOn({ topic: 'topic:acme/general/news' }))), missing);
    assert.deepEqual(refusalOf(await handOn(event(), handedOn({ topic: 'topic:initech/erp/news' }))), missing);
    assert.deepEqual(refusalOf(await handOn(event(), handedOn({ audience: [] }))), missing);
    assert.deepEqual(refusalOf(await handOn(event(), handedOn(), stranger.instance)), missing);
    assert.deepEqual(refusalOf(await handOn(event({ to: 'topic:globex/erp/news' }), handedOn(), bob)), missing);
    assert.equal(refusalOf(await handOn(event(), undefined)).code, 'sender_mismatch');
    const unsigned = envelope({ kind: 'event', from: bobs, to: 'topic:erp/news' }, { sealed: false });
    assert.equal(refusalOf(await handOn(unsigned, handedOn())).code, 'policy_denied');
    for (const wrong of [
      7,
      [],
      {},
      handedOn({ topic: 7 }),
      handedOn({ audience: [{ org: 1, rev: 1 }] }),
      handedOn({ audience: [{ org: 'acme', rev: 'x' }] }),
    ]) {
      assert.equal(refusalOf(await handOn(event(), wrong)).code, 'invalid_field', JSON.stringify(wrong));
    }
    for (const topic of ['erp/news', 'topic:news', 'topic:globex/erp/News']) {
      assert.notEqual(refusalOf(await handOn(event(), handedOn({ topic }))).code, 'ok', topic);
    }
    assert.equal((await waiting()).length, before);
  });

  it('with a request or a reply beside it changes nothing of what those need', async () => {
    const request = envelope({ from: bobs, to: agent });
    assert.notEqual(refusalOf(await handOn(request, handedOn())).code, 'ok');
  });
});

describe('a gateway that withdraws what an owner behind it sent', () => {
  const cancelTask = (id: string, by = bob): Promise<Answered> => {
    const params = { id, metadata: { [REDSYN_EXTENSION]: { cancel: id } } };
    const headers = { 'a2a-version': '1.0' };
    return sendSigned(
      acme,
      { path: '/a2a/v1', headers, body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'CancelTask', params }) },
      by,
    );
  };

  it('needs her key, and finds her requests alone', async () => {
    await expose('agent', '*');
    await acme.admin.announce(agent, { allow: ['org:globex'] });
    const asked = envelope({ from: bobs, to: agent });
    assert.equal(refusalOf(await sendSigned(acme, { path: '/a2a/v1', body: inA2a(asked) }, bob)).code, 'ok');
    const id = String(asked.id);
    const unknown = await cancelTask('nobody-asked');
    assert.equal(refusalOf(unknown).code, 'not_found');
    assert.equal((await cancelTask(id, peer.identity('agents:eve'))).text, unknown.text);
    assert.equal(refusalOf(await cancelTask(id, peer.instance)).code, 'forbidden');
    const done = await cancelTask(id);
    assert.equal(done.json.result.status.state, 'TASK_STATE_CANCELED');
    assert.deepEqual(done.json.result.metadata[REDSYN_EXTENSION], { canceled: true });
    const { json } = await acme.call('GET', `/redsyn/v1/inbox/${agent}?peek=1`);
    assert.ok(!json.items.some((item: { id: string }) => item.id === id));
  });
});
