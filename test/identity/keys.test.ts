import assert from 'node:assert/strict';
import {
  createHash,
  createPublicKey,
  sign as cryptoSign,
  verify as cryptoVerify,
  generateKeyPairSync,
  randomBytes,
} from 'node:crypto';
import { test } from 'node:test';
import { inspect } from 'node:util';
import * as noble from '@noble/ed25519';
import fc from 'fast-check';
import {
  fromMultikey,
  importKey,
  isSmallOrderEncoding,
  keyOfMethod,
  type PublicKey,
  p256Point,
  toMultikey,
  uniqueSignature,
  verify,
} from '../../src/identity/algorithms.ts';
import { parseDid } from '../../src/identity/did.ts';
import { toMultibase } from '../../src/identity/encoding.ts';
import { generateSeed, KeyPair, keyPair } from '../../src/identity/keys.ts';
import { Sealer } from '../../src/identity/sealing.ts';
import { codeOf, pairA } from './support.ts';

noble.hashes.sha512 = (message) => createHash('sha512').update(message).digest();

test('keys and signatures are those of @noble/ed25519', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), fc.uint8Array({ maxLength: 200 }), (seed, message) => {
      const pair = keyPair(seed);
      assert.deepEqual(pair.publicKey.raw, Buffer.from(noble.getPublicKey(seed)));
      const signature = pair.sign(message);
      assert.deepEqual(signature, Buffer.from(noble.sign(message, seed)));
      assert.ok(verify(pair.publicKey, message, signature));
      signature[7]! ^= 1;
      assert.ok(!verify(pair.publicKey, message, signature));
    }),
    { numRuns: 25 },
  );
});

test('verification agrees with the strict oracle on damaged signatures', () => {
  const message = Buffer.from('message');
  const good = pairA.sign(message);
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 63 }), fc.integer({ min: 0, max: 255 }), (at, value) => {
      const signature = Buffer.from(good);
      signature[at] = value;
      const strict = noble.verify(signature, message, pairA.publicKey.raw, { zip215: false });
      assert.equal(verify(pairA.publicKey, message, signature), strict);
    }),
    { numRuns: 40 },
  );
  const L = 2n ** 252n + 27742317777372353535851937790883648493n;
  const s = BigInt(`0x${Buffer.from(good.subarray(32)).reverse().toString('hex')}`) + L;
  const high = Buffer.concat([good.subarray(0, 32), Buffer.from(s.toString(16).padStart(64, '0'), 'hex').reverse()]);
  assert.ok(!verify(pairA.publicKey, message, high));
  for (const length of [0, 63, 65]) assert.ok(!verify(pairA.publicKey, message, Buffer.alloc(length)));
});

const WEAK = [
  '0100000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000080',
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0000000000000000000000000000000000000000000000000000000000000080',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa',
].map((hex) => Buffer.from(hex, 'hex'));

test('DID-07 weak and non-canonical Ed25519 keys are refused at import, as did:key, method or raw', () => {
  for (const raw of WEAK) {
    assert.ok(isSmallOrderEncoding(raw));
    assert.match(importKey('ed25519', raw) as string, /weak key|not a canonical point/);
    const multikey = toMultibase(Buffer.concat([Buffer.from([0xed, 1]), raw]));
    assert.equal(codeOf(parseDid(`did:key:${multikey}`)), 'unsupported_key');
  }
  assert.match(importKey('ed25519', WEAK[0]!) as string, /weak key/);
  // y = p + 3: on the curve, but not how the point is written.
  const nonCanonical = Buffer.from(`f0${'ff'.repeat(30)}7f`, 'hex');
  assert.match(importKey('ed25519', nonCanonical) as string, /not a canonical point/);
  assert.match(importKey('ed25519', Buffer.alloc(32, 2)) as string, /canonical/);
});

