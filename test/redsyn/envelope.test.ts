import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import fc from 'fast-check';
import { Refusal } from '../../src/lib/refusal.ts';
import { parseEnvelope } from '../../src/wires/redsyn/parse.ts';
import { person, testGateway } from '../support/gateway.ts';

const acme = await testGateway({ after });
const eve = await person(acme, 'eve');
const asker = 'acme/general/joel/asker';
const desk = 'acme/general/joel/desk';
for (const agent of [asker, desk]) await acme.admin.announce(agent);

let count = 0;
const good = (): Record<string, unknown> => ({
  v: 1,
  id: `m${++count}`,
  kind: 'request',
  from: asker,
  to: desk,
  body: { type: 'text/plain', text: 'x' },
});
const send = (more: Record<string, unknown> = {}, token = acme.token) =>
  acme.call('POST', '/redsyn/v1/messages', { token, body: { ...good(), ...more } });
const raw = (body: string) => acme.call('POST', '/redsyn/v1/messages', { body });
const taken = async (id: string) => {
  const items = await acme.admin.take(desk, { max: 100 });
  await acme.admin.ack(
    desk,
    items.map((item) => item.id),
  );
  return items.find((item) => item.id === id);
};
const stored = async () =>
  (await acme.database.db.query<{ n: number }>('select count(*)::int as n from messages')).rows[0]!.n;

/** Each field, a value that it does not take, and the field that the 422 names. */
const wrong: Array<[Record<string, unknown>, string]> = [
  ...[0, 2, '1', null, true, 1.5].map((v): [Record<string, unknown>, string] => [{ v }, 'v']),
  ...[7, {}, [], true, 'a b', 'tab\there', 'line\nend', '\u200f', 'x'.repeat(201)].map(
    (id): [Record<string, unknown>, string] => [{ id }, 'id'],
  ),
  ...['ask', '', null, 1, ['request']].map((kind): [Record<string, unknown>, string] => [{ kind }, 'kind']),
  ...[null, '', 7, {}, 'x'.repeat(501)].map((from): [Record<string, unknown>, string] => [{ from }, 'from']),
  ...[null, '', 7, [desk], 'x'.repeat(501)].map((to): [Record<string, unknown>, string] => [{ to }, 'to']),
  ...['acme/general/joel/Desk', 'acme/general/joel/desk#0', 'acme/general/joel/de sk', 'a/b/c/d/e'].map(
    (to): [Record<string, unknown>, string] => [{ to }, 'to'],
  ),
  ...[7, {}, 'x'.repeat(257)].map((thread): [Record<string, unknown>, string] => [{ thread }, 'thread']),
  ...[7, {}, 'x'.repeat(201)].map((reply_to): [Record<string, unknown>, string] => [{ reply_to }, 'reply_to']),
  [{ kind: 'reply' }, 'reply_to'],
  [{ kind: 'progress', reply_to: '' }, 'reply_to'],
  ...['1790000000', 1.5, -1, {}, 1e300].map((ts): [Record<string, unknown>, string] => [{ ts }, 'ts']),
  ...['60', 0, -1, 1.5, {}, 1e300].map((ttl): [Record<string, unknown>, string] => [{ ttl }, 'ttl']),
  ...[null, 'text', [], 7].map((body): [Record<string, unknown>, string] => [{ body }, 'body']),
  [{ body: {} }, 'body.type'],
  [{ body: { type: 7, text: 'x' } }, 'body.type'],
  [{ body: { type: 'x'.repeat(201) } }, 'body.type'],
  [{ body: { type: 'text/plain' } }, 'body.text'],
  [{ body: { type: 'text/plain', text: 7 } }, 'body.text'],
  [{ body: { type: 'application/json' } }, 'body.data'],
  [{ body: { type: 'text/plain', text: 'x'.repeat(64 * 1024 + 1) } }, 'body'],
  [{ body: { type: 'application/json', data: 'x'.repeat(64 * 1024) } }, 'body'],
  [{ body: { type: 'text/plain', text: 'x', more: 'x'.repeat(5_000) } }, 'body'],
  ...['ref', {}, 7, ['https://a.test'], [[]]].map((refs): [Record<string, unknown>, string] => [{ refs }, 'refs']),
  [{ refs: Array.from({ length: 101 }, () => ({ url: 'https://a.test' })) }, 'refs'],
  [{ refs: [{ note: 'x'.repeat(64 * 1024) }] }, 'refs'],
  ...['true', 1, {}].map((error): [Record<string, unknown>, string] => [{ error }, 'error']),
  ...['sig', 7, []].map((sig): [Record<string, unknown>, string] => [{ sig }, 'sig']),
  [{ ts: 1, sig: { alg: 1, key: 'k', value: 'v' } }, 'sig.alg'],
  [{ ts: 1, sig: { alg: 'ed25519', value: 'v' } }, 'sig.key'],
  [{ ts: 1, sig: { alg: 'ed25519', key: 'k', value: 'x'.repeat(201) } }, 'sig.value'],
  [{ sig: { alg: 'ed25519', key: 'k', value: 'v' } }, 'ts'],
  [{ files: 'zip' }, 'files'],
];

