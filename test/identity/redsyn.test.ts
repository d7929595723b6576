import assert from 'node:assert/strict';
import { createHash, webcrypto } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { importKey, type PublicKey } from '../../src/identity/algorithms.ts';
import {
  EncryptionKey,
  isEncrypted,
  openFiles,
  openLetter,
  proveEncryptionKey,
  readEncryptionKey,
  sealLetter,
} from '../../src/identity/redsyn-cipher.ts';
import {
  redsynFingerprint,
  type SealedEnvelope,
  type SignableEnvelope,
  signEnvelope,
  signingPayload,
  verifyDelivered,
  verifyEnvelope,
} from '../../src/identity/redsyn-seal.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { codeOf, pairA, pairB } from './support.ts';

const TIME = { now: 1_790_000_000_000, windowSeconds: 600 };
const zip = Buffer.from('PK\u0003\u0004 not really a zip');

const envelope: SignableEnvelope = {
  id: 'm8f2c',
  kind: 'request',
  from: 'acme/dev/joel/reviewer#s4',
  to: 'globex/erp/bob/billing',
  reply_to: null,
  ts: 1_790_000_000,
  body: { type: 'text/plain', text: '¿Está paga la factura 123? 🙂' },
  refs: [{ url: 'https://git.acme.com/app', note: 'at 4f2c1d' }],
  files: { zip: zip.toString('base64') },
};

function seal(parts: SignableEnvelope = envelope, pair = pairA): SealedEnvelope {
  const sig = signEnvelope(parts, pair);
  assert.ok(!(sig instanceof Refusal));
  return { ...parts, sig };
}

test('the payload is RFC 8785 of the twelve members, absent texts empty, the hash in place of the zip', () => {
  assert.equal(
    signingPayload(envelope),
    `{"body":{"text":"¿Está paga la factura 123? 🙂","type":"text/plain"},"error":false,"files_sha256":"${createHash('sha256').update(zip).digest('hex')}","from":"acme/dev/joel/reviewer#s4","id":"m8f2c","kind":"request","refs":[{"note":"at 4f2c1d","url":"https://git.acme.com/app"}],"reply_to":"","thread":"","to":"globex/erp/bob/billing","ts":1790000000,"v":1}`,
  );
  assert.equal(
    signingPayload({ kind: 'reply', from: 'a/b/c/d', ts: 1, body: 1.0, error: true }),
    '{"body":1,"error":true,"files_sha256":"","from":"a/b/c/d","id":"","kind":"reply","refs":[],"reply_to":"","thread":"","to":"","ts":1,"v":1}',
  );
});

test('a relay takes a signature of the registered key over exactly what arrived, within ten minutes', () => {
  const sealed = seal();
  const verified = verifyEnvelope(sealed, pairA.publicKey, TIME);
  assert.ok(!(verified instanceof Refusal));
  assert.equal(verified.payload, signingPayload(envelope));
  assert.equal(verified.fingerprint, redsynFingerprint(pairA.publicKey.raw));

  const refused = (change: Partial<SealedEnvelope>, key = pairA.publicKey, time = TIME): void =>
    assert.equal(
      codeOf(verifyEnvelope({ ...sealed, ...change }, key, time)),
      'envelope_signature_invalid',
      JSON.stringify(change),
    );
  refused({ body: { type: 'text/plain', text: 'otra' } });
  refused({ id: 'm9' });
  refused({ to: 'globex/erp/bob/other' });
  refused({ from: 'acme/dev/joel/reviewer' });
  refused({ thread: 'm8f2c' });
  refused({ reply_to: 'x' });
  refused({ kind: 'event' });
  refused({ ts: 1_790_000_001 });
  refused({ ts: null });
  refused({ ts: 1_790_000_000.5 });
  refused({ refs: [] });
  refused({ files: null });
  refused({ files: { zip: `${zip.toString('base64')}\n` } });
  refused({ error: true });
  refused({ sig: null });
  refused({ sig: { ...sealed.sig!, alg: 'none' } });
  refused({ sig: { ...sealed.sig!, value: `${sealed.sig!.value}==` } });
  refused({ sig: { ...sealed.sig!, value: sealed.sig!.value.slice(2) } });
  refused({ sig: { ...sealed.sig!, key: pairB.publicKey.raw.toString('base64url') } });
  refused({ sig: { ...sealed.sig!, key: Buffer.concat([Buffer.of(1), Buffer.alloc(31)]).toString('base64url') } });
  refused({}, pairB.publicKey);
  refused({}, pairA.publicKey, { ...TIME, now: TIME.now + 601_000 });
  refused({}, pairA.publicKey, { ...TIME, now: TIME.now - 601_000 });
  assert.equal(codeOf(verifyEnvelope(sealed, pairA.publicKey, { ...TIME, now: TIME.now + 600_000 })), 'accepted');
  assert.equal(codeOf(signEnvelope({ ...envelope, body: '\ud800' }, pairA)), 'malformed_request');
});

