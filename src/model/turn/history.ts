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
    const text = textOf(JSON.parse(envelope) as Envelope) ?? '';
    left -= text.length;
    if (left < 0) break;
    if (text !== '') messages.unshift({ role: isAnswer ? 'assistant' : 'user', text });
  }
  while (messages[0]?.role === 'assistant') messages.shift();
  return messages;
}

/** What a message says as text; null when it is sealed. Of files the model is told that they came: it cannot open them. */
export function textOf({ body, files }: Pick<Envelope, 'body' | 'files'>): string | null {
  const { text, data, enc } = body;
  if (enc !== undefined) return null;
  const said = text ?? (data === undefined ? '' : JSON.stringify(data));
  return files ? `${said}\n\n(Files came with it, ${files.bytes} bytes, which you cannot open.)` : said;
}
