import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { containsNul, hasLoneSurrogate, type JsonText, readJson } from '../../src/lib/json.ts';
import { Refusal } from '../../src/lib/refusal.ts';

function good(source: string | Buffer): JsonText {
  const result = readJson(source);
  if (result instanceof Refusal) assert.fail(result.words);
  return result;
}

function bad(source: string | Buffer, limits?: { maxDepth: number; maxMembers: number }): Refusal {
  const result = readJson(source, limits);
  assert.ok(result instanceof Refusal, 'was accepted');
  return result;
}

test('reads whatever JSON.stringify writes, plain or indented', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom(0, 1, '\t', '\r\n '), (value, indent) => {
      const text = JSON.stringify(value, null, indent);
      assert.deepEqual(good(text).value, JSON.parse(text));
      assert.deepEqual(good(Buffer.from(text)).value, JSON.parse(text));
    }),
  );
});

/** `JSON.parse` is the oracle; where it takes more than we do, the refusal must say which of our two reasons it was. */
function agrees(text: string): void {
  const result = readJson(text);
  let infinite = false;
  let expected: unknown;
  try {
    expected = JSON.parse(text, (_, item) => {
      if (item === Number.POSITIVE_INFINITY || item === Number.NEGATIVE_INFINITY) infinite = true;
      return item;
    });
  } catch {
    assert.ok(result instanceof Refusal);
    return;
  }
  if (!(result instanceof Refusal)) assert.deepEqual(result.value, expected);
  else assert.ok(result.code === 'duplicate_key' || (infinite && /out of range/.test(result.words)), result.words);
}

test('accepts and refuses what JSON.parse does, on texts that are nearly JSON', () => {
  const pieces = '{ } [ ] , : " \\ \\u00 \\n a 0 1 -0 1.5 1e3 . e + true null fals \u0001 \u2028 é "a" "b"'.split(' ');
  const text = fc.array(fc.constantFrom(...pieces, ' ', '\n'), { maxLength: 8 }).map((parts) => parts.join(''));
  fc.assert(fc.property(text, agrees), { numRuns: 5_000 });
});

test('one broken character is found wherever it is', () => {
  const damaged = fc.jsonValue().chain((value) => {
    const text = JSON.stringify(value);
    return fc
      .tuple(fc.nat(text.length), fc.constantFrom('"', '\\', '{', ']', ',', '\u0000', 'x', '9'))
      .map(([at, c]) => text.slice(0, at) + c + text.slice(at + 1));
  });
  fc.assert(fc.property(damaged, agrees), { numRuns: 2_000 });
});

test('CAN-04: a repeated key is refused at every depth, however it is escaped', () => {
  for (const text of [
    '{"v":1,"to":"acme/a/b/c","to":"acme/x/y/z"}',
    '{"jsonrpc":"2.0","method":"message/send","method":"tasks/cancel"}',
    '{"ru\\u006e":1,"run":2}',
    '{"a":[{"b":{"c":1,"d":2,"c":3}}]}',
    '{"":1,"":2}',
    '{"__proto__":1,"__proto__":2}',
    '{"\\ud83d\\ude00":1,"😀":2}',
  ]) {
    assert.equal(bad(text).code, 'duplicate_key', text);
  }
  assert.equal(
    bad('{"v":1,\n "to":2, "to":3}').words,
    'Not valid JSON: an object names the same key twice at line 2, column 10.',
  );
});

test('CAN-04: the same key in two objects, or as a value, is no repeat', () => {
  assert.deepEqual(good('{"a":{"a":"a"},"b":[{"a":1},{"a":2}]}').value, { a: { a: 'a' }, b: [{ a: 1 }, { a: 2 }] });
});

