/**
 * Words of somebody else in a form that may be kept, logged and shown: on one line, bounded, without control characters (PostgreSQL has no
 * place for a NUL, a terminal obeys an escape) and without halves of surrogate pairs.
 */
export function foreignText(text: unknown, most: number): string {
  if (typeof text !== 'string') return '';
  return text
    .slice(0, most)
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Surrogate}]+/gu, ' ')
    .trim();
}
