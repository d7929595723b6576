import type { BareItem } from 'structured-headers';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { type Component, componentValue, identityOf, type Message } from './components.ts';
import type { FieldType } from './fields.ts';

/**
 * The bytes that are signed (RFC 9421 §2.5): a line per component and the signature parameters as they were received, LF between, none at
 * the end. `parameters` is the text after `label=` in Signature-Input.
 */
export function signatureBase(
  components: readonly Component[],
  parameters: string,
  message: Message,
  fieldTypes?: Readonly<Record<string, FieldType>>,
): Buffer | Refusal {
  const lines: string[] = [];
  const seen = new Set<string>();
  for (const component of components) {
    const identity = identityOf([component.name, component.parameters as Map<string, BareItem>]);
    if (seen.has(identity)) return refuse('signature_malformed', `${component.id} is covered twice.`);
    seen.add(identity);
    const value = componentValue(component, message, fieldTypes);
    if (value instanceof Refusal) return value;
    lines.push(`${component.id}: ${value}`);
  }
  lines.push(`"@signature-params": ${parameters}`);
  // A line break in a value could forge a line; other characters have no one encoding.
  if (!lines.every((line) => /^[\t\x20-\x7e]*$/.test(line))) {
    return refuse('signature_malformed', 'A covered component holds characters that cannot be signed.');
  }
  return Buffer.from(lines.join('\n'), 'ascii');
}