describe('the envelope (REDSYN "El sobre")', () => {
  it('a field of the wrong type or beyond its limit is 422 and named, and changes nothing', async () => {
    const before = await stored();
    for (const [more, field] of wrong) {
      const answer = await send(more);
      assert.deepEqual([answer.status, answer.json.field], [422, field], JSON.stringify(more).slice(0, 100));
      assert.match(answer.json.error, /\S/);
      assert.equal(answer.headers.get('redsyn-version'), '2026-09-25');
    }
    assert.equal(await stored(), before);
  });

  it('each limit itself is taken', async () => {
    for (const more of [
      { id: `${'i'.repeat(195)}${count}` },
      { id: 'ñandú-✓-🙂' },
      { thread: 't'.repeat(256) },
      { body: { type: 'text/plain', text: 'x'.repeat(64 * 1024) } },
      // Measured on the content: escapes cost the sender nothing.
      { body: { type: 'text/plain', text: '\u0001'.repeat(64 * 1024) } },
      { body: { type: 'text/plain', text: 'é'.repeat(32 * 1024) } },
      { body: { type: 'application/json', data: null } },
      { body: { type: 'application/json', data: 'x'.repeat(64 * 1024 - 2) } },
      { refs: Array.from({ length: 100 }, (_, i) => ({ url: `https://a.test/${i}`, note: 'n' })) },
      { ts: 0 },
      { ts: null, ttl: null, refs: null, error: null, thread: null, reply_to: null, sig: null, files: null },
      { ttl: 1 },
    ]) {
      const answer = await send(more);
      assert.equal(answer.status, 201, `${JSON.stringify(more).slice(0, 80)}: ${answer.text}`);
    }
    assert.equal((await send({ body: { type: 'text/plain', text: 'é'.repeat(32 * 1024 + 1) } })).status, 422);
  });

  it('NUL and half of a surrogate pair are 422 and named, wherever they stand (CAN-06)', async () => {
    for (const [json, field] of [
      ['"body":{"type":"text/plain","text":"a\\u0000b"}', 'body'],
      ['"body":{"type":"application/json","data":{"deep":[{"\\u0000":1}]}}', 'body'],
      ['"body":{"type":"text/plain","text":"\\ud800"}', 'body'],
      ['"body":{"type":"text/plain","text":"\\udc00\\ud800"}', 'body'],
      ['"refs":[{"note":"\\u0000"}]', 'refs'],
      ['"thread":"\\u0000"', 'thread'],
      ['"unknown":"\\ud83d"', 'unknown'],
      ['"\\u0000":1', '\u0000'],
    ] as const) {
      const rest = JSON.stringify(good()).slice(1);
      const body = json.startsWith('"body"') ? rest.replace(/,"body":\{[^}]*\}/, '') : rest;
      const answer = await raw(`{${json},${body}`);
      assert.deepEqual([answer.status, answer.json.field], [422, field], json);
    }
    const pair = await send({ body: { type: 'text/plain', text: '🙂' } });
    assert.equal((await taken(pair.json.id))?.body.text, '🙂');
  });

  it('a missing id is made, and the answer tells it; `to` comes back with its session', async () => {
    const { id: _, ...rest } = good();
    for (const more of [{}, { id: null }, { id: '' }]) {
      const answer = await acme.call('POST', '/redsyn/v1/messages', { body: { ...rest, ...more } });
      assert.equal(answer.status, 201);
      assert.match(answer.json.id, /^\S{10,}$/);
      assert.equal(answer.json.thread, answer.json.id, 'a request without a thread opens one with its own id');
      assert.match(answer.json.to, /^acme\/general\/joel\/desk#s\d+$/);
      assert.equal(answer.json.signed, false);
      assert.equal((await taken(answer.json.id))?.id, answer.json.id);
    }
  });

  it('what is delivered is what was sent, with what the relay adds', async () => {
    const refs = [{ url: 'https://git.acme.com/app', note: 'at 4f2c1d', more: 1.0 }];
    const sent = await send({
      ts: 1_790_000_000,
      ttl: 600,
      refs,
      future: { field: [1] },
      body: { type: 'text/markdown', text: '# x', lang: 'es' },
    });
    const item = await taken(sent.json.id);
    assert.ok(item);
    const { v, kind, from, to, ts, ttl, error, future, body, attempts, signed, sig } = item;
    assert.deepEqual(
      {
        v,
        kind,
        from,
        to,
        ts,
        ttl,
        error,
        future,
        body,
        attempts,
        signed,
        sig,
        refs: item.refs,
        reply_to: item.reply_to,
      },
      {
        v: 1,
        kind: 'request',
        from: asker,
        to: sent.json.to,
        ts: 1_790_000_000,
        ttl: 600,
        error: false,
        future: { field: [1] },
        body: { type: 'text/markdown', text: '# x', lang: 'es' },
        attempts: 1,
        signed: false,
        sig: null,
        refs,
        reply_to: null,
      },
    );
    assert.ok(Math.abs(item.expires - Date.now() / 1000 - 600) < 30);
    const plain = await taken((await send()).json.id);
    assert.ok(Math.abs(plain!.ts - Date.now() / 1000) < 30, 'without one, the time at which it came');
    assert.deepEqual(plain!.refs, []);
  });

  it('a follow-up in the thread lands in the same session; #sN and #new choose one', async () => {
    const first = await send();
    const again = await send({ thread: first.json.thread });
    assert.deepEqual([again.json.thread, again.json.to], [first.json.thread, first.json.to]);
    const [, n] = /#(s\d+)$/.exec(first.json.to)!;
    assert.equal((await send({ to: `${desk}#${n}` })).json.to, first.json.to);
    assert.notEqual((await send({ thread: first.json.thread, to: `${desk}#new` })).json.to, first.json.to);
    assert.equal((await send({ to: `${desk}#s99999` })).status, 404);
  });

  it('`from` is one of your agents: another’s and none at all are one answer', async () => {
    const own = 'acme/general/eve/own';
    await eve.announce(own);
    const [others, none] = [await send({}, eve.token), await send({ from: 'acme/general/eve/none' }, eve.token)];
    for (const answer of [others, none]) assert.equal(answer.status, 403);
    assert.equal(others.json.error, none.json.error);
    assert.equal((await send({ from: own, to: asker }, eve.token)).status, 201);
    assert.equal((await send({ from: `${asker}#s4` })).status, 201);
  });

  it('REL-07: an id that somebody else used first is independent of mine, and tells nothing', async () => {
    const own = 'acme/general/eve/own';
    const mine = await send({ id: 'shared', thread: 'secret-thread', body: { type: 'text/plain', text: 'secret' } });
    const hers = await send({ id: 'shared', from: own }, eve.token);
    assert.equal(hers.status, 201);
    assert.equal(hers.json.duplicate, undefined);
    assert.ok(!hers.text.includes('secret'));
    const repeat = await send({ id: 'shared', body: { type: 'text/plain', text: 'other text' } });
    assert.deepEqual(repeat.json, { ...mine.json, duplicate: true }, 'the first result, whatever the repeat says');
    const items = (await acme.admin.take(desk, { max: 100 })).filter((item) => item.id === 'shared');
    assert.deepEqual(items.map((item) => item.body.text).sort(), ['secret', 'x']);
    await acme.admin.ack(desk, ['shared']);
  });

  it('no JSON at all, or another kind of JSON: a plain error, never a 500', async () => {
    for (const body of [
      '{',
      '',
      'null',
      '[]',
      '"x"',
      '7',
      `{"v":1,"v":1,${JSON.stringify(good()).slice(1)}`,
      `${'['.repeat(200)}`,
    ]) {
      const answer = await raw(body);
      assert.ok([400, 422].includes(answer.status), `${body.slice(0, 20)}: ${answer.text}`);
      assert.equal(answer.json.status, answer.status);
    }
  });

  it('property: whatever stands in a field, the envelope is taken or the 422 names that field', () => {
    const fields = [
      'v',
      'id',
      'kind',
      'from',
      'to',
      'thread',
      'reply_to',
      'ts',
      'ttl',
      'body',
      'refs',
      'files',
      'error',
      'sig',
    ];
    fc.assert(
      fc.property(fc.constantFrom(...fields), fc.jsonValue({ maxDepth: 3 }), (field, value) => {
        const parsed = parseEnvelope(Buffer.from(JSON.stringify({ ...good(), [field]: value })));
        if (!(parsed instanceof Refusal)) return assert.equal(parsed.envelope.v, 1);
        assert.equal(parsed.code, 'invalid_field');
        const named = String(parsed.data?.field);
        const fits = named === field || named.startsWith(`${field}.`) || (named === 'ts' && field === 'sig');
        assert.ok(fits || (field === 'kind' && named === 'reply_to'), `${field} = ${JSON.stringify(value)}: ${named}`);
      }),
      { numRuns: 2_000 },
    );
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const parsed = parseEnvelope(Buffer.from(JSON.stringify(value)));
        return parsed instanceof Refusal && ['invalid_field'].includes(parsed.code);
      }),
    );
    fc.assert(fc.property(fc.uint8Array(), (bytes) => parseEnvelope(Buffer.from(bytes)) instanceof Refusal));
  });
});