/** As a relay delivers it: session and thread filled in, the zip gone, the payload beside the signature. */
function delivered(parts: SignableEnvelope = envelope, change: Record<string, unknown> = {}): SealedEnvelope {
  const sealed = seal(parts);
  const payload = signingPayload(parts) as string;
  const files = parts.files ? { bytes: zip.length, sha256: createHash('sha256').update(zip).digest('hex') } : null;
  return {
    ...sealed,
    thread: 'm8f2c',
    to: 'globex/erp/bob/billing#s1',
    files,
    sig: { ...sealed.sig!, payload },
    ...change,
  } as SealedEnvelope;
}

test('a receiver need not trust the relay: the payload must say what the envelope says', () => {
  const verified = verifyDelivered(delivered());
  assert.ok(!(verified instanceof Refusal), (verified as Refusal).words);
  assert.deepEqual(verified.key.raw, pairA.publicKey.raw);
  for (const change of [
    { body: { type: 'text/plain', text: 'otra' } },
    { id: 'm9' },
    { kind: 'reply' },
    { from: 'acme/dev/mallory/reviewer#s4' },
    { from: 'acme/dev/joel/reviewer#s5' },
    { to: 'globex/erp/bob/other#s1' },
    { to: 'acme/erp/bob/billing' },
    { refs: [] },
    { files: null },
    { error: true },
    { ts: 1_790_000_001 },
    { sig: { ...delivered().sig!, payload: (signingPayload(envelope) as string).replace('123', '124') } },
    { sig: { ...delivered().sig!, payload: undefined } },
    { sig: seal().sig },
  ]) {
    assert.equal(
      codeOf(verifyDelivered(delivered(envelope, change))),
      'envelope_signature_invalid',
      JSON.stringify(change).slice(0, 90),
    );
  }
});

test('what a relay completes is not what a sender signed otherwise: short addresses, #new, the names of an org', () => {
  const to = (written: string, shown: string, sameOrg?: (a: string, b: string) => boolean): string =>
    codeOf(verifyDelivered(delivered({ ...envelope, to: written }, { to: shown }), sameOrg));
  assert.equal(to('bob/billing', 'globex/erp/bob/billing#s1'), 'accepted');
  assert.equal(to('globex/erp/bob/billing#new', 'globex/erp/bob/billing#s1'), 'accepted');
  assert.equal(to('globex/erp/bob/billing#s1', 'globex/erp/bob/billing#s1'), 'accepted');
  assert.equal(to('globex/erp/bob/billing#s1', 'globex/erp/bob/billing#s2'), 'envelope_signature_invalid');
  assert.equal(to('ob/billing', 'globex/erp/bob/billing'), 'envelope_signature_invalid');
  assert.equal(to('globex.com/erp/bob/billing', 'globex/erp/bob/billing'), 'envelope_signature_invalid');
  assert.equal(
    to('globex.com/erp/bob/billing', 'globex/erp/bob/billing', () => true),
    'accepted',
  );
  assert.equal(
    to('globex.com/erp/bob/billing', 'globex/erp/eve/billing', () => true),
    'envelope_signature_invalid',
  );
  const reply: SignableEnvelope = {
    id: 'r1',
    kind: 'reply',
    from: 'globex/erp/bob/billing',
    reply_to: 'm8f2c',
    ts: 1_790_000_000,
    body: 'yes',
  };
  assert.equal(codeOf(verifyDelivered(delivered(reply, { to: 'acme/dev/joel/reviewer#s4' }))), 'accepted');
});

