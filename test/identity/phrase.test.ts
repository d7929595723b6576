import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mnemonicToSeedSync } from 'bip39';
import fc from 'fast-check';
import { phraseOfSeed, seedOfPhrase } from '../../src/identity/phrase.ts';
import type { Refusal } from '../../src/lib/refusal.ts';
import { vectors } from './support.ts';

const { cases } = vectors('phrase/bip39') as { cases: Array<{ entropy: string; phrase: string }> };

function reason(text: string): unknown {
  return (seedOfPhrase(text) as Refusal).data?.reason;
}

test('the published 24-word vectors, both ways: the phrase is the seed, not the seed of PBKDF2', () => {
  for (const { entropy, phrase } of cases) {
    assert.equal(phraseOfSeed(Buffer.from(entropy, 'hex')), phrase);
    assert.equal((seedOfPhrase(phrase) as Buffer).toString('hex'), entropy);
    assert.notEqual(mnemonicToSeedSync(phrase).subarray(0, 32).toString('hex'), entropy);
  }
  assert.equal(phraseOfSeed(new Uint8Array(32)), cases[0]!.phrase);
});

test('any seed comes back from its phrase', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (seed) => {
      assert.deepEqual(seedOfPhrase(phraseOfSeed(seed)), Buffer.from(seed));
    }),
  );
});

test('MIS-04 white space and case are forgiven', () => {
  const { entropy, phrase } = cases[4]!;
  for (const text of [
    `  ${phrase}\n`,
    phrase.replaceAll(' ', '  '),
    phrase.replaceAll(' ', '\t'),
    phrase.replaceAll(' ', '\r\n'),
    phrase.replaceAll(' ', '\u00a0'),
    phrase.replaceAll(' ', '\u3000'),
    phrase.replaceAll(' ', '\u200b'),
    phrase.replaceAll(' ', '\u200b '),
    `\ufeff${phrase}`,
    phrase.toUpperCase(),
    phrase.replace('absent', 'Absent'),
  ]) {
    assert.equal((seedOfPhrase(text) as Buffer).toString('hex'), entropy);
  }
});

test('MIS-04 every mistake has its own reason', () => {
  const { phrase } = cases[4]!;
  const words = phrase.split(' ');
  assert.equal(reason(words.slice(0, 12).join(' ')), 'word_count');
  assert.equal(reason(words.slice(0, 23).join(' ')), 'word_count');
  assert.equal(reason(''), 'word_count');
  assert.match((seedOfPhrase(words.slice(0, 23).join(' ')) as Refusal).words, /needs 24 words; there are 23/);
  assert.equal(reason([...words.slice(0, 23), 'zoo'].join(' ')), 'checksum');

  const misspelt = seedOfPhrase(words.with(1, 'gorrila').join(' ')) as Refusal;
  assert.deepEqual(misspelt.data, {
    field: 'phrase',
    reason: 'unknown_word',
    position: 2,
    word: 'gorrila',
    suggestions: ['gorilla'],
  });
  assert.match(misspelt.words, /Word 2, "gorrila".*Perhaps gorilla\?/);
});

test('MIS-04 no refusal holds more of the phrase than the one word that is unknown', () => {
  const words = cases[7]!.phrase.split(' ');
  const hex = 'f'.repeat(64);
  for (const text of [
    words.slice(1).join(' '),
    words.with(3, 'advacne').join(' '),
    words.toReversed().join(' '),
    hex,
    words.with(0, hex).join(' '),
  ]) {
    const refusal = JSON.stringify(seedOfPhrase(text));
    const shown = words.filter((word) => new RegExp(`\\b${word}\\b`).test(refusal.replace('"phrase"', '')));
    assert.ok(shown.length <= 1, refusal);
    assert.ok(!refusal.includes(hex));
  }
});

test('no text makes it throw', () => {
  const list = ['abandon', 'zoo', 'Art', '\u200b', 'x'.repeat(500), 'é', '🙂'];
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string({ unit: 'binary' }),
        fc.array(fc.constantFrom(...list), { minLength: 20, maxLength: 26 }).map((w) => w.join(' ')),
      ),
      (text) => {
        seedOfPhrase(text);
      },
    ),
  );
  seedOfPhrase('a'.repeat(1_000_000));
});
