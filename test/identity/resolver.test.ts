import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Did } from '../../src/identity/did.ts';
import { type DidDocument, keysFor, pickKey, readDocument } from '../../src/identity/document.ts';
import { toMultibase } from '../../src/identity/encoding.ts';
import { type KeyPair, keyPair } from '../../src/identity/keys.ts';
import { DidResolver, type ResolvedKey, type ResolverOptions } from '../../src/identity/resolver.ts';
import { ManualClock } from '../../src/lib/clock.ts';
import { FetchRefused } from '../../src/lib/fetch-types.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { codeOf, documentOf, FakeWeb, pairA, pairB, vectors } from './support.ts';

const DID = 'did:web:ana.test:agents:ana' as Did;
const KEY = `${DID}#key-1`;

function setup(options: Partial<ResolverOptions> = {}) {
  const web = new FakeWeb();
  const clock = new ManualClock();
  const resolver = new DidResolver({ fetch: web.fetch, clock, ...options });
  const serve = (keys: Record<string, KeyPair>, headers: Record<string, string> = {}, did: string = DID): void => {
    web.answer = () => ({ headers, body: JSON.stringify(documentOf(did, keys)) });
  };
  serve({ 'key-1': pairA });
  return { web, clock, resolver, serve };
}

test('a key is found by its full id, in one bounded fetch without redirects or cookies', async () => {
  const { web, resolver } = setup();
  const found = (await resolver.key(KEY)) as ResolvedKey;
  assert.equal(found.did, DID);
  assert.equal(found.keyId, KEY);
  assert.deepEqual(found.publicKey.raw, pairA.publicKey.raw);
  assert.equal(found.document.id, DID);
  const [{ url, init }] = web.asked as [(typeof web.asked)[0]];
  assert.equal(url, 'https://ana.test/agents/ana/did.json');
  assert.equal(init.maxBytes, 65_536);
  assert.equal(init.timeoutMs, 5_000);
  assert.match(init.headers!.accept!, /did\+json/);
});

test('DID-02 what is no DID makes no packet leave', async () => {
  const { web, resolver } = setup();
  for (const id of [
    'did:web:acme.test%40evil.test',
    'did:web:acme.test%2Fuploads',
    'did:web:ACME.test',
    'did:web:169.254.169.254',
    'did:web:acme.test::x',
    'did:plc:abc',
    'key-1',
    '',
  ]) {
    assert.equal(codeOf(await resolver.resolve(id)), 'invalid_did', id);
    assert.equal(codeOf(await resolver.key(`${id}#k`)), 'invalid_did', id);
  }
  assert.equal(codeOf(await resolver.key(DID)), 'invalid_did');
  assert.equal(web.asked.length, 0);
});

test('a document is fresh for 60 s at most, whatever its host says', async () => {
  const { web, clock, resolver, serve } = setup();
  serve({ 'key-1': pairA }, { 'cache-control': 'public, max-age=86400' });
  await resolver.key(KEY);
  clock.advance(59_999);
  await resolver.key(KEY);
  assert.equal(web.asked.length, 1);
  clock.advance(1);
  serve({ 'key-1': pairB });
  const found = (await resolver.key(KEY)) as ResolvedKey;
  assert.equal(web.asked.length, 2);
  assert.deepEqual(found.publicKey.raw, pairB.publicKey.raw);
});

test('a host may ask for less', async () => {
  for (const [header, freshMs] of [
    ['max-age=5', 5_000],
    ['max-age="5"', 5_000],
    ['no-cache', 0],
    ['no-store', 0],
    ['max-age=0, must-revalidate', 0],
    ['private', 60_000],
    ['x-max-age=5', 60_000],
  ] as const) {
    const { web, clock, resolver, serve } = setup();
    serve({ 'key-1': pairA }, { 'cache-control': header });
    await resolver.key(KEY);
    clock.advance(Math.max(0, freshMs - 1));
    await resolver.key(KEY);
    assert.equal(web.asked.length, freshMs === 0 ? 2 : 1, header);
    clock.advance(1);
    await resolver.key(KEY);
    assert.equal(web.asked.length, freshMs === 0 ? 3 : 2, header);
  }
});