test('any JSON body signs and verifies', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'grapheme' }), (body) => {
      const sealed = seal({ ...envelope, body });
      assert.equal(codeOf(verifyEnvelope(JSON.parse(JSON.stringify(sealed)), pairA.publicKey, TIME)), 'accepted');
    }),
    { numRuns: 50 },
  );
});

test('a fingerprint is eight groups of the hash of the raw key', () => {
  const expected = createHash('sha256').update(pairA.publicKey.raw).digest('hex').slice(0, 32);
  assert.match(redsynFingerprint(pairA.publicKey.raw), /^([0-9a-f]{4}-){7}[0-9a-f]{4}$/);
  assert.equal(redsynFingerprint(pairA.publicKey.raw).replaceAll('-', ''), expected);
  assert.equal(redsynFingerprint(pairA.publicKey.raw.toString('base64url')), redsynFingerprint(pairA.publicKey.raw));
  assert.equal(typeof importKey('ed25519', pairA.publicKey.raw), 'object');
});

test('an encryption key is a point on P-256 that the signing key vouches for', () => {
  const { publicKey } = new EncryptionKey();
  const proof = proveEncryptionKey(publicKey, pairA);
  assert.equal((readEncryptionKey(publicKey, proof, pairA.publicKey) as Buffer).length, 65);
  const field = (key: string, sig: string, by: PublicKey = pairA.publicKey): unknown =>
    (readEncryptionKey(key, sig, by) as Refusal).data?.field;
  assert.equal(field(publicKey, proof, pairB.publicKey), 'enc_sig');
  assert.equal(field(publicKey, proveEncryptionKey(publicKey, pairB)), 'enc_sig');
  assert.equal(field(publicKey, ''), 'enc_sig');
  const off = Buffer.from(publicKey, 'base64url');
  off[40]! ^= 1;
  for (const bad of [off.toString('base64url'), '', `${publicKey}=`, Buffer.alloc(65).toString('base64url'), 'é']) {
    assert.equal(field(bad, proveEncryptionKey(bad, pairA)), 'enc_key');
  }
});

const labels = { id: 'm8f2c', kind: 'request' };
const mine = new EncryptionKey();
const letter = {
  body: { type: 'text/plain', text: 'secreto 🙂' },
  refs: [{ url: 'https://a.test' }],
  reply_key: mine.publicKey,
};

test('a sealed letter opens for its key, id and kind, and for no other', () => {
  const recipient = new EncryptionKey();
  const sealed = sealLetter(labels, letter, recipient.publicKey, zip);
  assert.ok(!(sealed instanceof Refusal));
  assert.ok(isEncrypted(sealed.body));
  assert.deepEqual(sealed.refs, []);
  assert.doesNotMatch(JSON.stringify(sealed), /secreto/);
  assert.deepEqual(openLetter(labels, sealed.body, recipient), letter);
  assert.deepEqual(openLetter(labels, sealed.body, new EncryptionKey(recipient.privateKey())), letter);
  assert.deepEqual(openFiles(labels, sealed.body, sealed.files!.zip, recipient), zip);

  const shut = (result: unknown): void => assert.equal(codeOf(result), 'invalid_field');
  shut(openLetter({ ...labels, id: 'm9' }, sealed.body, recipient));
  shut(openLetter({ ...labels, kind: 'reply' }, sealed.body, recipient));
  shut(openLetter(labels, sealed.body, mine));
  shut(openFiles({ ...labels, id: 'm9' }, sealed.body, sealed.files!.zip, recipient));
  shut(openFiles(labels, sealed.body, zip.toString('base64'), recipient));
  const { enc } = sealed.body;
  for (const [name, text] of Object.entries(enc)) {
    if (typeof text !== 'string') continue;
    const bytes = Buffer.from(text, 'base64url');
    if (bytes.length > 0) bytes[bytes.length >> 1]! ^= 1;
    const damaged = { ...sealed.body, enc: { ...enc, [name]: name === 'alg' ? 'other' : bytes.toString('base64url') } };
    if (name === 'files_nonce') shut(openFiles(labels, damaged, sealed.files!.zip, recipient));
    else shut(openLetter(labels, damaged, recipient));
  }
  assert.equal(codeOf(sealLetter(labels, letter, 'AAAA')), 'invalid_field');
});