test('CAN-04: a member repeated at random is always found', () => {
  const object = fc.dictionary(fc.string(), fc.jsonValue(), { minKeys: 1, maxKeys: 8, noNullPrototype: true });
  fc.assert(
    fc.property(object, fc.nat(), fc.nat(), fc.boolean(), (members, from, to, escaped) => {
      const rows = Object.entries(members).map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`);
      const key = Object.keys(members)[from % rows.length]!;
      const spelt = escaped
        ? `"${[...Array(key.length).keys()].map((i) => `\\u${key.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')}"`
        : JSON.stringify(key);
      rows.splice(to % (rows.length + 1), 0, `${spelt}:0`);
      assert.equal(bad(`{${rows.join(',')}}`).code, 'duplicate_key');
    }),
  );
});

test('the words say where and never repeat the input', () => {
  const refusal = bad('{"password": hunter2}');
  assert.equal(refusal.code, 'malformed_json');
  assert.equal(refusal.words, 'Not valid JSON: a value was expected at line 1, column 14.');
  assert.match(bad('').words, /a value was expected at line 1, column 1/);
  assert.match(bad('[1,\n2\n').words, /line 3, column 1/);
  assert.match(bad('{} {}').words, /should have ended at line 1, column 4/);
});

test('CAN-03: a number no double can hold is refused, any other keeps its spelling', () => {
  for (const text of ['1e400', '[-1e309]', '9'.repeat(400)]) assert.equal(bad(text).code, 'malformed_json');
  const { value, raw } = good('{"timestamp": 1790000000.0, "big":12345678901234567890,"n":[1E2,-0]}');
  assert.deepEqual(Object.keys(value as object), ['timestamp', 'big', 'n']);
  assert.equal(raw(['timestamp']), '1790000000.0');
  assert.equal(raw(['big']), '12345678901234567890');
  assert.equal(raw(['n', 0]), '1E2');
  assert.equal(raw(['n', 1]), '-0');
});

test('bytes that are not UTF-8, and a byte order mark, are refused', () => {
  for (const bytes of [
    [0x22, 0xff, 0x22],
    [0x22, 0xed, 0xa0, 0x80, 0x22],
    [0x22, 0xc0, 0xaf, 0x22],
    [0xef, 0xbb, 0xbf, 0x31],
  ]) {
    assert.equal(bad(Buffer.from(bytes)).code, 'malformed_json');
  }
});

test('depth and number of members are bounded before anything is built', () => {
  assert.ok(good('['.repeat(64) + ']'.repeat(64)));
  assert.match(bad('['.repeat(65) + ']'.repeat(65)).words, /deeper than 64/);
  assert.equal(bad('['.repeat(5_000_000)).code, 'malformed_json');
  assert.equal(bad('{"a":'.repeat(1_000_000)).code, 'malformed_json');
  assert.match(bad(`[${'1,'.repeat(100_000)}1]`).words, /more than 20000 members/);
  assert.match(bad('[{"a":1},{"b":2}]', { maxDepth: 2, maxMembers: 3 }).words, /more than 3 members/);
});

test('raw gives the very text of a value, by path', () => {
  const envelope = '{ "v":1.0,\t"b":"\\u0041\\/" , "a":[ ]}';
  const { raw } = good(`{"x":[0,{"a/b":${envelope} }],"":null}`);
  assert.equal(raw(['x', 1, 'a/b']), envelope);
  assert.equal(raw(['x', 1, 'a/b', 'b']), '"\\u0041\\/"');
  assert.equal(raw(['']), 'null');
  for (const path of [['y'], ['x', 2], ['x', '1'], [0], ['x', 1, 'a/b', 'a', 0], ['toString'], ['x', -1]]) {
    assert.equal(raw(path), undefined);
  }
  assert.equal(good(' 7 ').raw([]), '7');
  assert.equal(good('{"ru\\u006e":5}').raw(['run']), '5');
});

test('raw of every path parses to the value at that path', () => {
  const check = (json: JsonText, value: unknown, path: Array<string | number>): void => {
    assert.deepEqual(JSON.parse(json.raw(path) ?? 'undefined'), value);
    if (Array.isArray(value)) value.forEach((item, i) => void check(json, item, [...path, i]));
    else if (value !== null && typeof value === 'object') {
      for (const [key, item] of Object.entries(value)) check(json, item, [...path, key]);
    }
  };
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 3 }), (value) => {
      const json = good(JSON.stringify(value, null, 1));
      check(json, json.value, []);
    }),
  );
});

test('__proto__ is an ordinary member and changes no prototype', () => {
  const { value } = good('{"__proto__":{"admin":true}}');
  assert.equal((value as { admin?: unknown }).admin, undefined);
  assert.deepEqual(Object.keys(value as object), ['__proto__']);
  assert.equal(Object.getPrototypeOf(value), Object.prototype);
});

test('CAN-06: NUL and lone surrogates are found in values and keys', () => {
  assert.equal(containsNul(good('{"a":["x",{"b":"\\u0000"}]}').value), true);
  assert.equal(containsNul(good('{"\\u0000":1}').value), true);
  assert.equal(containsNul(good('{"a":"\\\\u0000","b":0}').value), false);
  assert.equal(hasLoneSurrogate(good('["\\ud800"]').value), true);
  assert.equal(hasLoneSurrogate(good('{"\\udc00x":1}').value), true);
  assert.equal(hasLoneSurrogate(good('["\\ud83d\\ude00", "😀", null]').value), false);
});