test('what was in a cache on the way already counts as old', async () => {
  const { web, clock, resolver, serve } = setup();
  serve({ 'key-1': pairA }, { 'cache-control': 'max-age=30', age: '25' });
  await resolver.key(KEY);
  clock.advance(5_000);
  await resolver.key(KEY);
  assert.equal(web.asked.length, 2);
});

test('a stale document is revalidated with its ETag; 304 makes it fresh again', async () => {
  const { web, clock, resolver, serve } = setup();
  serve({ 'key-1': pairA }, { etag: '"v1"' });
  await resolver.key(KEY);
  clock.advance(60_000);
  web.answer = () => ({ status: 304 });
  assert.equal(codeOf(await resolver.key(KEY)), 'accepted');
  assert.equal(web.asked[1]!.init.headers!['if-none-match'], '"v1"');
  clock.advance(59_999);
  assert.equal(codeOf(await resolver.key(KEY)), 'accepted');
  assert.equal(web.asked.length, 2);
  clock.advance(1);
  await resolver.key(KEY);
  assert.equal(web.asked[2]!.init.headers!['if-none-match'], '"v1"');
});

test('304 to somebody who has nothing is a failure', async () => {
  const { web, resolver } = setup();
  web.answer = () => ({ status: 304 });
  assert.equal(codeOf(await resolver.key(KEY)), 'did_resolution_failed');
});

test('a failure is remembered for 10 s, and a stale document is not used in its place', async () => {
  const { web, clock, resolver, serve } = setup();
  await resolver.key(KEY);
  clock.advance(60_000);
  web.answer = () => new FetchRefused('timeout', 'no answer in 5 s');
  const refusal = (await resolver.key(KEY)) as Refusal;
  assert.equal(refusal.code, 'did_resolution_failed');
  assert.ok(refusal.retryable);
  assert.match(refusal.detail!, /timeout/);
  assert.doesNotMatch(refusal.words, /timeout/);
  serve({ 'key-1': pairA });
  clock.advance(9_999);
  assert.equal(codeOf(await resolver.key(KEY)), 'did_resolution_failed');
  assert.equal(web.asked.length, 2);
  clock.advance(1);
  assert.equal(codeOf(await resolver.key(KEY)), 'accepted');
});

test('an unknown key id has a cached document fetched again, once per 10 s and DID', async () => {
  const { web, clock, resolver, serve } = setup();
  await resolver.key(KEY);
  serve({ 'key-1': pairA, 'key-2': pairB });
  assert.equal(codeOf(await resolver.key(`${DID}#key-2`)), 'accepted');
  assert.equal(web.asked.length, 2);
  for (let i = 0; i < 50; i++) assert.equal(codeOf(await resolver.key(`${DID}#stranger-${i}`)), 'key_not_found');
  assert.equal(web.asked.length, 2);
  clock.advance(10_000);
  await resolver.key(`${DID}#stranger`);
  await resolver.key(`${DID}#stranger`);
  assert.equal(web.asked.length, 3);
});

test('an unknown key id in a document that just came is not asked for twice', async () => {
  const { web, resolver } = setup();
  assert.equal(codeOf(await resolver.key(`${DID}#key-9`)), 'key_not_found');
  assert.equal(web.asked.length, 1);
});

test('a forced fetch that fails takes the good document from nobody', async () => {
  const { web, resolver } = setup();
  await resolver.key(KEY);
  web.answer = () => ({ status: 503 });
  assert.equal(codeOf(await resolver.key(`${DID}#stranger`)), 'did_resolution_failed');
  assert.equal(codeOf(await resolver.key(KEY)), 'accepted');
  assert.equal(web.asked.length, 2);
});

test('callers that ask at the same time share one fetch', async () => {
  const { web, resolver } = setup();
  const all = await Promise.all(Array.from({ length: 30 }, () => resolver.key(KEY)));
  assert.ok(all.every((result) => codeOf(result) === 'accepted'));
  assert.equal(web.asked.length, 1);
});

