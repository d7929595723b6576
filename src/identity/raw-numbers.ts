import { RawNumber } from './canonical.ts';

// A string, or a number with its spelling: whatever stands between them can be neither.
const token = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const mark = '\u0000number';

/**
 * JSON that `readJson` has passed, with every number as a `RawNumber`, so that `pythonJson` gives back the bytes that a signer signed
 * (muretai-wire-facts §1). The mark is a key that no JSON without U+0000 has; a text that has it is the caller's to refuse.
 */
export function withRawNumbers(text: string): unknown {
  const marked = text.replace(token, (found) => (found.startsWith('"') ? found : `{"\\u0000number":"${found}"}`));
  return JSON.parse(marked, (_key, value: unknown) => {
    const number = (value as Record<string, unknown> | null)?.[mark];
    return typeof number === 'string' ? new RawNumber(number) : value;
  });
}

/** The value of such a number; undefined for anything else. */
export function numberOf(value: unknown): number | undefined {
  return value instanceof RawNumber ? Number(value.token) : undefined;
}