test('DID-07 the signature that the neutral element would accept for anything is refused, though node:crypto takes it', () => {
  const raw = WEAK[0]!;
  const signature = Buffer.concat([raw, Buffer.alloc(32)]);
  const object = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: raw.toString('base64url') }, format: 'jwk' });
  const forged: PublicKey = { algorithm: 'ed25519', raw, object };
  assert.ok(!verify(forged, Buffer.from('any'), signature));
  assert.ok(!noble.verify(signature, Buffer.from('any'), raw, { zip215: false }));
  assert.equal(typeof cryptoVerify(null, Buffer.from('any'), object, signature), 'boolean');
});

test('DID-03 one key in five shapes', () => {
  const id = 'did:web:acme.test#key-1';
  const x = pairA.publicKey.raw.toString('base64url');
  const base58 = toMultibase(pairA.publicKey.raw).slice(1);
  const okp = { kty: 'OKP', crv: 'Ed25519', x };
  const shapes = [
    { type: 'Ed25519VerificationKey2018', publicKeyBase58: base58 },
    { type: 'Ed25519VerificationKey2018', publicKeyJwk: okp },
    { type: 'Ed25519VerificationKey2020', publicKeyMultibase: pairA.publicKeyMultibase },
    { type: 'Multikey', publicKeyMultibase: pairA.publicKeyMultibase },
    { type: 'JsonWebKey2020', publicKeyJwk: okp },
    { type: 'JsonWebKey', publicKeyJwk: { ...okp, alg: 'EdDSA', use: 'sig' } },
    { type: 'JsonWebKey', publicKeyJwk: okp, publicKeyMultibase: pairA.publicKeyMultibase },
  ];
  for (const shape of shapes) {
    const key = keyOfMethod({ id, ...shape });
    assert.ok(typeof key !== 'string', JSON.stringify(shape));
    assert.deepEqual(key.raw, pairA.publicKey.raw);
  }
});

test('DID-03 what is not one sound key in the place of its type is refused with the reason', () => {
  const x = pairA.publicKey.raw.toString('base64url');
  const other = new KeyPair(Buffer.alloc(32, 9));
  const p256 = 'zDnaed86KkrLsaP9faeT5yGmoiVHRyzMssnf5ntKx29W5oten';
  const cases: Array<[Record<string, unknown>, RegExp]> = [
    [{ type: 'Ed25519VerificationKey2020', publicKeyMultibase: toMultibase(pairA.publicKey.raw) }, /multicodec|prefix/],
    [{ type: 'Ed25519VerificationKey2020', publicKeyMultibase: p256 }, /ecdsa-p256-sha256 under the type/],
    [
      {
        type: 'Multikey',
        publicKeyMultibase: toMultibase(Buffer.concat([Buffer.from([0xed, 1]), pairA.publicKey.raw.subarray(1)])),
      },
      /31 bytes/,
    ],
    [
      {
        type: 'JsonWebKey',
        publicKeyJwk: { kty: 'OKP', crv: 'Ed25519', x },
        publicKeyMultibase: other.publicKeyMultibase,
      },
      /different keys/,
    ],
    [
      {
        type: 'Ed25519VerificationKey2018',
        publicKeyBase58: toMultibase(Buffer.concat([Buffer.from([0xed, 1]), pairA.publicKey.raw])).slice(1),
      },
      /34 bytes/,
    ],
    [{ type: 'Ed25519VerificationKey2020', publicKeyJwk: { kty: 'OKP', crv: 'Ed25519', x } }, /no publicKeyMultibase/],
    [{ type: 'JsonWebKey', publicKeyJwk: { kty: 'OKP', crv: 'Ed25519', x: `${x}=` } }, /no canonical point/],
    [{ type: 'JsonWebKey', publicKeyJwk: { kty: 'OKP', crv: 'Ed25519', x, d: x } }, /private key/],
    [{ type: 'JsonWebKey', publicKeyJwk: { kty: 'OKP', crv: 'Ed25519', x, use: 'enc' } }, /not for signatures/],
    [{ type: 'JsonWebKey', publicKeyJwk: { kty: 'OKP', crv: 'X25519', x } }, /neither OKP Ed25519/],
    [{ type: 'JsonWebKey', publicKeyJwk: { kty: 'EC', crv: 'P-256', x, y: x } }, /no canonical point/],
    [{ type: 'JsonWebKey', publicKeyJwk: 'x' }, /not an object/],
    [{ type: 'Multikey', publicKeyMultibase: 7 }, /not text/],
    [{ type: 'constructor' }, /its type/],
    [{ type: '__proto__' }, /its type/],
    [{ type: 'RsaVerificationKey2018' }, /its type/],
  ];
  for (const [method, why] of cases) assert.match(keyOfMethod({ id: 'did:web:a.test#k', ...method }) as string, why);
});