test('fetches under way are bounded', async () => {
  const { web, resolver } = setup();
  const all = await Promise.all(Array.from({ length: 300 }, (_, i) => resolver.resolve(`did:web:h${i}.test`)));
  assert.equal(web.asked.length, 256);
  assert.ok(all.every((result) => codeOf(result) === 'did_resolution_failed'));
});

test('a clock that jumped back leaves nothing fresh for years', async () => {
  const { web, clock, resolver } = setup();
  await resolver.key(KEY);
  clock.jump(clock.now() - 86_400_000);
  await resolver.key(KEY);
  assert.equal(web.asked.length, 2);
});

test('what is not the document of this DID in JSON is no document', async () => {
  const good = JSON.stringify(documentOf(DID, { 'key-1': pairA }));
  for (const answer of [
    { status: 404, body: good },
    { status: 302, headers: { location: 'https://evil.test/' }, body: good },
    { status: 206, body: good },
    { headers: { 'content-type': 'text/html' }, body: good },
    { headers: { 'content-type': '' }, body: good },
    { body: '{' },
    { body: '\ufeff' },
    { body: '[]' },
    { body: 'null' },
    { body: good.replace('{', '{"id":"did:web:evil.test",') },
    { body: JSON.stringify(documentOf('did:web:ana.test', { 'key-1': pairA })) },
    { body: JSON.stringify({ ...documentOf(DID, {}), verificationMethod: Array(65).fill({}) }) },
    { body: JSON.stringify({ id: DID, x: 'x'.repeat(70_000) }) },
    { body: `{"id":"${DID}","x":${'['.repeat(20_000)}${']'.repeat(20_000)}}` },
  ]) {
    const { web, resolver } = setup();
    web.answer = () => answer;
    assert.equal(codeOf(await resolver.key(KEY)), 'did_resolution_failed', JSON.stringify(answer).slice(0, 80));
  }
  for (const type of ['application/json; charset=utf-8', 'application/did+json', 'Application/DID+LD+JSON']) {
    const { web, resolver } = setup();
    web.answer = () => ({ headers: { 'content-type': type }, body: good });
    assert.equal(codeOf(await resolver.key(KEY)), 'accepted', type);
  }
});

test('a fault of ours in the fetch is thrown, and the next call starts anew', async () => {
  const { web, resolver, serve } = setup();
  web.answer = () => new TypeError('a bug');
  await assert.rejects(resolver.key(KEY), /a bug/);
  serve({ 'key-1': pairA });
  assert.equal(codeOf(await resolver.key(KEY)), 'accepted');
});

test('loopback peers are fetched over http where this gateway runs on loopback, and this instance does not call itself', async () => {
  const own: string = 'did:web:localhost%3A8080:agents:eva';
  const { web, resolver } = setup({
    loopback: true,
    allowIp: true,
    own: async (did) => (did === own ? documentOf(own, { 'key-1': pairB }) : undefined),
  });
  await resolver.resolve('did:web:127.0.0.1%3A8081');
  assert.equal(web.asked[0]!.url, 'http://127.0.0.1:8081/.well-known/did.json');
  assert.equal(codeOf(await resolver.key(`${own}#key-1`)), 'accepted');
  assert.equal(web.asked.length, 1);
});

test('did:key needs no fetch; its key id names the key again', async () => {
  const { web, resolver } = setup();
  const { dids } = vectors('canonical/muretai');
  const multikey = dids.A.slice('did:key:'.length);
  const found = (await resolver.key(`${dids.A}#${multikey}`)) as ResolvedKey;
  assert.deepEqual(found.publicKey.raw, pairA.publicKey.raw);
  assert.equal(codeOf(await resolver.key(`${dids.A}#${dids.B.slice('did:key:'.length)}`)), 'key_not_found');
  assert.equal(web.asked.length, 0);
});

function read(members: Record<string, unknown>): DidDocument {
  const document = readDocument(DID, { id: DID, ...members });
  assert.ok(!(document instanceof Refusal));
  return document;
}

