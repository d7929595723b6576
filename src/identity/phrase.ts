import { entropyToMnemonic, mnemonicToEntropy, wordlists } from 'bip39';
import { type Refusal, refuse } from '../lib/refusal.ts';
import { SEED_BYTES } from './keys.ts';

const WORDS = 24;
const MAX_LENGTH = 2048;
const list: string[] = wordlists.english!;
const known = new Set(list);

/** The 24 English BIP-39 words of a seed. The phrase *is* the seed (its entropy): PBKDF2 is no part of it. */
export function phraseOfSeed(seed: Uint8Array): string {
  if (seed.length !== SEED_BYTES) throw new TypeError(`a seed has ${SEED_BYTES} bytes, not ${seed.length}`);
  return entropyToMnemonic(Buffer.from(seed), list);
}

/**
 * The seed of a phrase as people type it: any white space, any case. Refused as `invalid_field` with `data.reason` `word_count`,
 * `unknown_word` or `checksum`. No refusal holds more of the phrase than the one word that is not in the list.
 */
export function seedOfPhrase(text: string): Buffer | Refusal {
  if (text.length > MAX_LENGTH)
    return refusePhrase('word_count', `A recovery phrase has ${WORDS} words; that is far longer.`);
  const words = split(text);
  if (words.length !== WORDS) {
    return refusePhrase('word_count', `A recovery phrase needs ${WORDS} words; there are ${words.length}.`, {
      count: words.length,
    });
  }
  for (const [index, word] of words.entries()) {
    if (known.has(word)) continue;
    const position = index + 1;
    const shown = word.slice(0, 16);
    const suggestions = similar(word);
    const hint = suggestions.length > 0 ? ` Perhaps ${suggestions.join(', ')}?` : '';
    const words24 = `Word ${position}, "${shown}", is not in the BIP-39 English list.${hint}`;
    return refusePhrase('unknown_word', words24, { position, word: shown, suggestions });
  }
  try {
    return Buffer.from(mnemonicToEntropy(words.join(' '), list), 'hex');
  } catch {
    return refusePhrase(
      'checksum',
      'Every word is known, but the checksum is wrong: a word is another one, or two changed places.',
    );
  }
}

function split(text: string): string[] {
  return text
    .normalize('NFKD')
    .replace(/\u200c|\u200d|\u2060|\ufeff|\u00ad/g, '')
    .replace(/\u200b/g, ' ')
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
}

/** At most three words of the list that were probably meant. */
function similar(word: string): string[] {
  if (word.length > 16) return [];
  return list
    .map((candidate) => ({
      candidate,
      far: distance(word, candidate) - (candidate.startsWith(word.slice(0, 4)) ? 1 : 0),
    }))
    .filter(({ far }) => far <= 2)
    .sort((a, b) => a.far - b.far)
    .slice(0, 3)
    .map(({ candidate }) => candidate);
}

/** Edit distance with neighbours swapped counted once (optimal string alignment). */
function distance(a: string, b: string): number {
  let before: number[] = [];
  let above = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let best = Math.min(row[j - 1]! + 1, above[j]! + 1, above[j - 1]! + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) best = Math.min(best, before[j - 2]! + 1);
      row.push(best);
    }
    before = above;
    above = row;
  }
  return above[b.length]!;
}

function refusePhrase(reason: string, words: string, data: Record<string, unknown> = {}): Refusal {
  return refuse('invalid_field', words, { data: { field: 'phrase', reason, ...data } });
}
