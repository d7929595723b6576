import assert from 'node:assert/strict';
import { createPrivateKey } from 'node:crypto';
import { after, describe, it, type TestContext } from 'node:test';
import { AgentCard, generateAgentCardSignature } from '@a2a-js/sdk';
import { KeyPair } from '../../src/identity/keys.ts';
import { storedZip } from '../../src/lib/zip-write.ts';
import { eventually } from '../support/gateway.ts';
import { type A2aServer, gate, startA2aServer } from './remote-server.ts';
import { startAsker } from './remote-tools.ts';

const { gateway: acme, ask, answersTo, replyTo, next, refusal } = await startAsker({ after });

describe('a server that answers with a message', async () => {
  const server = await startA2aServer(
    { after },
    { brain: (turn) => turn.message([{ text: `You said: ${turn.text}` }]) },
  );

  for (const [name, to] of [
    ['its did:web', (s: A2aServer) => s.did],
    ['h/agents/u/agent', (s: A2aServer) => `${s.authority}/agents/eve/agent`],
    ['the URL of its card', (s: A2aServer) => s.cardUrl],
    ['the URL of the server', (s: A2aServer) => s.base],
  ] as const) {
    it(`closes the exchange at once: by ${name}`, async () => {
      const sent = await ask(to(server));
      const [reply, more] = await answersTo(sent.id);
      assert.equal(more, undefined);
      assert.equal(reply!.body.type, 'text/plain');
      assert.equal(reply!.body.text, 'You said: How are you?');
      assert.equal(reply!.thread, sent.thread);
      assert.equal(reply!.reply_to, sent.id);
      assert.equal(reply!.signed, false);
    });
  }

  it('the request is signed with the key of the owner', () => {
    const { headers, body } = server.seen.find((one) => one.path === '/rpc')!;
    assert.match(String(headers['signature-input']), /keyid="did:web:localhost%3A\d+:agents:joel#key-1"/);
    assert.equal(headers['a2a-version'], '1.0');
    assert.equal(body.method, 'SendMessage');
    assert.deepEqual(body.params.configuration, { returnImmediately: true });
  });

  it('its card is fetched once in 60 s', () => {
    assert.equal(server.seen.filter(({ path }) => path === '/.well-known/agent-card.json').length, 1);
  });

  it('a second request in the same thread goes on in the context that the server named', async () => {
    const first = await ask(server.did, 'one');
    await answersTo(first.id);
    const before = server.seen.length;
    const second = await ask(server.did, 'two', { thread: first.thread });
    await answersTo(second.id);
    const sent = server.seen.slice(before).find(({ path }) => path === '/rpc')!.body.params.message;
    assert.ok(sent.contextId);
    assert.equal(sent.taskId, undefined);
  });

  it('a body of application/a2a+json and files leave as parts', async () => {
    const before = server.seen.length;
    const parts = [{ text: 'hi' }, { data: { n: 1 } }];
    const sent = await ask(server.did, '', {
      text: undefined,
      body: { type: 'application/a2a+json', data: { message: { parts } } },
    });
    await answersTo(sent.id);
    assert.deepEqual(server.seen.slice(before).find(({ path }) => path === '/rpc')!.body.params.message.parts, parts);
    const zip = storedZip([{ name: 'a.txt', data: Buffer.from('hello') }]);
    await answersTo((await ask(server.did, 'see', { files: zip })).id);
    assert.deepEqual(server.seen.at(-1)!.body.params.message.parts, [
      { text: 'see', mediaType: 'text/plain' },
      { raw: zip.toString('base64'), filename: 'files.zip', mediaType: 'application/zip' },
    ]);
  });
});

/** Works, and is done with what the test says when the test says. */
function worker(result: (turn: Parameters<Parameters<typeof startA2aServer>[1]['brain']>[0]) => void) {
  const step = gate();
  return {
    step,
    async brain(turn: Parameters<Parameters<typeof startA2aServer>[1]['brain']>[0]): Promise<void> {
      turn.task('TASK_STATE_WORKING');
      turn.status('TASK_STATE_WORKING', 'looking');
      await step.passed;
      result(turn);
    },
  };
}

