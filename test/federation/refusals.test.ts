import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { generateSeed, keyPair } from '../../src/identity/keys.ts';
import { team, testGateway } from '../support/gateway.ts';
import {
  type Answered,
  documentOf,
  envelope,
  type Identity,
  inA2a,
  isHuge,
  linkPeer,
  neverAnswers,
  type Peer,
  redirectsTo,
  refusalOf,
  rows,
  says,
  sendRaw,
  sendSigned,
  sendTo,
  signatureFor,
  startPeer,
} from '../support/peer.ts';

const globex = await testGateway({ after }, { org: 'globex', admin: 'bob' });
const peer: Peer = await startPeer({ after });
const eve: Identity = peer.identity('agents:eve');
const billing = 'globex/erp/bob/billing';
const bot = 'initech/dev/eve/bot';
const path = '/a2a/v1';

before(async () => {
  await team(globex, 'erp', ['bob']);
  await globex.admin.announce(billing, { allow: ['org:initech'] });
  await globex.admin.announce('globex/erp/bob/hidden', { allow: ['org:initech'] });
  await linkPeer(globex, peer, 'initech');
  await globex.admin.call('PUT', '/orgs/globex/links/initech/expose', {
    kind: 'agent',
    pattern: 'erp/bob/billing',
    on: true,
  });
});

/** Refused with this code, status and gate, in the form of the wire, and nothing is changed. */
async function refused(
  expected: { code: string; status: number; gate?: string },
  send: () => Promise<Answered>,
): Promise<Answered> {
  const was = await rows(globex);
  const answered = await send();
  const { code, status, gate } = refusalOf(answered);
  assert.deepEqual({ code, status, ...(expected.gate !== undefined && { gate }) }, expected, answered.text);
  assert.deepEqual(await rows(globex), was);
  return answered;
}

function without(headers: Record<string, string>, name: string): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([each]) => each !== name));
}

const good = (): string => inA2a(envelope({ from: bot, to: billing }));

describe('a signed message that nothing is wrong with', () => {
  it('is taken', async () => {
    const was = await rows(globex);
    const answered = await sendSigned(globex, { path, body: good() }, eve);
    assert.equal(answered.status, 200, answered.text);
    assert.ok(answered.json.result.task.id);
    const is = await rows(globex);
    assert.equal(is.messages, was.messages! + 1);
    assert.equal(is.deliveries, was.deliveries! + 1);
  });

  it('is taken with unknown fields at every level, which stay with it', async () => {
    const of = envelope({
      from: bot,
      to: billing,
      colour: 'red',
      body: { type: 'text/plain', text: 'hi', mood: 'good' },
    });
    const body = JSON.stringify({ ...JSON.parse(inA2a(of)), extra: { deep: [1] } });
    const answered = await sendSigned(globex, { path, body }, eve);
    assert.equal(answered.status, 200, answered.text);
    const { items } = (await globex.call('GET', `/redsyn/v1/inbox/${billing}`)).json;
    const item = items.find((one: { id: string }) => one.id === of.id);
    assert.equal(item.colour, 'red');
    assert.equal(item.body.mood, 'good');
  });
});

