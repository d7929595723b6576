import { a2aBodyType } from '../../exchange/a2a-body.ts';
import type { Body, Envelope } from '../../exchange/message.ts';
import { turnFailure } from '../../exchange/state.ts';
import type { ExchangeState } from '../../exchange/types.ts';

/** Where an answer comes from (confer.md "Respuesta en flujo"). */
export interface Citation {
  source: string;
  url?: string;
}

const mostCitations = 64;
const mostSource = 500;

/** What a body says, as the one text that Confer's messages have. */
export function contentOf(body: Body): string {
  if (body.enc !== undefined) return 'This message is end-to-end encrypted.';
  if (body.type === a2aBodyType) {
    const texts = textsOf(body.data);
    if (texts.length > 0) return texts.join('\n');
  }
  if (typeof body.text === 'string') return body.text;
  return body.data === undefined ? '' : JSON.stringify(body.data);
}

/** The texts of the parts of an A2A body, in the order in which A2A shows them. */
function textsOf(data: unknown): string[] {
  if (!isRecord(data)) return [];
  const artifacts = Array.isArray(data.artifacts) ? data.artifacts : [];
  const status = isRecord(data.status) ? data.status.message : undefined;
  return [data.message, status, ...artifacts].flatMap((holder) =>
    isRecord(holder) && Array.isArray(holder.parts)
      ? holder.parts.flatMap((part: unknown) => {
          if (!isRecord(part)) return [];
          return typeof part.text === 'string'
            ? [part.text]
            : part.data === undefined
              ? []
              : [JSON.stringify(part.data)];
        })
      : [],
  );
}

/** `body.data.citations` of an answer, `body.data.citation` of a progress. What has no source is none. */
export function citationsOf({ data }: Body): Citation[] {
  if (!isRecord(data)) return [];
  const list: unknown[] = Array.isArray(data.citations)
    ? data.citations
    : data.citation === undefined
      ? []
      : [data.citation];
  return list.slice(0, mostCitations).flatMap((item) => {
    if (!isRecord(item) || typeof item.source !== 'string' || item.source === '') return [];
    const { source, url } = item;
    return [{ source: source.slice(0, mostSource), ...(typeof url === 'string' && url.length <= 2_000 && { url }) }];
  });
}

/**
 * The partial text of a progress: `body.data.token`, else the text of one that says nothing else (design §1: progress is `token`). Null for a citation
 * and a question.
 */
export function tokenOf({ body }: Envelope): string | null {
  const { data, text } = body;
  if (isRecord(data)) {
    if (typeof data.token === 'string') return data.token;
    if ('citation' in data || 'question' in data || body.type === a2aBodyType) return null;
  }
  return typeof text === 'string' && text !== '' ? text : null;
}

/** What a progress asks its asker. */
export function questionOf(body: Body): string {
  const question = isRecord(body.data) ? body.data.question : undefined;
  return typeof question === 'string' ? question : contentOf(body);
}

/** The code of a failed end as Confer has them; null for what has not failed. Nothing that nobody will answer stays pending. */
export function failureOf(state: ExchangeState, reason: string | null): string | null {
  switch (state) {
    case 'failed':
      return turnFailure(reason);
    case 'rejected':
      return 'policy_denied';
    case 'canceled':
      return 'canceled';
    default:
      return null;
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