describe('a task', () => {
  const ways = [
    ['polled', {}],
    ['streamed', { streaming: true }],
    ['pushed', { push: true }],
    ['polled over HTTP+JSON', { bindings: ['HTTP+JSON'] }],
    ['streamed over HTTP+JSON', { bindings: ['HTTP+JSON'], streaming: true }],
    ['polled in 0.3', { versions: ['0.3'] }],
    ['streamed in 0.3', { versions: ['0.3'], streaming: true }],
    ['pushed in 0.3', { versions: ['0.3'], push: true }],
    ['polled over HTTP+JSON of 0.3', { versions: ['0.3'], bindings: ['HTTP+JSON'] }],
    ['streamed over HTTP+JSON of 0.3', { versions: ['0.3'], bindings: ['HTTP+JSON'], streaming: true }],
  ] as const;
  for (const [name, shape] of ways) {
    it(`is followed to its end: ${name}`, async (t) => {
      const { step, brain } = worker((turn) => {
        turn.artifact([{ text: 'Paid.' }]);
        turn.status('TASK_STATE_COMPLETED');
      });
      const server = await startA2aServer(t, { brain, ...shape });
      const sent = await ask(server.did);
      const progress = await next(sent.id);
      assert.equal(progress.kind, 'progress');
      assert.equal(progress.body.text, 'looking');
      assert.equal(progress.thread, sent.thread);
      step.open();
      const reply = await replyTo(sent.id);
      assert.equal(reply.body.type, 'text/plain');
      assert.equal(reply.body.text, 'Paid.');
      assert.equal(reply.error, false);
      assert.equal(reply.thread, sent.thread);
      const calls = server.calls();
      const isStream = 'streaming' in shape;
      assert.equal(/stream/i.test(calls[0]!), isStream, calls.join());
      if ('push' in shape) {
        // Found out by the push: the poll's own pause would have been longer.
        const config = server.seen.find(({ path }) => path === '/rpc')!.body.params.configuration;
        const push = config.taskPushNotificationConfig ?? config.pushNotificationConfig;
        assert.match(push.url, new RegExp(`^${acme.url}/a2a/v1/push/[A-Za-z0-9_-]{43}$`));
        assert.match(push.token, /^[A-Za-z0-9_-]{43}$/);
      }
    });
  }

  it('data is application/json; several artifacts and files are application/a2a+json; large ones come as a zip', async (t) => {
    const big = Buffer.alloc(200_000, 7).toString('base64');
    const server = await startA2aServer(t, {
      brain(turn) {
        turn.task('TASK_STATE_WORKING');
        if (turn.text === 'data') turn.artifact([{ data: { paid: true } }]);
        if (turn.text === 'mixed') {
          turn.artifact([{ text: 'See this.' }, { raw: 'aGVsbG8=', filename: 'a.txt', mediaType: 'text/plain' }]);
          turn.artifact([{ text: 'And that.' }], { artifactId: 'a2' });
        }
        if (turn.text === 'big') turn.artifact([{ text: 'The scan.' }, { raw: big, filename: '../scan.bin' }]);
        turn.status('TASK_STATE_COMPLETED');
      },
    });
    const data = await replyTo((await ask(server.did, 'data')).id);
    assert.deepEqual([data.body.type, data.body.data], ['application/json', { paid: true }]);
    const mixed = await replyTo((await ask(server.did, 'mixed')).id);
    assert.equal(mixed.body.type, 'application/a2a+json');
    assert.equal(mixed.body.text, 'See this.\nAnd that.');
    const { artifacts } = mixed.body.data as { artifacts: Array<{ artifactId: string; parts: object[] }> };
    assert.deepEqual(
      artifacts.map(({ artifactId }) => artifactId),
      ['a1', 'a2'],
    );
    assert.deepEqual(artifacts[0]!.parts[1], { raw: 'aGVsbG8=', filename: 'a.txt', mediaType: 'text/plain' });
    const sent = await ask(server.did, 'big');
    const large = await eventually(
      'the large reply',
      async () => (await acme.admin.take('acme/dev/joel/reviewer', { wait: 1, replyTo: sent.id }))[0],
    );
    assert.equal(large.body.text, 'The scan.');
    const [{ parts }] = (large.body.data as { artifacts: [{ parts: Array<{ url?: string }> }] }).artifacts;
    assert.equal(parts[1]!.url, 'zip:scan.bin');
    const { json } = await acme.call('GET', `/redsyn/v1/messages/${large.id}/files`);
    const bytes = Buffer.from(json.zip, 'base64');
    assert.ok(bytes.includes('scan.bin') && bytes.length > 200_000);
  });

  for (const [state, words] of [
    ['TASK_STATE_FAILED', 'It broke.'],
    ['TASK_STATE_REJECTED', 'It broke.'],
    ['TASK_STATE_FAILED', undefined],
  ] as const) {
    it(`${state} ${words ? 'with' : 'without'} words is an error reply`, async (t) => {
      const server = await startA2aServer(t, {
        brain(turn) {
          turn.task('TASK_STATE_WORKING');
          turn.status(state, words);
        },
      });
      const reply = await replyTo((await ask(server.did)).id);
      assert.equal(reply.error, true);
      assert.equal(reply.body.text, words ?? 'The agent failed.');
    });
  }

  it('input-required asks, and a new request in the thread answers it: both end with the task', async (t) => {
    const server = await startA2aServer(t, {
      brain(turn) {
        if (!turn.goesOn) {
          turn.task('TASK_STATE_WORKING');
          return turn.status('TASK_STATE_INPUT_REQUIRED', 'Which invoice?');
        }
        turn.task('TASK_STATE_WORKING');
        turn.artifact([{ text: `Invoice ${turn.text} is paid.` }]);
        turn.status('TASK_STATE_COMPLETED');
      },
    });
    const first = await ask(server.did, 'Is it paid?');
    const question = await next(first.id);
    assert.deepEqual([question.kind, question.body.data], ['progress', { question: 'Which invoice?' }]);
    const second = await ask(server.did, '123', { thread: first.thread });
    assert.equal((await replyTo(second.id)).body.text, 'Invoice 123 is paid.');
    assert.equal((await replyTo(first.id)).body.text, 'Invoice 123 is paid.');
    const sends = server.seen
      .filter(({ body }) => body?.method === 'SendMessage')
      .map(({ body }) => body.params.message);
    assert.equal(sends.length, 2);
    assert.ok(sends[1].taskId && sends[1].contextId);
  });

  it('a withdrawal travels as CancelTask, and nothing more is said', async (t) => {
    const step = gate();
    const canceled: string[] = [];
    t.after(() => step.open());
    const server = await startA2aServer(t, {
      async brain(turn) {
        turn.task('TASK_STATE_WORKING');
        await step.passed;
      },
      onCancel: (id) => void canceled.push(id),
    });
    const sent = await ask(server.did);
    const { status, json } = await acme.call('POST', `/redsyn/v1/messages/${sent.id}/cancel`);
    assert.deepEqual([status, json.canceled], [200, true], JSON.stringify(json));
    assert.equal(canceled.length, 1);
    assert.deepEqual(await acme.admin.take('acme/dev/joel/reviewer', { replyTo: sent.id }), []);
  });

  it('a card that says 1.0 before a server that speaks 0.3, and the reverse', async (t) => {
    const brain: Parameters<typeof startA2aServer>[1]['brain'] = (turn) => turn.message([{ text: 'ok' }]);
    const older = await startA2aServer(t, {
      brain,
      versions: ['0.3'],
      card: (_card, base) => ({
        name: 'eve',
        capabilities: {},
        supportedInterfaces: [{ url: `${base}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
      }),
    });
    assert.equal((await replyTo((await ask(older.did)).id)).body.text, 'ok');
    const newer = await startA2aServer(t, {
      brain,
      card: (_card, base) => ({ name: 'eve', protocolVersion: '0.3.0', url: `${base}/rpc`, capabilities: {} }),
    });
    assert.equal((await replyTo((await ask(newer.did)).id)).body.text, 'ok');
  });

  it('a server that only streams', async (t) => {
    const server = await startA2aServer(t, {
      brain(turn) {
        turn.task('TASK_STATE_WORKING');
        turn.artifact([{ text: 'Hel' }]);
        turn.artifact([{ text: 'lo' }], { append: true });
        turn.status('TASK_STATE_COMPLETED');
      },
      streaming: true,
      push: true,
      before({ body }, response) {
        if (body?.method === undefined || body.method === 'SendStreamingMessage') return false;
        response.json({ jsonrpc: '2.0', id: body.id, error: { code: -32004, message: 'not offered' } });
        return true;
      },
    });
    assert.equal((await replyTo((await ask(server.did)).id)).body.text, 'Hello');
  });
});

describe('a card with signatures', () => {
  const seed = Buffer.alloc(32, 'eve');
  const { publicKey, publicKeyMultibase, did } = new KeyPair(seed);
  const pkcs8 = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]);
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: publicKey.raw.toString('base64url'), kid: 'eve-1' };
  const byDid = { kid: `${did}#${publicKeyMultibase}` };
  const brain: Parameters<typeof startA2aServer>[1]['brain'] = (turn) => turn.message([{ text: 'ok' }]);

  /** A server whose card was signed by the SDK, and then perhaps changed. */
  async function signedServer(
    t: TestContext,
    name: (base: string) => { kid: string; jku?: string },
    change: object = {},
  ): ReturnType<typeof startA2aServer> {
    let card: object = {};
    const server = await startA2aServer(t, {
      brain,
      before({ path, method }, response) {
        const isCard = path.endsWith('agent-card.json');
        if (method !== 'GET' || !(isCard || path === '/keys')) return false;
        response.json(isCard ? card : { keys: [jwk] });
        return true;
      },
    });
    const plain = {
      name: 'eve',
      description: '',
      version: '1',
      supportedInterfaces: [{ url: `${server.base}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
      capabilities: { streaming: false },
      defaultInputModes: ['text/plain'],
      defaultOutputModes: ['text/plain'],
      skills: [{ id: 'ask', name: 'Ask', description: 'Asks.', tags: ['ask'] }],
    };
    const key = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' });
    const sign = generateAgentCardSignature(key, { alg: 'EdDSA', typ: 'JOSE', ...name(server.base) });
    const { signatures } = await sign(AgentCard.fromJSON(plain));
    card = { ...plain, signatures, ...change };
    return server;
  }

  for (const [where, name] of [
    ['a DID', () => byDid],
    ['the key set of its origin', (base: string) => ({ kid: 'eve-1', jku: `${base}/keys` })],
  ] as const) {
    it(`is used when it holds, and refused when it was changed: the key is found by ${where}`, async (t) => {
      assert.equal((await replyTo((await ask((await signedServer(t, name)).did)).id)).body.text, 'ok');
      const changed = await signedServer(t, name, { description: 'mallory' });
      const refused = await refusal(changed.did);
      assert.equal(refused.status, 502);
      assert.match(refused.error, /signature does not hold/);
      assert.deepEqual(changed.calls(), [], 'nothing was sent there');
    });
  }

  it('is taken as one without when nobody here can know the key', async (t) => {
    const elsewhere = () => ({ kid: 'eve-1', jku: 'http://localhost:9/keys' });
    const server = await signedServer(t, elsewhere, { description: 'changed' });
    assert.equal((await replyTo((await ask(server.did)).id)).body.text, 'ok');
  });
});

describe('what a server refuses', () => {
  it('comes back at the POST, and the id may be used again', async (t) => {
    let refuses = true;
    const server = await startA2aServer(t, {
      brain: (turn) => turn.message([{ text: 'ok' }]),
      before({ path, body }, response) {
        if (path !== '/rpc' || !refuses) return false;
        response.json({ jsonrpc: '2.0', id: body.id, error: { code: -32602, message: 'I do not like that.' } });
        return true;
      },
    });
    const refused = await refusal(server.did, { id: 'again-1' });
    assert.equal(refused.status, 403);
    assert.match(refused.error, /I do not like that/);
    refuses = false;
    const sent = await ask(server.did, 'x', { id: 'again-1' });
    assert.equal((await replyTo(sent.id)).body.text, 'ok');
  });

  it('a redirect is not followed, and nothing is sent where it leads (WEB-02)', async (t) => {
    const inside = await startA2aServer(t, { brain: (turn) => turn.message([{ text: 'no' }]) });
    const server = await startA2aServer(t, {
      brain: (turn) => turn.message([{ text: 'no' }]),
      before({ path }, response) {
        if (path !== '/rpc') return false;
        response.redirect(307, `${inside.base}/rpc`);
        return true;
      },
    });
    const refused = await refusal(server.did);
    assert.equal(refused.status, 502);
    assert.match(refused.error, /redirect/);
    assert.deepEqual(inside.seen, []);
  });

  it('a failing server is tried again under the same message id', async (t) => {
    let fails = 1;
    const server = await startA2aServer(t, {
      brain: (turn) => turn.message([{ text: 'ok' }]),
      before({ path }, response) {
        if (path !== '/rpc' || fails-- <= 0) return false;
        response.status(503).set('retry-after', '1').send('down');
        return true;
      },
    });
    const sent = await ask(server.did);
    const { db, notifier } = acme.database;
    await eventually(
      'the first try failed',
      async () => (await db.query('select from circuits where destination = $1', [server.authority])).rows.length,
    );
    await db.query('delete from circuits where destination = $1', [server.authority]);
    await db.query('update outbox set due_at = 0');
    await notifier.publish(['outbox']);
    assert.equal((await replyTo(sent.id)).body.text, 'ok');
    const sends = server.seen.filter(({ path }) => path === '/rpc');
    assert.deepEqual(new Set(sends.map(({ body }) => body.params.message.messageId)), new Set([sent.id]));
    assert.equal(new Set(sends.map(({ headers }) => headers['idempotency-key'])).size, 1);
  });
});

describe('malicious cards', () => {
  const cases: Array<
    [
      name: string,
      card: (base: string) => { status?: number; headers?: Record<string, string>; body: string },
      words: RegExp,
    ]
  > = [
    ['huge', () => ({ body: JSON.stringify({ name: 'x'.repeat(300_000) }) }), /larger than what is taken/],
    [
      'a redirect to a private address',
      () => ({ status: 302, headers: { location: 'http://10.0.0.1/' }, body: '' }),
      /redirect/,
    ],
    ['no JSON', () => ({ body: '<html>' }), /no JSON/],
    ['no card', () => ({ body: '{"hello":1}' }), /no agent card/],
    [
      'no interface',
      () => ({ body: '{"name":"x","supportedInterfaces":[{"url":"https://a.test","protocolBinding":"GRPC"}]}' }),
      /no address that speaks/,
    ],
    ['twice the same key', () => ({ body: '{"name":"x","name":"y"}' }), /no JSON/],
    ['an interface on a private address', () => ({ body: cardFor('https://10.0.0.1/rpc') }), /host by its DNS name/],
    [
      'an interface with a password',
      () => ({ body: cardFor('https://a:b@example.test/rpc') }),
      /no address that speaks/,
    ],
    ['an interface that is a file', () => ({ body: cardFor('file:///etc/passwd') }), /no address that speaks/],
    [
      'a required extension that nobody knows',
      () => ({ body: cardFor('https://x.test/', { extensions: [{ uri: 'https://x.test/e', required: true }] }) }),
      /requires the extension https:\/\/x.test\/e/,
    ],
  ];
  for (const [name, card, words] of cases) {
    it(name, async (t) => {
      const server = await startA2aServer(t, {
        brain: (turn) => turn.message([{ text: 'no' }]),
        before({ path }, response) {
          if (!path.includes('agent-card')) return false;
          const { status = 200, headers = {}, body } = card(server.base);
          response
            .status(status)
            .set({ 'content-type': 'application/json', ...headers })
            .send(body);
          return true;
        },
      });
      const refused = await refusal(server.did);
      assert.equal(refused.status, 502, JSON.stringify(refused));
      assert.match(refused.error, words);
    });
  }

  it('no card at all is 404', async (t) => {
    const server = await startA2aServer(t, {
      brain: (turn) => turn.message([{ text: 'no' }]),
      before({ path }, response) {
        if (!path.includes('agent-card')) return false;
        response.status(404).json({});
        return true;
      },
    });
    assert.equal((await refusal(server.did)).status, 404);
  });
});

function cardFor(url: string, capabilities: object = {}): string {
  return JSON.stringify({
    name: 'x',
    capabilities,
    supportedInterfaces: [{ url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
  });
}

describe('a push URL of ours', () => {
  it('takes no call without its token, nor with another', async (t) => {
    const { step, brain } = worker((turn) => turn.status('TASK_STATE_COMPLETED', 'done'));
    t.after(() => step.open());
    const server = await startA2aServer(t, { brain, push: true });
    const sent = await ask(server.did);
    await next(sent.id);
    const push = server.seen.find(({ path }) => path === '/rpc')!.body.params.configuration.taskPushNotificationConfig;
    const body = { task: { id: 'forged', status: { state: 'TASK_STATE_COMPLETED' } } };
    const path = new URL(push.url).pathname;
    for (const headers of [{}, { 'x-a2a-notification-token': 'x' }, { authorization: 'Bearer y' }]) {
      assert.equal((await acme.call('POST', path, { token: null, body, headers })).status, 401);
    }
    const unknown = await acme.call('POST', '/a2a/v1/push/nothing', {
      token: null,
      body,
      headers: { 'x-a2a-notification-token': push.token },
    });
    assert.equal(unknown.status, 401);
    // With the token, but about another task: nothing is told.
    const right = { 'x-a2a-notification-token': push.token };
    assert.equal((await acme.call('POST', path, { token: null, body, headers: right })).status, 200);
    step.open();
    assert.equal((await replyTo(sent.id)).body.text, 'done');
  });

  it('a whole task that is pushed is enough, where the server answers nothing else', async (t) => {
    const server = await startA2aServer(t, {
      brain: () => undefined,
      push: true,
      before({ path, body }, response) {
        if (path !== '/rpc') return false;
        const task = { id: 't1', contextId: 'c1', status: { state: 'TASK_STATE_WORKING' } };
        response.json(
          body.method === 'SendMessage'
            ? { jsonrpc: '2.0', id: body.id, result: { task } }
            : { jsonrpc: '2.0', id: body.id, error: { code: -32601, message: 'no' } },
        );
        return true;
      },
    });
    const sent = await ask(server.did);
    const { url, token } = server.seen.find(({ path }) => path === '/rpc')!.body.params.configuration
      .taskPushNotificationConfig;
    const pushed = {
      task: {
        id: 't1',
        contextId: 'c1',
        status: { state: 'TASK_STATE_COMPLETED' },
        artifacts: [{ artifactId: 'a', parts: [{ text: 'pushed' }] }],
      },
    };
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/a2a+json', authorization: `Bearer ${token}` },
      body: JSON.stringify(pushed),
    });
    assert.equal(response.status, 200);
    assert.equal((await replyTo(sent.id)).body.text, 'pushed');
  });
});

describe('the gates', () => {
  it('a blocked domain is not written to', async (t) => {
    const server = await startA2aServer(t, { brain: (turn) => turn.message([{ text: 'ok' }]) });
    const { db } = acme.database;
    await db.query('insert into blocked_domains (org_id, domain, created_at) select id, $1, 0 from orgs', [
      server.authority,
    ]);
    const refused = await refusal(server.did);
    assert.deepEqual([refused.status, refused.code], [403, 'policy_denied']);
    assert.deepEqual(server.seen, []);
  });

  it('an org without a link, a strange scheme, our own card and a did:key are no addressees', async () => {
    assert.equal((await refusal('nowhere.test/erp/bob/billing')).status, 404);
    assert.equal((await refusal('did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK')).status, 404);
    assert.equal((await refusal('ftp://x.test/card.json')).status, 422);
    assert.equal((await refusal(`${acme.url}/.well-known/agent-card.json`)).status, 422);
    assert.equal((await refusal('https://u:p@x.test/card.json')).status, 422);
    assert.equal((await refusal(`did:web:${acme.authority.replace(':', '%3A')}:agents:nobody`)).status, 404);
  });

  it('a sealed body is refused: nobody there could open it', async (t) => {
    const server = await startA2aServer(t, { brain: (turn) => turn.message([{ text: 'ok' }]) });
    const refused = await refusal(server.did, { body: { type: 'application/redsyn+encrypted', enc: { v: 1 } } });
    assert.equal(refused.status, 422);
  });
});