describe('the form of the body', () => {
  it('malformed JSON is -32700 in JSON, with the id null', async () => {
    const { json } = await refused({ code: 'malformed_json', status: 200 }, () =>
      sendSigned(globex, { path, body: '{bad' }, eve),
    );
    assert.equal(json.error.code, -32700);
    assert.equal(json.id, null);
  });

  it('a repeated key is refused, also when it is spelt with an escape (CAN-04)', async () => {
    const twice = good().replace('"to":', '"to":"globex/erp/bob/hidden","to":');
    await refused({ code: 'duplicate_key', status: 200 }, () => sendSigned(globex, { path, body: twice }, eve));
    const escaped = good().replace('"to":', '"t\\u006f":"globex/erp/bob/hidden","to":');
    await refused({ code: 'duplicate_key', status: 200 }, () => sendSigned(globex, { path, body: escaped }, eve));
  });

  for (const [name, change] of [
    ['v', { v: 2 }],
    ['kind', { kind: 'shout' }],
    ['to', { to: ['globex/erp/bob/billing'] }],
    ['thread', { thread: {} }],
    ['ttl', { ttl: -1 }],
    ['ts', { ts: '1790000000' }],
    ['body', { body: 'text' }],
    ['body.text', { body: { type: 'text/plain', text: 7 } }],
    ['refs', { refs: {} }],
    ['error', { error: 'yes' }],
    ['sig', { sig: 'sealed' }],
  ] as const) {
    it(`a wrong type of \`${name}\` is named`, async () => {
      const of = envelope({ from: bot, to: billing });
      const { json } = await refused({ code: 'invalid_field', status: 200 }, () =>
        sendSigned(globex, { path, body: inA2a({ ...of, ...change }) }, eve),
      );
      assert.equal(json.error.code, -32602);
      assert.equal(json.error.data[0].metadata.field, name);
    });
  }

  it('64 KB of text pass, a byte more does not', async () => {
    const text = 'x'.repeat(64 * 1024);
    const fits = inA2a(envelope({ from: bot, to: billing, body: { type: 'text/plain', text } }));
    assert.equal((await sendSigned(globex, { path, body: fits }, eve)).status, 200);
    const more = inA2a(envelope({ from: bot, to: billing, body: { type: 'text/plain', text: `${text}x` } }));
    await refused({ code: 'invalid_field', status: 200 }, () => sendSigned(globex, { path, body: more }, eve));
    // Measured in bytes, not in characters.
    const wide = { type: 'text/plain', text: 'ä'.repeat(32 * 1024 + 1) };
    await refused({ code: 'invalid_field', status: 200 }, () =>
      sendSigned(globex, { path, body: inA2a(envelope({ from: bot, to: billing, body: wide })) }, eve),
    );
  });

  it('a body beyond what the call takes is 413, before anything is read of it', async () => {
    await refused({ code: 'payload_too_large', status: 413 }, () =>
      sendSigned(globex, { path, body: `{"pad":"${'x'.repeat(8 * 1024 * 1024)}"}` }, eve),
    );
  });

  for (const [name, text] of [
    ['U+0000', '\\u0000'],
    ['half of a surrogate pair', '\\ud800'],
  ] as const) {
    it(`${name} anywhere is a clear refusal, never a 500 (CAN-06)`, async () => {
      for (const body of [
        good().replace('May I ask?', `a${text}b`),
        good().replace('"kind":"request"', `"kind":"request","x":{"y${text}":1}`),
        good().replace(billing, `${billing}${text}`),
        good().replace('"role"', `"contextId":"c${text}","role"`),
      ]) {
        await refused({ code: 'invalid_field', status: 200 }, () => sendSigned(globex, { path, body }, eve));
      }
    });

    it(`${name} in the id of a task is no task`, async () => {
      const body = `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"a${text}b"}}`;
      for (const answered of [await sendSigned(globex, { path, body }, eve), await sendTo(globex, { path, body })]) {
        assert.ok([-32001, -32602].includes(answered.json.error.code), answered.text);
      }
    });
  }
});