test('the steps are those of the document: WebCrypto opens what we seal and we open what it seals', async () => {
  const { subtle } = webcrypto;
  const curve = { name: 'ECDH', namedCurve: 'P-256' };
  const text = new TextEncoder();
  const derive = async (
    privateKey: webcrypto.CryptoKey,
    point: Uint8Array,
    epk: Uint8Array,
  ): Promise<webcrypto.CryptoKey> => {
    const other = await subtle.importKey('raw', point, curve, false, []);
    const shared = await subtle.deriveBits({ name: 'ECDH', public: other }, privateKey, 256);
    const hkdf = await subtle.importKey('raw', shared, 'HKDF', false, ['deriveKey']);
    const how = { name: 'HKDF', hash: 'SHA-256', salt: epk, info: text.encode('redsyn-e2e-v1') };
    return subtle.deriveKey(how, hkdf, { name: 'AES-GCM', length: 256 }, false, ['encrypt', 'decrypt']);
  };
  const aad = text.encode('redsyn-e2e-v1|m8f2c|request');

  const recipient = (await subtle.generateKey(curve, true, ['deriveBits'])) as webcrypto.CryptoKeyPair;
  const raw = Buffer.from(await subtle.exportKey('raw', recipient.publicKey));
  const sealed = sealLetter(labels, letter, raw.toString('base64url'));
  assert.ok(!(sealed instanceof Refusal));
  const [epk, nonce, ct] = [sealed.body.enc.epk, sealed.body.enc.nonce, sealed.body.enc.ct].map((t) =>
    Buffer.from(t, 'base64url'),
  ) as [Buffer, Buffer, Buffer];
  const key = await derive(recipient.privateKey, epk, epk);
  const plain = await subtle.decrypt({ name: 'AES-GCM', iv: nonce, additionalData: aad }, key, ct);
  assert.deepEqual(JSON.parse(Buffer.from(plain).toString()), letter);

  const ephemeral = (await subtle.generateKey(curve, true, ['deriveBits'])) as webcrypto.CryptoKeyPair;
  const theirEpk = Buffer.from(await subtle.exportKey('raw', ephemeral.publicKey));
  const theirKey = await derive(ephemeral.privateKey, Buffer.from(mine.publicKey, 'base64url'), theirEpk);
  const iv = webcrypto.getRandomValues(new Uint8Array(12));
  const theirs = Buffer.from(
    await subtle.encrypt({ name: 'AES-GCM', iv, additionalData: aad }, theirKey, text.encode(JSON.stringify(letter))),
  );
  const enc = {
    v: 1,
    alg: 'P256-HKDF-SHA256-A256GCM',
    epk: theirEpk.toString('base64url'),
    nonce: Buffer.from(iv).toString('base64url'),
    ct: theirs.toString('base64url'),
    files_nonce: '',
  };
  assert.deepEqual(openLetter(labels, { type: 'application/redsyn+encrypted', enc }, mine), letter);
});

test('no body makes the opening throw', () => {
  const enc = fc.record(
    {
      v: fc.constant(1),
      alg: fc.constant('P256-HKDF-SHA256-A256GCM'),
      epk: fc.oneof(fc.constant(mine.publicKey), fc.string()),
      nonce: fc.base64String(),
      ct: fc.base64String(),
      files_nonce: fc.jsonValue(),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(
      fc.oneof(fc.jsonValue(), fc.record({ type: fc.constant('application/redsyn+encrypted'), enc })),
      (body) => {
        assert.equal(codeOf(openLetter(labels, body, mine)), 'invalid_field');
        isEncrypted(body);
      },
    ),
  );
});
