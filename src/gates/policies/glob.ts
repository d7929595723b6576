/** Characters of a pattern, and wildcards in it. Matching costs (pattern × text) at most, whatever either holds. */
export const maxPattern = 300;
export const maxWildcards = 16;

type Token = { readonly kind: 'char'; readonly char: string } | { readonly kind: 'one' | 'star' | 'globstar' };

/**
 * Whether `text` is of the form `pattern`: `?` is one character and `*` any number of them, neither of them a slash; `**` is anything. A wildcard
 * segment at an edge may be missing: `a/**` is also `a`, `technical:*` also `technical`. No regular expression: all states are walked at once, so
 * nothing backtracks.
 */
export function matches(pattern: string, text: string): boolean {
  const variants = [pattern, ...shorter(pattern)];
  return variants.some((variant) => run(tokens(variant), text));
}

/** The same pattern where a wildcard at its edge stands for nothing at all, its separator included. */
function shorter(pattern: string): string[] {
  const tail = /[/:]\*{1,2}$/.exec(pattern);
  const withoutTail = tail ? pattern.slice(0, tail.index) : null;
  const heads = (one: string): string[] => (one.startsWith('**/') ? [one.slice(3)] : []);
  return [
    ...heads(pattern),
    ...(withoutTail === null || withoutTail === '' ? [] : [withoutTail, ...heads(withoutTail)]),
  ];
}

function tokens(pattern: string): Token[] {
  const list: Token[] = [];
  const characters = [...pattern];
  for (let i = 0; i < characters.length; i++) {
    const char = characters[i]!;
    if (char === '?') list.push({ kind: 'one' });
    else if (char !== '*') list.push({ kind: 'char', char });
    else if (characters[i + 1] !== '*') list.push({ kind: 'star' });
    else {
      while (characters[i + 1] === '*') i++;
      list.push({ kind: 'globstar' });
    }
  }
  return list;
}

function run(pattern: readonly Token[], text: string): boolean {
  let states = settled(new Set([0]), pattern);
  for (const char of text) {
    const next = new Set<number>();
    for (const at of states) {
      const token = pattern[at];
      if (!token) continue;
      if (token.kind === 'globstar' || (token.kind === 'star' && char !== '/')) next.add(at);
      if ((token.kind === 'one' && char !== '/') || (token.kind === 'char' && token.char === char)) next.add(at + 1);
    }
    if (next.size === 0) return false;
    states = settled(next, pattern);
  }
  return states.has(pattern.length);
}

/** Stars also stand for nothing. */
function settled(states: Set<number>, pattern: readonly Token[]): Set<number> {
  for (const at of states) {
    const kind = pattern[at]?.kind;
    if (kind === 'star' || kind === 'globstar') states.add(at + 1);
  }
  return states;
}