describe('the signature of the request', () => {
  it('is missing', async () => {
    const { json } = await refused({ code: 'unauthenticated', status: 200 }, () =>
      sendTo(globex, { path, body: good() }),
    );
    assert.equal(json.error.code, -32008);
    await refused({ code: 'unauthenticated', status: 401, gate: 'authenticate' }, () =>
      sendTo(globex, { path, body: good(), headers: { 'a2a-extensions': 'https://www.rfc-editor.org/rfc/rfc9421' } }),
    );
  });

  it('covers another body (SIG-05)', async () => {
    const body = good();
    const headers = await signatureFor(globex, { path, body }, eve);
    const tampered = body.replace('May I ask?', 'May I asx?');
    const { json } = await refused({ code: 'digest_mismatch', status: 401, gate: 'integrity' }, () =>
      sendTo(globex, { path, body: tampered, headers }),
    );
    assert.equal(json.error.code, -32000);
    await refused({ code: 'signature_invalid', status: 401 }, () =>
      sendTo(globex, { path, body, headers: without(headers, 'Content-Digest') }),
    );
    // The trailing newline that many a script adds (SIG-06).
    await refused({ code: 'digest_mismatch', status: 401 }, () => sendTo(globex, { path, body: `${body}\n`, headers }));
  });

  it('was made for another body whose digest was then put in (SIG-05)', async () => {
    const body = good();
    const headers = await signatureFor(globex, { path, body: 'something else' }, eve);
    const other = await signatureFor(globex, { path, body }, eve);
    await refused({ code: 'signature_failed', status: 401, gate: 'authenticate' }, () =>
      sendTo(globex, { path, body, headers: { ...headers, 'Content-Digest': other['Content-Digest']! } }),
    );
  });

  it('covers another query, or none', async () => {
    const body = good();
    const signed = await signatureFor(globex, { path: `${path}?a=1`, body }, eve);
    await refused({ code: 'signature_failed', status: 401 }, () =>
      sendTo(globex, { path: `${path}?a=2`, body, headers: signed }),
    );
    const bare = await signatureFor(globex, { path, body }, eve);
    await refused({ code: 'signature_invalid', status: 401 }, () =>
      sendTo(globex, { path: `${path}?a=1`, body, headers: bare }),
    );
    await refused({ code: 'signature_invalid', status: 401 }, () =>
      sendTo(globex, { path: `${path}?`, body, headers: bare }),
    );
    assert.equal((await sendTo(globex, { path: `${path}?a=1`, body, headers: signed })).status, 200);
  });

  it('covers another path, method or authority', async () => {
    const body = good();
    const headers = await signatureFor(globex, { path: '/', body }, eve);
    await refused({ code: 'signature_failed', status: 401 }, () => sendTo(globex, { path, body, headers }));
    const put = await signatureFor(globex, { method: 'PUT', path, body }, eve);
    await refused({ code: 'signature_failed', status: 401 }, () => sendTo(globex, { path, body, headers: put }));
    const elsewhere = await signatureFor({ url: 'http://acme.test' }, { path, body }, eve);
    await refused({ code: 'signature_failed', status: 401 }, () => sendTo(globex, { path, body, headers: elsewhere }));
    // SIG-03: nobody talks us into another name by X-Forwarded-Host.
    await refused({ code: 'signature_failed', status: 401 }, () =>
      sendTo(globex, { path, body, headers: { ...elsewhere, 'x-forwarded-host': 'acme.test' } }),
    );
    await refused({ code: 'signature_invalid', status: 401 }, () =>
      sendTo(globex, { path, body, headers: { ...elsewhere, host: 'acme.test' } }),
    );
  });

  it('comes a second time: the very bytes are a replay, a fresh signature over them is a repeat', async () => {
    const body = good();
    const headers = await signatureFor(globex, { path, body }, eve);
    const first = await sendTo(globex, { path, body, headers });
    assert.equal(first.status, 200, first.text);
    await refused({ code: 'signature_replayed', status: 401, gate: 'integrity' }, () =>
      sendTo(globex, { path, body, headers }),
    );
    const again = await sendSigned(globex, { path, body }, eve);
    assert.equal(again.json.result.task.id, first.json.result.task.id);
    const note = again.json.result.task.metadata['https://gatehouse.dev/ext/redsyn/v1'];
    assert.equal(note.duplicate, true);
  });

  it('comes twice at the same moment: one is taken', async () => {
    const body = good();
    const headers = await signatureFor(globex, { path, body }, eve);
    const was = await rows(globex);
    const both = await Promise.all([1, 2, 3, 4].map(() => sendTo(globex, { path, body, headers })));
    assert.deepEqual(both.map((one) => refusalOf(one).code).sort(), [
      'ok',
      'signature_replayed',
      'signature_replayed',
      'signature_replayed',
    ]);
    assert.equal((await rows(globex)).messages, was.messages! + 1);
  });

  it('is too old, or from the future', async () => {
    for (const now of [Date.now() - 310_000, Date.now() + 310_000]) {
      await refused({ code: 'signature_stale', status: 401, gate: 'integrity' }, () =>
        sendSigned(globex, { path, body: good() }, eve, { now }),
      );
    }
  });

  it('has a Date that is none, or has two', async () => {
    const body = good();
    const headers = await signatureFor(globex, { path, body }, eve);
    await refused({ code: 'signature_malformed', status: 401 }, () =>
      sendTo(globex, { path, body, headers: { ...headers, Date: new Date().toISOString() } }),
    );
    await refused({ code: 'malformed_request', status: 400 }, () =>
      sendTo(globex, { path, body, headers: { ...headers, Date: [headers.Date, headers.Date] as never } }),
    );
  });

  it('names a key that the document does not have', async () => {
    await refused({ code: 'key_not_found', status: 401, gate: 'authenticate' }, () =>
      sendSigned(globex, { path, body: good() }, { keyId: `${eve.did}#key-2`, key: eve.key }),
    );
  });

  it('names the key of another DID', async () => {
    const mallory = peer.identity('agents:mallory');
    await refused({ code: 'signature_failed', status: 401, gate: 'authenticate' }, () =>
      sendSigned(globex, { path, body: good() }, { keyId: eve.keyId, key: mallory.key }),
    );
    // A document that lists somebody else's method does not make it its own.
    const thief = peer.identity('agents:thief');
    const method = (documentOf(eve).verificationMethod as object[])[0];
    peer.answer(thief.path, says({ ...documentOf(thief), verificationMethod: [method], authentication: [eve.keyId] }));
    await refused({ code: 'key_not_found', status: 401, gate: 'authenticate' }, () =>
      sendSigned(globex, { path, body: good() }, { keyId: thief.keyId, key: eve.key }),
    );
    peer.answer(
      thief.path,
      says({ ...documentOf(thief), verificationMethod: [{ ...method, id: thief.keyId, controller: eve.did }] }),
    );
    const other = { ...thief, keyId: thief.keyId };
    const answered = await sendSigned(globex, { path, body: good() }, other);
    assert.notEqual(refusalOf(answered).code, 'ok');
  });

  it('has two labels, of which one is good: whose it is decides (SIG-08)', async () => {
    const body = good();
    const mine = await signatureFor(globex, { path, body }, eve);
    const mallory = peer.identity('agents:mallory2');
    const theirs = await signatureFor(globex, { path, body }, { keyId: mallory.keyId, key: eve.key });
    const input = `${theirs['Signature-Input']}, ${mine['Signature-Input']!.replace('sig1=', 'sig2=')}`;
    const signature = `${theirs.Signature}, ${mine.Signature!.replace('sig1=', 'sig2=')}`;
    // The first is a forgery in mallory's name: taken for it, it fails; it never borrows the second one's proof.
    const answered = await sendTo(globex, {
      path,
      body,
      headers: { ...mine, 'Signature-Input': input, Signature: signature },
    });
    assert.equal(refusalOf(answered).code, 'signature_failed', answered.text);
    for (const [name, value] of [
      ['Signature-Input', `${mine['Signature-Input']}, ${mine['Signature-Input']}`],
      ['Signature', `${mine.Signature}, ${mine.Signature}`],
      ['Signature-Input', mine['Signature-Input']!.replace(';created=', ';created=1;created=')],
      ['Signature-Input', mine['Signature-Input']!.replace('"@path"', '"@path" "@path"')],
      ['Signature-Input', mine['Signature-Input']!.replace('"@method"', '"@method";zz')],
      ['Signature-Input', mine['Signature-Input']!.replace(`"${eve.keyId}"`, eve.keyId)],
      ['Signature', mine.Signature!.replace('sig1=', 'sig9=')],
      ['Signature', 'sig1=:AAAA:'],
    ] as const) {
      await refused({ code: 'signature_malformed', status: 401 }, () =>
        sendTo(globex, { path, body, headers: { ...mine, [name]: value } }),
      );
    }
  });

  it('comes with a token as well: one proof at a time', async () => {
    const body = good();
    const headers = await signatureFor(globex, { path, body }, eve);
    await refused({ code: 'malformed_request', status: 200, gate: 'authenticate' }, () =>
      sendTo(globex, { path, body, headers: { ...headers, authorization: `Bearer ${globex.token}` } }),
    );
  });

  it('covers a body that came coded (SIG-06)', async () => {
    const body = good();
    const headers = await signatureFor(globex, { path, body }, eve);
    await refused({ code: 'unsupported_media_type', status: 415 }, () =>
      sendTo(globex, { path, body, headers: { ...headers, 'content-encoding': 'gzip' } }),
    );
  });
});

