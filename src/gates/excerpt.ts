/** What an owner is shown of a message before she decides: 500 UTF-16 units, whole characters, no NUL. */
export function excerpt(body: { type: string; text?: string }): string {
  const text = body.text ?? `(${body.type.slice(0, 100)})`;
  // A half of a surrogate pair at the cut becomes U+FFFD: PostgreSQL's text takes neither it nor a NUL.
  return Buffer.from(text.slice(0, 500)).toString().replaceAll('\0', '');
}
