/**
 * Words as they are searched: in lower case, without accents, so that a question meets a text in whatever way both were written. Runs of Chinese, Japanese
 * and Korean, which have no blanks, are pairs of characters.
 */
const word = /[\p{L}\p{N}]+/gu;
const run = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]+/gu;
const longestWord = 40;
/** A question is its first words. */
const mostAsked = 24;
/** In nearly every sentence of the languages that are asked most: they find everything. */
const common = new Set(
  `a an and are as at be by can do does for from has have how i in is it me my of on or our that the this to us was we what when where which who why will with you your
   al como con cual cuando de del el ella en es esta este hay la las lo los me mi nos o para pero por que se si sin su sus te tu un una y
   au aux ce ces dans des du est et il je le les mon ne nous ou pas pour qui sur une vous
   das dem den der die ein eine er es ich im ist mit nicht und von was wer wie wir zu`.split(/\s+/),
);

export function wordsOf(text: string): string[] {
  const plain = text.normalize('NFKD').replace(/\p{M}/gu, '').normalize('NFKC').toLowerCase();
  const spaced = plain.replace(run, (characters) => ` ${pairs([...characters]).join(' ')} `);
  return (spaced.match(word) ?? []).map((each) => each.slice(0, longestWord));
}

/** What `to_tsquery('simple', …)` takes: any of the question's words, longer ones also as the beginning of others. '' when it has none. */
export function queryOf(question: string): string {
  const all = [...new Set(wordsOf(question))];
  const telling = all.filter((each) => !common.has(each));
  return (telling.length > 0 ? telling : all)
    .slice(0, mostAsked)
    .map((each) => (each.length < 4 ? each : `${each.replace(/(?<=\p{L}{3})s$/u, '')}:*`))
    .join(' | ');
}

function pairs(characters: string[]): string[] {
  return characters.length < 2 ? characters : characters.slice(1).map((second, i) => characters[i]! + second);
}
