import type { Envelope } from '../../exchange/message.ts';
import type { ChatMessage } from '../dialects/types.ts';
import type { SaidRow } from './store.ts';

/** confer-wire-facts §3: the last 20 messages. */
export const historyMessages = 20;
const mostCharacters = 32_000;

/** What was said, as the model reads it: the newest that fit, beginning with the asker. */
export function historyOf(rows: readonly SaidRow[]): ChatMessage[] {
  const messages: ChatMessage[] = [];
  let left = mostCharacters;
  for (const { isAnswer, envelope } of [...rows].reverse()) {
    const text = textOf((JSON.parse(envelope) as Envelope).body) ?? '';
    left -= text.length;
    if (left < 0) break;
    if (text !== '') messages.unshift({ role: isAnswer ? 'assistant' : 'user', text });
  }
  while (messages[0]?.role === 'assistant') messages.shift();
  return messages;
}

/** What a body says as text; null when it is sealed. */
export function textOf({ text, data, enc }: Envelope['body']): string | null {
  if (enc !== undefined) return null;
  return text ?? (data === undefined ? '' : JSON.stringify(data));
}
