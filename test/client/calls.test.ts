import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { it } from 'node:test';
import {
  Client,
  fullAddress,
  fullTopic,
  GatehouseError,
  NoAnswerError,
  nodeKeys,
  verifyWebhook,
} from '../../src/client/index.ts';

interface Step {
  status?: number;
  body?: object;
  headers?: Record<string, string>;
  throws?: boolean;
}

/** A gateway that answers as it is told, one step per call. */
function scripted(steps: Step[]): { client: Client; sent: string[] } {
  const sent: string[] = [];
  const answer: typeof fetch = async (_url, init) => {
    sent.push(String(init?.body));
    const { status = 200, body = {}, headers = {}, throws } = steps[sent.length - 1] ?? {};
    if (throws) throw new TypeError('fetch failed', { cause: new Error('ECONNREFUSED') });
    return Response.json(body, { status, headers });
  };
  const client = new Client({
    url: 'http://gateway.test/',
    token: 'ghn_x',
    keys: nodeKeys(),
    seal: false,
    agent: 'acme/dev/joel/cli',
    fetch: answer,
    retries: { tries: 4, baseMs: 1 },
  });
  return { client, sent };
}

it('a 5xx, a plain 429 and no answer are repeated with the very same bytes', async () => {
  const { client, sent } = scripted([
    { status: 503 },
    { status: 429, headers: { 'retry-after': '0' } },
    { throws: true },
    { status: 201, body: { id: 'x', thread: 'x', to: 'y', signed: true } },
  ]);
  assert.equal((await client.send({ to: 'ana/close', text: 'hi' })).id, 'x');
  assert.equal(sent.length, 4);
  assert.equal(new Set(sent).size, 1);
  assert.deepEqual(
    [JSON.parse(sent[0]!).from, JSON.parse(sent[0]!).to],
    ['acme/dev/joel/cli', 'acme/dev/ana/close'],
    'full addresses travel',
  );
});

it('the tries are bounded, and the last fault is told', async () => {
  const away = scripted(Array.from({ length: 9 }, () => ({ throws: true })));
  const fault = await away.client.send({ to: 'ana/close', text: 'hi' }).catch((error: unknown) => error);
  assert.ok(fault instanceof NoAnswerError);
  assert.match(fault.message, /gateway\.test.*ECONNREFUSED/);
  assert.equal(away.sent.length, 4);
});

for (const [what, step] of [
  ['a full day (429 with quota)', { status: 429, body: { error: 'full', quota: true } }],
  ['a full count (403 with quota)', { status: 403, body: { error: 'full', quota: true } }],
  ['a refusal', { status: 422, body: { error: 'no', code: 'invalid_field' } }],
  ['a redirect', { status: 302, headers: { location: 'https://elsewhere.test' } }],
] as const) {
  it(`${what} is not repeated`, async () => {
    const { client, sent } = scripted([step, step]);
    const fault = await client.send({ to: 'ana/close', text: 'hi' }).catch((error: unknown) => error);
    assert.ok(fault instanceof GatehouseError);
    assert.equal(fault.retryable, false);
    assert.equal(sent.length, 1);
  });
}

it('a webhook delivery is genuine only with the right secret, body and time', () => {
  const [secret, body, now] = ['whsec', '{"v":1,"text":"ñ"}', 1_790_000_000_000];
  const sign = (t: number, over = body, by = secret): string =>
    `t=${t},v1=${createHmac('sha256', by).update(`${t}.${over}`).digest('hex')}`;
  const t = now / 1000;
  const genuine = (field: string, of: string | Uint8Array = body): boolean =>
    verifyWebhook({ 'Redsyn-Signature': field }, of, secret, now);
  assert.ok(genuine(sign(t)));
  assert.ok(genuine(sign(t), Buffer.from(body)));
  assert.ok(genuine(sign(t - 300)));
  assert.ok(genuine(sign(t + 300)));
  assert.ok(verifyWebhook(new Headers({ 'redsyn-signature': sign(t) }), body, secret, now));
  assert.ok(genuine(`${sign(t)},v1=${'0'.repeat(64)}`), 'one of several');
  assert.ok(!genuine(sign(t - 301)));
  assert.ok(!genuine(sign(t + 301)));
  assert.ok(!genuine(sign(t), `${body} `));
  assert.ok(!genuine(sign(t, body, 'other')));
  assert.ok(!genuine(`t=${t},v1=`));
  assert.ok(!genuine(`v1=${sign(t).split('v1=')[1]}`));
  assert.ok(!genuine(`t=${t},${sign(t - 400)}`), 'two times');
  assert.ok(!genuine(`t=${t - 400},t=${t},v1=${sign(t - 400).split('v1=')[1]}`));
  assert.ok(!genuine('nonsense'));
  assert.ok(!verifyWebhook({}, body, secret, now));
});

it('short forms are completed from the seat (REDSYN "Direcciones")', () => {
  const seat = { org: 'acme', team: 'finance', user: 'ana' };
  assert.equal(fullAddress('close', seat), 'acme/finance/ana/close');
  assert.equal(fullAddress('joel/close#new', seat), 'acme/finance/joel/close#new');
  assert.equal(fullAddress('dev/joel/close#s4', seat), 'acme/dev/joel/close#s4');
  assert.equal(fullAddress('globex/erp/bob/billing', seat), 'globex/erp/bob/billing');
  assert.equal(fullAddress('did:web:globex.com:agents:bob', seat), 'did:web:globex.com:agents:bob');
  assert.equal(fullAddress('https://globex.com/card.json', seat), 'https://globex.com/card.json');
  assert.equal(fullTopic('invoices', seat), 'topic:acme/finance/invoices');
  assert.equal(fullTopic('topic:dev/builds', seat), 'topic:acme/dev/builds');
  assert.equal(fullAddress('topic:globex/erp/x', seat), 'topic:globex/erp/x');
});
