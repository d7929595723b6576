import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { DidResolver } from '../../src/identity/resolver.ts';
import { ManualClock } from '../../src/lib/clock.ts';
import { type Fetch, FetchRefused } from '../../src/lib/fetch-types.ts';
import type { OutboxItem } from '../../src/outbox/types.ts';
import { ConferClient, type ConferClientOptions } from '../../src/wires/confer/client.ts';
import { readAnswer } from '../../src/wires/confer/client-result.ts';
import { putPolicy } from '../owner/support.ts';
import { eventually, team, testGateway } from '../support/gateway.ts';
import { type Answered, documentOf, type Identity, rows, says, sendSigned } from '../support/peer.ts';
import { befriend, conferPeer } from './peer.ts';

const clock = new ManualClock(Date.now());
const globex = await testGateway({ after }, { org: 'globex', admin: 'bob', clock, env: { GATEHOUSE_RATE_PEER: '60' } });
const second = await globex.replica();
const zoe = await conferPeer({ after });
const billing = 'globex/erp/bob/billing';
const ownerDid = `${globex.did}:agents:bob`;
const agentDid = `${ownerDid}:erp:billing`;
const path = '/a2a/v1/messages';

/** Each test has the minute to itself. */
const nextMinute = (): void => clock.advance(61_000);
const now = (): { now: number } => ({ now: clock.now() });
const asks = (
  content = 'x',
  by: Pick<Identity, 'did' | 'keyId' | 'key'> = zoe.owner,
  more: object = {},
): Promise<Answered> =>
  sendSigned(
    globex,
    { path, body: JSON.stringify({ from: by.did, to: agentDid, message: { type: 'question', content }, ...more }) },
    by,
    now(),
  );

before(async () => {
  await team(globex, 'erp', ['bob']);
  await globex.admin.announce(billing, { is_default: true });
  await befriend(globex, 'bob', zoe.owner.did);
});

