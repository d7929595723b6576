import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { createHeaderValue, verifyHeaderValue } from '@digitalbazaar/http-digest-header';
import fc from 'fast-check';
import { checkContentDigest, checkLegacyDigest, contentDigest } from '../../src/identity/http-signature/digest.ts';
import type { Refusal } from '../../src/lib/refusal.ts';
import { vectors } from './support.ts';

const body = Buffer.from('{"hello": "world"}');
const ok256 = contentDigest(body);
const ok512 = contentDigest(body, 'sha-512');

test('RFC 9530: published digests', () => {
  for (const { name, utf8, hex, field } of vectors('http-signature/rfc9530').cases) {
    const bytes = hex === undefined ? Buffer.from(utf8) : Buffer.from(hex, 'hex');
    assert.equal(checkContentDigest(field, bytes), undefined, name);
    assert.equal(contentDigest(bytes, field.startsWith('sha-512') ? 'sha-512' : 'sha-256'), field, name);
  }
});

test('SIG-06 the digest is of the bytes as they came: a newline more is a mismatch that names the algorithm', () => {
  const refusal = checkContentDigest(ok256, Buffer.concat([body, Buffer.from('\n')])) as Refusal;
  assert.equal(refusal.code, 'digest_mismatch');
  assert.equal(refusal.status, 401);
  assert.match(refusal.words, /sha-256/);
  const coded = gzipSync(body);
  assert.equal(checkContentDigest(contentDigest(coded), coded), undefined);
  assert.equal((checkContentDigest(contentDigest(coded), body) as Refusal).code, 'digest_mismatch');
});

test('SIG-07 every known digest must match, and there must be one', () => {
  assert.equal(checkContentDigest(`${ok256}, ${ok512}`, body), undefined);
  assert.equal(checkContentDigest(`${ok512}, ${ok256};x=1`, body), undefined);
  assert.equal(checkContentDigest(`md5=:Sd/dVLAcvNLSq16eXua5uQ==:, ${ok256}`, body), undefined);
  const bad = contentDigest(Buffer.from('x'), 'sha-512');
  const refusal = checkContentDigest(`${ok256}, ${bad}`, body) as Refusal;
  assert.equal(refusal.code, 'digest_mismatch');
  assert.match(refusal.words, /sha-512/);
  for (const field of [
    `${ok256}, ${ok256}`,
    'sha-256=:AAAA:, sha-256=:BBBB:',
    ok256.toUpperCase(),
    `SHA-256${ok256.slice(7)}`,
    ok256.replaceAll(':', ''),
    ok256.replace('=:', ':'),
    'sha-256',
    'sha-256="text"',
    'sha-256=(:AAAA:)',
    `${ok256},`,
    'mh=uEiBEE2-',
    '{',
  ]) {
    const refused = checkContentDigest(field, body) as Refusal;
    assert.equal(refused.status, 400, field);
    assert.equal(refused.code, 'malformed_request', field);
  }
  for (const field of ['md5=:Sd/dVLAcvNLSq16eXua5uQ==:', '', 'sha-384=:AAAA:', 'constructor=:AAAA:']) {
    const refused = checkContentDigest(field, body) as Refusal;
    assert.equal(refused.status, 400, field);
    assert.deepEqual(refused.data, { want: 'sha-256=10, sha-512=5' }, field);
  }
});

test('SIG-07 the old Digest is read only where it is asked for, and never as Content-Digest', async () => {
  const old = await createHeaderValue({ data: body, useMultihash: false });
  assert.match(old, /^SHA-256=/);
  assert.equal(await checkLegacyDigest(old, body), true);
  assert.equal(await checkLegacyDigest(old.replace('SHA', 'sha'), body), true);
  assert.equal(await checkLegacyDigest(old, Buffer.from('x')), false);
  const multihash = await createHeaderValue({ data: body });
  for (const field of [multihash, ok256, `${old}, ${old}`, ` ${old}`, ''])
    assert.equal(await checkLegacyDigest(field, body), false, field);
  for (const field of [old, multihash]) assert.equal((checkContentDigest(field, body) as Refusal).status, 400, field);
});

test('any body and its digest agree, also for the package; any other body does not', async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array(), fc.uint8Array(), async (a, b) => {
      const field = contentDigest(a);
      assert.equal(checkContentDigest(field, a), undefined);
      assert.equal((await verifyHeaderValue({ data: a, headerValue: field })).verified, true);
      if (!Buffer.from(a).equals(Buffer.from(b)))
        assert.equal((checkContentDigest(field, b) as Refusal).code, 'digest_mismatch');
    }),
    { numRuns: 50 },
  );
});
