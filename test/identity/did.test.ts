import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { fromMultikey, sameKey, toMultikey } from '../../src/identity/algorithms.ts';
import {
  type DidKey,
  type DidWeb,
  didWeb,
  didWebParts,
  didWebUrl,
  isAtOrBelow,
  keyOfDidKey,
  parseDid,
  parseDidUrl,
} from '../../src/identity/did.ts';
import { fromBase58, fromBase64, fromBase64url, fromMultibase, toMultibase } from '../../src/identity/encoding.ts';
import { keyPair } from '../../src/identity/keys.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { codeOf, vectors } from './support.ts';

test('DID-02 whatever steers the URL of a document is no DID', () => {
  for (const id of [
    'acme.test%40evil.test',
    'acme.test%2Fuploads',
    'acme.test%3Fx',
    'acme.test%23x',
    'acme.test:agents:%2e%2e:x',
    'acme.test:agents:%2E%2E:x',
    'acme.test:..',
    'acme.test:.:x',
    'acme.test::x',
    'acme.test:',
    'acme.test:a%2Fb',
    'acme.test:a%5Cb',
    'acme.test:a%00',
    'acme.test:a%ZZ',
    'acme.test:a%c3%b1',
    'acme.test:%C3',
    'acme.test:%61na',
    'acme.test%3A99999',
    'acme.test%3A0',
    'acme.test%3A080',
    'acme.test%3A443',
    'acme.test%3a8080',
    'acme.test%3A80%3A80',
    'ACME.test',
    'acme..test',
    'acme.test.',
    '-acme.test',
    'ac_me.test',
    'münchen.test',
    '127.0.0.1%3A5432',
    '169.254.169.254',
    '2130706433',
    '127.1',
    '0x7f.1',
    '%5B%3A%3A1%5D',
    '',
  ]) {
    assert.equal(codeOf(parseDid(`did:web:${id}`)), 'invalid_did', id);
  }
});

test('DID-02 a loopback address is a host only where the operator said so, another address never', () => {
  assert.equal(codeOf(parseDid('did:web:127.0.0.1%3A5432', { allowIp: true })), 'accepted');
  assert.equal(codeOf(parseDid('did:web:169.254.169.254', { allowIp: true })), 'invalid_did');
  assert.equal(codeOf(parseDid('did:web:10.0.0.1', { allowIp: true })), 'invalid_did');
  assert.equal(codeOf(parseDid('did:web:127.0.0.01', { allowIp: true })), 'invalid_did');
});

test('did:web to URL (did:web §3.2, confer-wire-facts §0)', () => {
  const url = (text: string, loopback = false): string =>
    didWebUrl(parseDid(text, { allowIp: true }) as DidWeb, { loopback });
  assert.equal(url('did:web:acme.com'), 'https://acme.com/.well-known/did.json');
  assert.equal(url('did:web:h%3A3000:agents:u'), 'https://h:3000/agents/u/did.json');
  assert.equal(url('did:web:h:8080'), 'https://h/8080/did.json');
  assert.equal(url('did:web:acme.com:a%C3%B1o'), 'https://acme.com/a%C3%B1o/did.json');
  assert.equal(url('did:web:localhost%3A8080'), 'https://localhost:8080/.well-known/did.json');
  assert.equal(url('did:web:localhost%3A8080', true), 'http://localhost:8080/.well-known/did.json');
  assert.equal(url('did:web:127.0.0.1%3A8080:agents:ana', true), 'http://127.0.0.1:8080/agents/ana/did.json');
  assert.equal(url('did:web:acme.com', true), 'https://acme.com/.well-known/did.json');
});

test('a did:web is written as it is read', () => {
  const did = didWeb('localhost:8080', 'agents', 'ana');
  assert.equal(did, 'did:web:localhost%3A8080:agents:ana');
  assert.deepEqual(didWebParts(did), {
    host: 'localhost',
    port: 8080,
    authority: 'localhost:8080',
    segments: ['agents', 'ana'],
  });
  assert.throws(() => didWeb('acme.com', '..'), TypeError);
  assert.throws(() => didWeb('ACME.com'), TypeError);
});

test('a DID stands beneath another one at a colon only', () => {
  assert.ok(isAtOrBelow('did:web:acme.com:agents:ana', 'did:web:acme.com'));
  assert.ok(isAtOrBelow('did:web:acme.com', 'did:web:acme.com'));
  assert.ok(!isAtOrBelow('did:web:acme.com.evil.test', 'did:web:acme.com'));
  assert.ok(!isAtOrBelow('did:web:acme.com:agents:anabel', 'did:web:acme.com:agents:ana'));
});

test('an id of a key is a DID with a fragment and nothing else', () => {
  assert.deepEqual(parseDidUrl('did:web:acme.test#key-1'), { did: 'did:web:acme.test', fragment: 'key-1' });
  for (const text of [
    'did:web:acme.test',
    'did:web:acme.test#',
    'did:web:acme.test/x#k',
    'did:web:acme.test?x#k',
    'key-1',
    '#key-1',
    'did:web:acme.test#k#k',
    'https://acme.test#k',
    'did:plc:abc#k',
  ]) {
    assert.equal(codeOf(parseDidUrl(text)), 'invalid_did', text);
  }
});