describe('lines that two readers read differently (SIG-04)', () => {
  it('two Host lines, the absolute form, a port that is none, two lengths: 400', async () => {
    const body = good();
    const signed = await signatureFor(globex, { path, body }, eve);
    const fields = Object.entries(signed).map(([name, value]) => `${name}: ${value}`);
    const length = `Content-Length: ${Buffer.byteLength(body)}`;
    const requests: Array<readonly [string, string[]]> = [
      [path, [`Host: ${globex.authority}`, 'Host: acme.test', length]],
      [path, [`Host: ${globex.authority}`, `Host: ${globex.authority}`, length]],
      [`http://acme.test${path}`, [`Host: ${globex.authority}`, length]],
      [`${globex.url}${path}`, [`Host: ${globex.authority}`, length]],
      [path, ['Host: localhost:99999', length]],
      [path, ['Host: münchen.test', length]],
      [path, [`Host: ${globex.authority}`, length, `Content-Length: ${Buffer.byteLength(body) + 1}`]],
      [path, [`Host: ${globex.authority}`, length, 'Transfer-Encoding: chunked']],
      [`/a2a/./v1`, [`Host: ${globex.authority}`, length]],
      [`/a2a/v1%00`, [`Host: ${globex.authority}`, length]],
    ];
    const was = await rows(globex);
    for (const [target, head] of requests) {
      const lines = [
        `POST ${target} HTTP/1.1`,
        ...head,
        'Content-Type: application/json',
        'Connection: close',
        ...fields,
      ];
      const answered = await sendRaw(globex, `${lines.join('\r\n')}\r\n\r\n${body}`);
      // A JSON-RPC error rides on 200 where it can still be JSON-RPC.
      const code = answered.json?.error?.data?.[0]?.metadata?.code ?? answered.json?.code ?? answered.json?.error?.code;
      assert.equal(code, 'malformed_request', `${target} ${head}: ${answered.status} ${answered.text}`);
    }
    assert.deepEqual(await rows(globex), was);
  });
});