const method = (id: string, pair: KeyPair, more: Record<string, unknown> = {}): Record<string, unknown> => ({
  id,
  type: 'Multikey',
  controller: DID,
  publicKeyMultibase: pair.publicKeyMultibase,
  ...more,
});

test('DID-03 relative ids resolve against the document', () => {
  const document = read({ verificationMethod: [method('#key-1', pairA)], authentication: ['#key-1'] });
  assert.equal(codeOf(pickKey(document, KEY, 'authentication')), 'accepted');
  assert.equal(codeOf(pickKey(document, '#key-1', 'authentication')), 'key_not_found');
});

test('DID-03 a method that another DID controls is not of this DID', () => {
  const document = read({
    verificationMethod: [method(KEY, pairA, { controller: 'did:web:evil.test' })],
    authentication: [KEY],
  });
  const refusal = pickKey(document, KEY, 'authentication') as Refusal;
  assert.equal(refusal.code, 'unsupported_key');
  assert.match(refusal.words, /did:web:ana\.test:agents:ana#key-1.*controller/);
});

test('DID-03 and DID-07 an unusable key is refused by the id of its method and the reason; the others stay usable', () => {
  const weak = toMultibase(Uint8Array.of(0xed, 1, 1, ...new Uint8Array(31)));
  const document = read({
    verificationMethod: [
      method(KEY, pairA, { publicKeyMultibase: weak }),
      method('#key-2', pairB),
      'x',
      null,
      { id: 7 },
      method('#key-3', pairA),
      method('#key-3', pairB),
    ],
  });
  const refusal = pickKey(document, KEY, 'authentication') as Refusal;
  assert.equal(refusal.code, 'unsupported_key');
  assert.match(refusal.words, /^did:web:ana\.test:agents:ana#key-1 is not accepted: weak key/);
  assert.equal(codeOf(pickKey(document, `${DID}#key-2`, 'authentication')), 'accepted');
  assert.match((pickKey(document, `${DID}#key-3`, 'authentication') as Refusal).words, /more than one method/);
});

test('a key serves what the document lists it for', () => {
  const methods = [method(KEY, pairA), method('#key-2', pairB)];
  const embedded = method('#key-3', keyPair(Buffer.alloc(32, 3)));
  const listed = read({ verificationMethod: methods, authentication: [KEY, embedded], assertionMethod: ['#key-2'] });
  const code = (document: DidDocument, id: string, purpose: 'authentication' | 'assertionMethod'): string =>
    codeOf(pickKey(document, DID + id, purpose));
  assert.equal(code(listed, '#key-1', 'authentication'), 'accepted');
  assert.equal(code(listed, '#key-2', 'authentication'), 'key_not_authorized');
  assert.equal(code(listed, '#key-2', 'assertionMethod'), 'accepted');
  assert.equal(code(listed, '#key-3', 'authentication'), 'accepted');
  assert.equal(code(listed, '#key-3', 'assertionMethod'), 'key_not_authorized');
  assert.equal(code(listed, '#key-4', 'authentication'), 'key_not_found');
  assert.deepEqual(
    keysFor(listed, 'authentication').map(({ id }) => id),
    [KEY, `${DID}#key-3`],
  );

  // Without the member any listed key signs requests (confer-wire-facts §1), with an empty or senseless one none does.
  assert.equal(code(read({ verificationMethod: methods }), '#key-2', 'authentication'), 'accepted');
  assert.equal(code(read({ verificationMethod: methods }), '#key-2', 'assertionMethod'), 'key_not_authorized');
  for (const authentication of [[], 'x', null, {}]) {
    assert.equal(
      code(read({ verificationMethod: methods, authentication }), '#key-1', 'authentication'),
      'key_not_authorized',
    );
  }
});

test('no JSON makes the reading of a document throw', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (a, b) => {
      readDocument(DID, a);
      const document = readDocument(DID, {
        id: DID,
        verificationMethod: [a, { id: '#key-1', type: 'Multikey', publicKeyMultibase: b }],
        authentication: b,
        service: a,
        alsoKnownAs: b,
      });
      if (!(document instanceof Refusal)) pickKey(document, KEY, 'authentication');
    }),
  );
});