test('no text makes the parsers throw, and what they accept has one spelling', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 600 }),
    fc.string({ maxLength: 40 }).map((s) => `did:web:${s}`),
    fc.string({ maxLength: 60 }).map((s) => `did:key:z${s}`),
    fc
      .array(fc.constantFrom('did:web:', 'acme.test', '%3A', '8080', ':', '%2F', '..', 'a', '#', 'k', 'é'))
      .map((a) => a.join('')),
  );
  fc.assert(
    fc.property(text, (s) => {
      const did = parseDid(s, { allowIp: true });
      parseDidUrl(s);
      if (did instanceof Refusal) return;
      assert.equal(did, s);
      if (!did.startsWith('did:web:')) return;
      const { authority, segments } = didWebParts(did as DidWeb);
      assert.equal(didWeb(authority, ...segments), s);
      const url = new URL(didWebUrl(did as DidWeb));
      assert.equal(url.href, didWebUrl(did as DidWeb));
      assert.equal(url.host, authority);
    }),
    { numRuns: 2000 },
  );
});

test('a hostile DID of any length is refused in no time', () => {
  const started = process.hrtime.bigint();
  parseDid(`did:web:${'a:'.repeat(200_000)}`);
  parseDid(`did:key:z${'9'.repeat(500_000)}`);
  assert.ok(process.hrtime.bigint() - started < 100_000_000n);
});

test('did:key: published vectors, both ways', () => {
  const { ed25519, p256, unsupported } = vectors('did/did-key');
  for (const { did, seed, publicKeyBase58 } of ed25519) {
    assert.equal(keyPair(Buffer.from(seed, 'hex')).did, did);
    const key = keyOfDidKey(parseDid(did) as DidKey);
    assert.equal(key.algorithm, 'ed25519');
    assert.deepEqual(key.raw, Buffer.from(fromBase58(publicKeyBase58)!));
    assert.equal(`did:key:${toMultikey(key)}`, did);
  }
  for (const { did, publicKeyJwk, publicKeyBase58 } of p256) {
    const key = keyOfDidKey(parseDid(did) as DidKey);
    const { x, y } = key.object.export({ format: 'jwk' });
    if (publicKeyJwk) assert.deepEqual({ x, y }, { x: publicKeyJwk.x, y: publicKeyJwk.y });
    else assert.deepEqual(key.raw, Buffer.from(fromBase58(publicKeyBase58)!));
    assert.equal(`did:key:${toMultikey(key)}`, did);
  }
  for (const did of unsupported) assert.equal(codeOf(parseDid(did)), 'unsupported_key', did);
});

test('did:key: the examples of muretai-wire-facts §2', () => {
  const { seeds, dids, p256 } = vectors('canonical/muretai');
  for (const name of ['A', 'B', 'O']) assert.equal(keyPair(Buffer.from(seeds[name], 'hex')).did, dids[name]);
  assert.equal(keyOfDidKey(parseDid(p256.did) as DidKey).raw.toString('hex'), p256.point);
});

test('DID-06 base58 is guarded before it is decoded', () => {
  const good = 'z6MkfMo6gxqdBhaHMNnmfhgZFBjpCDTkmJMJLoypsBZS9PwD';
  assert.ok(fromMultibase(good));
  const started = process.hrtime.bigint();
  for (const text of [
    good.replace('M', 'Ā'),
    'z',
    `z${'9'.repeat(60_000)}`,
    good.slice(1),
    `${good} `,
    `${good}\n`,
    `f${good}`,
    good.replace('k', '0'),
  ]) {
    assert.equal(fromMultibase(text), undefined);
    assert.equal(typeof fromMultikey(text), 'string');
    assert.notEqual(codeOf(parseDid(`did:key:${text}`)), 'accepted');
  }
  assert.equal(fromBase58('9'.repeat(60_000)), undefined);
  assert.ok(process.hrtime.bigint() - started < 100_000_000n);
});

test('encodings: bytes to text and back; every text that is taken is the one that bytes give', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 32, maxLength: 80 }), (bytes) => {
      assert.deepEqual(Buffer.from(fromMultibase(toMultibase(bytes)) ?? []), Buffer.from(bytes));
      assert.deepEqual(fromBase64(Buffer.from(bytes).toString('base64')), Buffer.from(bytes));
      assert.deepEqual(fromBase64url(Buffer.from(bytes).toString('base64url')), Buffer.from(bytes));
    }),
  );
  for (const text of ['YQ', 'YR==', 'YQ==\n', ' YQ==', 'Y-==', 'YQ=']) assert.equal(fromBase64(text), undefined, text);
  for (const text of ['YQ==', 'YR', 'Y+', 'Y']) assert.equal(fromBase64url(text), undefined, text);
});

test('fromMultikey takes any text without throwing, and a key back to the same text', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 30, maxLength: 40 }),
      fc.constantFrom([0xed, 1], [0x80, 0x24], [0xec, 1], []),
      (raw, prefix) => {
        const text = toMultibase(Uint8Array.from([...prefix, ...raw]));
        const key = fromMultikey(text);
        if (typeof key === 'string') return;
        assert.equal(toMultikey(key), text);
        assert.ok(sameKey(key, fromMultikey(text) as typeof key));
      },
    ),
    { numRuns: 500 },
  );
});