describe("the signer's document", () => {
  const cases: Array<readonly [string, string, (who: Identity) => Parameters<Peer['answer']>[1]]> = [
    ['redirects to a private address', 'did_resolution_failed', () => redirectsTo('http://127.0.0.1:1/did.json')],
    ['redirects to a good document', 'did_resolution_failed', () => redirectsTo(`http://${peer.authority}${eve.path}`)],
    ['has 10 MB', 'did_resolution_failed', (who) => isHuge(who, 10_000_000)],
    ['has a byte over 64 KiB', 'did_resolution_failed', (who) => isHuge(who, 64 * 1024)],
    ['is of another id', 'did_resolution_failed', (who) => says({ ...documentOf(who), id: eve.did })],
    [
      'is no JSON',
      'did_resolution_failed',
      () => (_q, r) => void r.writeHead(200, { 'content-type': 'application/json' }).end('<p>'),
    ],
    [
      'names a key twice',
      'did_resolution_failed',
      (who) => (_q, r) =>
        void r
          .writeHead(200, { 'content-type': 'application/json' })
          .end(`{"id":"${who.did}",${JSON.stringify(documentOf(who)).slice(1)}`),
    ],
    ['is a page', 'did_resolution_failed', (who) => says(documentOf(who), 200, { 'content-type': 'text/html' })],
    ['is not there', 'did_resolution_failed', () => says({}, 404)],
    ['says 304 to who has none', 'did_resolution_failed', () => says({}, 304)],
    [
      'has an empty list for authentication',
      'key_not_authorized',
      (who) => says(documentOf(who, { authentication: [] })),
    ],
    ['has another key', 'signature_failed', (who) => says(documentOf({ ...who, key: keyPair(generateSeed()) }))],
    [
      'has a weak key (DID-07)',
      'unsupported_key',
      (who) =>
        says(
          documentOf(who, {
            verificationMethod: [
              {
                id: who.keyId,
                type: 'JsonWebKey2020',
                controller: who.did,
                publicKeyJwk: {
                  kty: 'OKP',
                  crv: 'Ed25519',
                  x: Buffer.from([1, ...new Array<number>(31).fill(0)]).toString('base64url'),
                },
              },
            ],
          }),
        ),
    ],
  ];
  for (const [what, code, answer] of cases) {
    it(what, async () => {
      const who = peer.identity(`agents:${what.replace(/[^a-z0-9]+/gi, '-').toLowerCase()}`);
      peer.answer(who.path, answer(who));
      const asked = peer.requests.length;
      const { text } = await refused({ code, status: 401, gate: 'authenticate' }, () =>
        sendSigned(globex, { path, body: good() }, who),
      );
      assert.doesNotMatch(text, /127\.0\.0\.1|ECONN|status \d|bytes/);
      // At most one document a request.
      assert.equal(peer.requests.length, asked + 1);
    });
  }

  it('never comes: 5 s and not more; a second caller and /healthz do not wait behind it', {
    timeout: 20_000,
  }, async () => {
    const who = peer.identity('agents:silent');
    peer.answer(who.path, neverAnswers);
    const began = Date.now();
    const slow = refused({ code: 'did_resolution_failed', status: 401, gate: 'authenticate' }, () =>
      sendSigned(globex, { path, body: good() }, who),
    );
    const health = await fetch(`${globex.url}/healthz`);
    assert.equal(health.status, 200);
    assert.ok(Date.now() - began < 3_000);
    await slow;
    assert.ok(Date.now() - began < 8_000);
  });

  it('does not have a key of its DID method, or is of no DID that is fetched (DID-02)', async () => {
    const asked = peer.requests.length;
    const host = peer.authority.replace(':', '%3A');
    for (const [keyId, code] of [
      [`did:key:${eve.key.publicKeyMultibase}#${eve.key.publicKeyMultibase}`, 'signature_invalid'],
      [`did:web:acme.test%40${host}:agents:eve#key-1`, 'invalid_did'],
      [`did:web:${host}%2Fagents#key-1`, 'invalid_did'],
      [`did:web:${host}:agents:%2e%2e:eve#key-1`, 'invalid_did'],
      [`did:web:${host}::eve#key-1`, 'invalid_did'],
      [`did:web:LOCALHOST%3A${peer.authority.split(':')[1]}:agents:eve#key-1`, 'invalid_did'],
      ['did:web:169.254.169.254#key-1', 'invalid_did'],
      [`did:web:${host}:agents:eve?x=1#key-1`, 'invalid_did'],
      [eve.did, 'invalid_did'],
    ] as const) {
      await refused({ code, status: 401 }, () => sendSigned(globex, { path, body: good() }, { keyId, key: eve.key }));
    }
    assert.equal(peer.requests.length, asked);
  });

  it('is asked once more for an unknown key, and a rotated key is found', async () => {
    const who = peer.identity('agents:rotating');
    const from = 'initech/dev/rotating/bot';
    const send = (by: Pick<Identity, 'keyId' | 'key'>): Promise<Answered> =>
      sendSigned(globex, { path, body: inA2a(envelope({ from, to: billing })) }, by);
    assert.equal((await send(who)).status, 200);
    const fresh = { ...who, keyId: `${who.did}#key-2`, key: keyPair(generateSeed()) };
    const both = documentOf(who);
    both.verificationMethod = [
      ...(both.verificationMethod as object[]),
      ...(documentOf(fresh).verificationMethod as object[]),
    ];
    both.authentication = [who.keyId, fresh.keyId];
    peer.answer(who.path, says(both));
    const asked = peer.requests.length;
    assert.equal((await send(fresh)).status, 200);
    assert.equal(peer.requests.length, asked + 1);
    assert.equal((await send(who)).status, 200);
    assert.equal(peer.requests.length, asked + 1);
  });
});

