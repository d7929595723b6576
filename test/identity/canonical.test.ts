import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { verify } from '../../src/identity/algorithms.ts';
import { canonicalJson, pythonFloat, pythonJson, RawNumber } from '../../src/identity/canonical.ts';
import { readJson } from '../../src/lib/json.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { pairA, vectors } from './support.ts';

test('RFC 8785: published vectors', () => {
  const { cases, numbers } = vectors('canonical/rfc8785');
  for (const { name, input, output } of cases) assert.equal(canonicalJson(JSON.parse(input)), output.trim(), name);
  for (const [hex, text] of numbers) {
    const value = Buffer.from(hex.padStart(16, '0'), 'hex').readDoubleBE();
    assert.equal(canonicalJson(value), text);
  }
});

test('CAN-03 RFC 8785 spells numbers as ECMAScript does', () => {
  const spelt = (text: string): unknown => canonicalJson(JSON.parse(text));
  assert.equal(spelt('[1.0,1E2,-0,0.1,1e21,1e-7]'), '[1,100,0,0.1,1e+21,1e-7]');
  assert.ok(spelt('[1e400]') instanceof Refusal);
  assert.ok(canonicalJson(Number.NaN) instanceof Refusal);
});

test('half a surrogate pair, in a value or a key, and a value too deep are refused; what is no JSON is our fault', () => {
  for (const value of ['\ud800', ['a\udc00'], { '\ud83d': 1 }, { a: { b: '\ude00\ud83d' } }]) {
    assert.ok(canonicalJson(value) instanceof Refusal);
    assert.ok(pythonJson(value) instanceof Refusal);
  }
  assert.equal(canonicalJson('😀'), '"😀"');
  const nested = (depth: number): unknown => JSON.parse('['.repeat(depth) + ']'.repeat(depth));
  assert.equal(canonicalJson(nested(64)), '['.repeat(64) + ']'.repeat(64));
  assert.ok(canonicalJson(nested(65)) instanceof Refusal);
  assert.ok(canonicalJson(nested(50_000)) instanceof Refusal);
  for (const value of [
    undefined,
    { a: undefined },
    1n,
    () => 1,
    new Date(),
    new Map(),
    new RawNumber('1'),
    { toJSON: () => 1 },
  ]) {
    assert.throws(() => canonicalJson(value), TypeError);
  }
});

test('the canonical form reads back as the same value and is a fixed point', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'grapheme' }), (value) => {
      const text = canonicalJson(value);
      assert.ok(typeof text === 'string');
      assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)));
      assert.equal(canonicalJson(JSON.parse(text)), text);
    }),
  );
});

test('CAN-03 muretai: the very bytes of CPython', () => {
  const { floats, values } = vectors('canonical/python');
  for (const { json, canonical } of values) assert.equal(pythonJson(JSON.parse(json)), canonical);
  for (const [hex, text] of floats) {
    const value = Buffer.from(hex, 'hex').readDoubleBE();
    assert.equal(pythonFloat(value), text);
    assert.equal(pythonJson(new RawNumber(text)), text);
  }
});

test('CAN-03 muretai: a number without one spelling is refused by name, unless its own token is there', () => {
  for (const value of [-0, 1e16, 2 ** 53, 1e-7, 1e300]) {
    const refusal = pythonJson({ timestamp: value });
    assert.ok(refusal instanceof Refusal);
    assert.match(refusal.words, /timestamp/);
  }
  for (const value of [0, -7, 2 ** 53 - 1, 0.5, 1790000000.25, 0.0001]) assert.equal(pythonJson(value), String(value));
  for (const token of [
    '1790000000.0',
    '1e+16',
    '1e-07',
    '-0.0',
    '1790000000.5',
    '123456789012345678901234567890',
    '-5',
    '0',
  ]) {
    assert.equal(pythonJson({ timestamp: new RawNumber(token) }), `{"timestamp":${token}}`);
  }
  for (const token of [
    '1.50',
    '1E5',
    '1e5',
    '-0',
    '01',
    '+1',
    '.5',
    '1.',
    'NaN',
    'Infinity',
    '1e400',
    '1,"x":1',
    ' 1',
    '1'.repeat(60),
  ]) {
    assert.ok(pythonJson({ timestamp: new RawNumber(token) }) instanceof Refusal, token);
  }
});

test('CAN-03 muretai: the signed messages of muretai-wire-facts §4 verify, the float one over its token', () => {
  for (const { fields, timestamp, sig } of vectors('canonical/muretai').messages) {
    const json = readJson(`{"metadata":{"timestamp":${timestamp}}}`);
    assert.ok(!(json instanceof Refusal));
    const token = json.raw(['metadata', 'timestamp'])!;
    const text = pythonJson({ ...fields, timestamp: new RawNumber(token) });
    assert.ok(typeof text === 'string');
    assert.ok(verify(pairA.publicKey, Buffer.from(text), Buffer.from(sig, 'base64')));
  }
});

test('muretai: keys sort by code point, where ECMAScript sorts by UTF-16 unit', () => {
  const value = { '\u{1f600}': 1, '\ufffd': 2 };
  assert.equal(pythonJson(value), '{"\ufffd":2,"\u{1f600}":1}');
  assert.equal(canonicalJson(value), '{"\u{1f600}":1,"\ufffd":2}');
});