test('P-256: keys on the curve verify raw signatures; points off it are none', () => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const key = keyOfMethod({ type: 'JsonWebKey2020', publicKeyJwk: publicKey.export({ format: 'jwk' }) }) as PublicKey;
  assert.equal(key.algorithm, 'ecdsa-p256-sha256');
  assert.equal(toMultikey(fromMultikey(toMultikey(key)) as PublicKey), toMultikey(key));
  const message = Buffer.from('message');
  const signature = cryptoSign('sha256', message, { key: privateKey, dsaEncoding: 'ieee-p1363' });
  assert.ok(verify(key, message, signature));
  assert.ok(!verify(key, message, cryptoSign('sha256', message, privateKey)), 'DER is not the form of RFC 9421 §3.3.4');

  // Anybody can turn (r, s) into (r, n - s): both verify, and both are one to a replay store.
  const n = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
  const s = n - BigInt(`0x${signature.subarray(32).toString('hex')}`);
  const twin = Buffer.concat([signature.subarray(0, 32), Buffer.from(s.toString(16).padStart(64, '0'), 'hex')]);
  assert.ok(verify(key, message, twin));
  assert.deepEqual(Buffer.from(uniqueSignature(key, twin)), Buffer.from(uniqueSignature(key, signature)));

  const point = p256Point(key.raw)!;
  assert.equal(point.length, 65);
  const off = Buffer.from(point);
  off[64]! ^= 1;
  for (const bad of [
    off,
    Buffer.of(0),
    Buffer.alloc(65),
    Buffer.concat([Buffer.of(6), point.subarray(1)]),
    point.subarray(0, 64),
  ]) {
    assert.equal(p256Point(bad), undefined);
  }
});

test('a key pair shows its private half to nobody', () => {
  const seed = generateSeed();
  const pair = keyPair(seed);
  const shown = inspect(pair, { depth: 9, showHidden: true }) + JSON.stringify(pair);
  for (const form of ['hex', 'base64', 'base64url'] as const) assert.ok(!shown.includes(seed.toString(form)));
  assert.equal(keyPair(seed), pair);
  assert.throws(() => keyPair(Buffer.alloc(31)), TypeError);
});

test('a sealed value opens under its secret and purpose only', () => {
  const secret = randomBytes(32);
  const sealer = new Sealer(secret);
  const plain = randomBytes(32);
  const sealed = sealer.seal(plain, 'agent-seed:1');
  assert.deepEqual(new Sealer(secret).open(sealed, 'agent-seed:1'), plain);
  assert.notDeepEqual(sealer.seal(plain, 'agent-seed:1'), sealed);
  assert.throws(() => sealer.open(sealed, 'agent-seed:2'), /does not open/);
  assert.throws(() => new Sealer(randomBytes(32)).open(sealed, 'agent-seed:1'), /does not open/);
  for (let at = 1; at < sealed.length; at++) {
    const damaged = Buffer.from(sealed);
    damaged[at]! ^= 1;
    assert.throws(() => sealer.open(damaged, 'agent-seed:1'), /does not open/);
  }
  assert.throws(() => sealer.open(Buffer.concat([Buffer.of(2), sealed.subarray(1)]), 'agent-seed:1'), /format/);
  assert.throws(() => sealer.open(sealed.subarray(0, 20), 'agent-seed:1'), /format/);
  assert.throws(() => new Sealer(Buffer.alloc(16)), TypeError);
  assert.deepEqual(sealer.open(sealer.seal(Buffer.alloc(0), 'x'), 'x'), Buffer.alloc(0));
});