describe('who speaks', () => {
  it('is not beneath the signer', async () => {
    const mallory = peer.identity('agents:mallory3');
    for (const from of [bot, 'globex/erp/bob/billing', 'acme/dev/joel/reviewer', 'initech/dev/mallory3x/bot']) {
      await refused({ code: 'sender_mismatch', status: 200, gate: 'address' }, () =>
        sendSigned(globex, { path, body: inA2a(envelope({ from, to: billing })) }, mallory),
      );
    }
    await refused({ code: 'sender_mismatch', status: 200, gate: 'address' }, () =>
      sendSigned(globex, { path, body: inA2a(envelope({ from: eve.did, to: billing })) }, mallory),
    );
    // The gateway's own key speaks for no agent.
    await refused({ code: 'sender_mismatch', status: 200, gate: 'address' }, () =>
      sendSigned(globex, { path, body: good() }, peer.instance),
    );
    // An agent's key speaks for that agent alone.
    const agent = peer.identity('agents:eve:dev:other');
    await refused({ code: 'sender_mismatch', status: 200, gate: 'address' }, () =>
      sendSigned(globex, { path, body: good() }, agent),
    );
  });

  it('needs a proof of what it says it is, or says nothing', async () => {
    await refused({ code: 'unauthenticated', status: 401, gate: 'authenticate' }, () =>
      sendTo(globex, {
        path,
        body: good(),
        headers: { authorization: 'Bearer ghn_nobodys-token-12345678901234567890' },
      }),
    );
    await refused({ code: 'sender_mismatch', status: 200, gate: 'address' }, () =>
      sendTo(globex, {
        path,
        body: inA2a(envelope({ from: bot, to: billing }, { sealed: false })),
        headers: { authorization: `Bearer ${globex.token}` },
      }),
    );
  });
});