describe('standing rules over Confer (confer-wire-facts §3)', () => {
  it('deny is 403 policy_denied, and nothing is stored', async () => {
    await putPolicy(globex, `peer.${zoe.owner.did}:\n  deny:\n    - ask: "*"\n`);
    const was = await rows(globex);
    const { status, json } = await asks();
    assert.deepEqual(
      [status, json.error.code, json.error.message],
      [403, 'policy_denied', 'Agent policy denied this request'],
    );
    const told = await sendSigned(
      globex,
      {
        path,
        body: JSON.stringify({ from: zoe.agent, to: agentDid, message: { type: 'notification', content: 'x' } }),
      },
      zoe.owner,
      now(),
    );
    assert.equal(told.status, 403, 'a deny denies what asks nothing, too');
    assert.deepEqual(await rows(globex), was);
  });

  it('ask_user is 202 pending_approval with the id; the stream is pending until it is decided, and then tells the answer', async () => {
    await putPolicy(globex, `peer.${zoe.owner.did}:\n  default: ask_user\n`);
    const { status, json } = await asks('May I?');
    assert.deepEqual(
      [status, Object.keys(json).sort(), json.status],
      [202, ['message_id', 'status'], 'pending_approval'],
    );
    const stream = async (): Promise<string> =>
      (await sendSigned(globex, { method: 'GET', path: `/a2a/v1/stream/${json.message_id}` }, zoe.owner, now())).text;
    assert.match(await stream(), /event: done\ndata: \{[^\n]*"status":"pending"/);
    const told = await sendSigned(
      globex,
      {
        path,
        body: JSON.stringify({
          from: zoe.agent,
          to: agentDid,
          message: { type: 'notification', content: 'by the way' },
        }),
      },
      zoe.owner,
      now(),
    );
    assert.equal(told.status, 201, 'what asks nothing waits for nobody');
    const { permissions } = (await globex.call('GET', '/api/v1/permissions/pending')).json;
    const held = permissions.find((one: { scope: { content?: string } }) => one.scope.content === 'May I?');
    const decided = await Promise.all(
      ['allow_once', 'allow_once'].map((decision) =>
        globex.call('POST', `/api/v1/permissions/${held.id}/decide`, { body: { decision } }),
      ),
    );
    assert.deepEqual(
      decided.map((one) => one.status),
      [200, 200],
    );
    const request = await eventually('the question', async () =>
      (await globex.admin.take(billing, { max: 10 })).find(({ kind }) => kind === 'request'),
    );
    await globex.admin.reply(request, 'You may.');
    assert.match(await stream(), /You may\./);
    assert.equal((await globex.admin.take(billing, { max: 10 })).length, 0, 'approved twice, it was brought once');
    await putPolicy(globex, '');
  });
});

describe('keys (confer-wire-facts §1)', () => {
  const eve = zoe.identity('agents:eve');
  const code = async (): Promise<string> => (await asks('x', eve)).json.error.code;

  it('key_not_authorized: the document lists the key, and not for authentication', async () => {
    zoe.answer(eve.path, says(documentOf(eve, { authentication: [`${eve.did}#key-2`] })));
    assert.equal(await code(), 'key_not_authorized');
    nextMinute();
    zoe.answer(eve.path, says(documentOf(eve, { authentication: [] })));
    assert.equal(await code(), 'key_not_authorized');
    nextMinute();
    const { authentication: _, ...without } = documentOf(eve);
    zoe.answer(eve.path, says(without));
    assert.equal((await asks('x', eve)).status, 202, 'without `authentication` any key of the document signs');
  });

  it('key_invalid: the key is of a kind that signs nothing here', async () => {
    for (const method of [
      { type: 'X25519KeyAgreementKey2020', publicKeyMultibase: eve.key.publicKeyMultibase },
      { type: 'Ed25519VerificationKey2020', publicKeyMultibase: 'z6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc' },
      { type: 'JsonWebKey2020', publicKeyJwk: { kty: 'RSA', n: 'AQAB', e: 'AQAB' } },
    ]) {
      nextMinute();
      zoe.answer(
        eve.path,
        says(documentOf(eve, { verificationMethod: [{ id: eve.keyId, controller: eve.did, ...method }] })),
      );
      assert.equal(await code(), 'key_invalid', JSON.stringify(method));
    }
  });

  it('did_resolution_failed: a document that is away may be read at the next try, and when is told; one that is not there is not', async () => {
    nextMinute();
    zoe.answer(eve.path, says({}, 503));
    const away = await asks('x', eve);
    assert.deepEqual(
      [away.status, away.json.error.code, away.json.error.retryable, away.headers['retry-after']],
      [401, 'did_resolution_failed', true, '10'],
    );
    nextMinute();
    zoe.answer(eve.path, says({}, 404));
    const gone = await asks('x', eve);
    assert.deepEqual([gone.json.error.code, gone.headers['retry-after']], ['did_resolution_failed', undefined]);
  });
});

describe('asking a peer whose DID document cannot be read', () => {
  const outcome = async (fails: number | FetchRefused): Promise<string | null> => {
    const fetch: Fetch = async (url) => {
      if (url.endsWith('/did.json') && fails instanceof FetchRefused) throw fails;
      const status = url.endsWith('/did.json') ? (fails as number) : 404;
      return { status, headers: { get: () => undefined }, body: Buffer.from('{}') };
    };
    const question = {
      exchangeId: 'e',
      messageId: 'm',
      ownerId: 'o',
      thread: 't',
      from: billing,
      done: false,
      orgId: 'g',
    };
    const envelope = { v: 1, id: 'm', kind: 'request', from: billing, body: { type: 'text/plain', text: 'x' } };
    const client = new ConferClient({
      letters: { question: async () => ({ ...question, envelope }) } as unknown as ConferClientOptions['letters'],
      signer: () => assert.fail('nothing is sent'),
      didOf: async () => null,
      mayLeave: async () => true,
      resolver: new DidResolver({ fetch, clock: new ManualClock() }),
      fetch,
      clock: new ManualClock(),
      loopback: false,
    });
    const item = { id: 1, messageSeq: 1, attempts: 1 } as OutboxItem;
    const result = await client.ask(item, 'did:web:peer.test:agents:zoe:agent', new AbortController().signal);
    return result && [result.outcome, 'retryAfterMs' in result && result.retryAfterMs].join(' ');
  };

  it('what is away now is asked for again; what is not there, or may not be called, is not', async () => {
    assert.equal(await outcome(503), 'retry 10000');
    assert.equal(await outcome(429), 'retry 10000');
    assert.equal(await outcome(new FetchRefused('timeout', 'too slow')), 'retry 10000');
    assert.equal(await outcome(404), null);
    assert.equal(await outcome(new FetchRefused('address', 'private')), null);
  });

  it('a peer that cannot read ours is no reason to stop writing to it', () => {
    const answer = { status: 401, headers: { get: () => undefined }, body: Buffer.alloc(0) };
    const result = readAnswer(answer, { error: { code: 'did_resolution_failed', message: 'not now' } }, 50);
    assert.deepEqual(result, { outcome: 'retry', reason: 'not now', destinationDown: true });
  });
});

describe('rates over Confer', () => {
  it('429 with Retry-After; what one replica let pass counts on the other', async () => {
    nextMinute();
    const there = { url: globex.url, authority: `localhost:${new URL(second.base).port}` };
    const body = JSON.stringify({ from: zoe.agent, to: agentDid, message: { type: 'notification', content: 'tick' } });
    const statuses: number[] = [];
    let last: Answered | undefined;
    for (let i = 0; i < 64; i++) {
      const sent = { path, body, headers: { host: globex.authority } };
      last = await sendSigned(i % 2 === 0 ? globex : there, sent, zoe.owner, now());
      statuses.push(last.status);
    }
    assert.deepEqual([statuses.filter((status) => status === 201).length, statuses.indexOf(429)], [60, 60]);
    assert.deepEqual([last!.json.error.code, last!.json.error.message], ['rate_limited', 'Too many requests']);
    const wait = Number(last!.headers['retry-after']);
    assert.ok(wait >= 1 && wait <= 60);
    clock.advance(wait * 1000);
    assert.equal((await asks()).status, 201);
  });
});
