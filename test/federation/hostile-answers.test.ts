import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Client } from '../../src/client/index.ts';
import { eventually, team, testGateway } from '../support/gateway.ts';
import { type Answer, linkPeer, neverAnswers, type Peer, says, startPeer } from '../support/peer.ts';

/** What a partner answers is no more to be believed than what it sends. */
const globex = await testGateway({ after }, { org: 'globex', admin: 'bob' });
const bob = new Client({ url: globex.url, token: globex.token, seal: false });
const peer: Peer = await startPeer({ after });
const billing = 'globex/erp/bob/billing';
const bot = 'initech/dev/eve/bot';
const path = '/a2a/v1';

before(async () => {
  await team(globex, 'erp', ['bob']);
  await globex.admin.announce(billing);
  await linkPeer(globex, peer, 'initech');
});

interface Told {
  status: number;
  code: string;
  message: string;
}

async function send(answer: Answer): Promise<Told | { id: string; to: string }> {
  peer.answer(path, answer);
  // What an earlier test left waiting is no part of this one.
  await globex.database.db.query('delete from circuits');
  await globex.database.db.query('delete from outbox');
  return bob.send({ from: billing, to: bot, text: 'hi' }).catch((error: Told) => error) as Promise<Told>;
}

const error = (code: string, message: unknown = 'no', more: object = {}, status = 200): Answer =>
  says(
    {
      jsonrpc: '2.0',
      id: 1,
      error: {
        code: -32000,
        message,
        data: [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'X', metadata: { code, ...more } }],
      },
    },
    status,
  );

describe('what a partner answers', () => {
  it('a refusal in its words, which hold a NUL, a line break, an escape and half of a pair', async () => {
    const told = (await send(error('policy_denied', 'a\u0000b\nc\u001b[31md\ud800e'))) as Told;
    assert.equal(told.status, 403);
    assert.equal(told.code, 'policy_denied');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what is looked for
    assert.doesNotMatch(told.message, /[\u0000-\u001f\ud800-\udfff]/);
  });

  it('the same as an error that stops the destination, and as the reason of a retry', async () => {
    for (const answer of [error('unauthenticated', 'a\u0000b', {}, 401), error('rate_limited', 'a\u0000b')]) {
      await send(answer);
      await eventually('the outcome is recorded', async () => {
        const { rows } = await globex.database.db.query<{ n: number }>(
          `select (select count(*)::int from circuits where last_error is not null) +
             (select count(*)::int from outbox where last_error is not null) as n`,
        );
        return rows[0]!.n > 0;
      });
    }
  });

  it("its 401 is about this gateway's key, not about the sender's token", async () => {
    const told = (await send(error('signature_failed', 'who are you?', {}, 401))) as Told;
    assert.deepEqual([told.status, told.code, told.message], [403, 'signature_failed', 'who are you?']);
  });

  for (const code of ['constructor', 'toString', '__proto__', 'hasOwnProperty', 'A\u0000B', 'x'.repeat(10_000)]) {
    it(`the code ${JSON.stringify(code.slice(0, 20))}, which no table here has`, async () => {
      const told = (await send(error(code))) as Told;
      assert.equal(told.code, 'forbidden');
      assert.ok(told.status >= 400 && told.status < 500, String(told.status));
    });
  }

  it('facts that would pass for our own: status, code and error stay ours', async () => {
    const told = (await send(
      error('policy_denied', 'no', { status: '200', error: 'fine', code2: 'x', retryable: 'false', gate: 'thread' }),
    )) as Told & { data: Record<string, unknown> };
    assert.equal(told.status, 403);
    assert.equal(told.data.status, 403);
    assert.equal(told.data.error, 'no');
  });

  for (const [name, answer] of [
    ['10 MB', says({ result: { pad: 'x'.repeat(10_000_000) } })],
    ['no JSON', ((_q, r) => void r.writeHead(200, { 'content-type': 'text/html' }).end('<p>hello</p>')) as Answer],
    [
      'a redirect to a private address',
      ((_q, r) => void r.writeHead(307, { location: 'http://127.0.0.1:1/' }).end()) as Answer,
    ],
    ['a connection that ends', ((q) => void q.socket.destroy()) as Answer],
    ['a result that is no task', says({ jsonrpc: '2.0', id: 1, result: 7 })],
    ['an error that is no object', says({ jsonrpc: '2.0', id: 1, error: 'no' })],
  ] as const) {
    it(`${name}: the message is kept and tried again`, { timeout: 30_000 }, async () => {
      const sent = (await send(answer)) as { id: string };
      assert.ok(sent.id, JSON.stringify(sent));
      await eventually('a try that failed', async () => {
        const { rows } = await globex.database.db.query(
          'select from outbox where attempts > 0 and last_error is not null',
        );
        return rows.length > 0;
      });
    });
  }

  it('nothing at all: the sender is told within seconds that it is taken', { timeout: 30_000 }, async () => {
    const began = Date.now();
    const sent = (await send(neverAnswers)) as { id: string };
    assert.ok(sent.id, JSON.stringify(sent));
    assert.ok(Date.now() - began < 8_000);
  });

  it('a session of its own choice is believed only if it is one', async () => {
    for (const to of [
      'initech/dev/eve/bot#s7',
      'globex/erp/bob/billing#s1',
      '#s1\u0000',
      'x'.repeat(100_000),
      7,
      null,
    ]) {
      const note = { 'https://gatehouse.dev/ext/redsyn/v1': { id: 'x', to, thread: 'evil', signed: true } };
      const sent = (await send(says({ jsonrpc: '2.0', id: 1, result: { task: { id: 't', metadata: note } } }))) as {
        to: string;
      };
      assert.match(sent.to, /^initech\/dev\/eve\/bot(#s\d{1,9})?$/, JSON.stringify(to)?.slice(0, 60));
    }
  });
});
