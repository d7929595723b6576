import { z } from 'zod';
import type { Body } from '../../exchange/message.ts';
import { turnFailure } from '../../exchange/state.ts';
import type { HttpRequest } from '../../lib/http.ts';
import { readJson } from '../../lib/json.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { type Faults, invalidData } from './errors.ts';

/** confer-wire-facts §3. */
const maxThread = 128;
const maxDid = 600;
/** What a body of the core holds, measured on its content (REDSYN "El sobre"). */
const maxContent = 64 * 1024;

const did = z
  .string('must be a text')
  .max(maxDid, `has more than ${maxDid} characters`)
  .refine((text) => text.startsWith('did:'), 'must be a DID');
const thread = z.string('must be a text').min(1, 'is empty').max(maxThread, `has more than ${maxThread} characters`);

const bytes = (most: number) =>
  [(text: string) => Buffer.byteLength(text) <= most, `has more than ${most} bytes`] as const;

const message = z.object({
  type: z.enum(['question', 'answer', 'notification'], 'must be question, answer or notification'),
  content: z.string('must be a text').refine(...bytes(maxContent)),
  language: z.string('must be a text').max(35, 'has more than 35 characters').nullish(),
  context: z
    .record(z.string(), z.unknown(), 'must be an object')
    .refine((value) => Buffer.byteLength(JSON.stringify(value)) <= maxContent, `has more than ${maxContent} bytes`)
    .nullish(),
});

const messageRequest = z.object({ from: did, to: did, thread_id: thread.nullish(), message });
const threadRequest = z.object({ from: did, to: did, thread_id: thread.nullish() });

export type MessageRequest = z.infer<typeof messageRequest>;
export type ThreadRequest = z.infer<typeof threadRequest>;

export const readMessageRequest = (request: HttpRequest): MessageRequest | Refusal => readWith(messageRequest, request);
export const readThreadRequest = (request: HttpRequest): ThreadRequest | Refusal => readWith(threadRequest, request);

/** Unknown fields are left out; every field that is wrong is named. Refusals: `validation_error`, `unsupported_media_type`. */
export function readWith<T>(schema: z.ZodType<T>, { headers, body }: HttpRequest): T | Refusal {
  const type = headers.get('content-type');
  if (type !== undefined && !/^application\/(?:[a-z0-9.+-]+\+)?json\s*(?:;|$)/i.test(type))
    return refuse('unsupported_media_type');
  const parsed = readJson(body);
  if (parsed instanceof Refusal) return parsed;
  const result = schema.safeParse(parsed.value);
  if (result.success) return result.data;
  const faults: Record<string, string[]> = {};
  for (const issue of result.error.issues) {
    const field = issue.path.join('.') || 'body';
    faults[field] = [...(faults[field] ?? []), issue.message];
  }
  return invalidData(faults satisfies Faults);
}

/** What is said, as the core has it: a question asks, an answer answers, a notification tells, and with `context.error` it tells of a failure. */
export function coreOf({ message: { type, content, language, context } }: MessageRequest): {
  kind: 'request' | 'progress' | 'reply';
  body: Body;
  error?: true;
} {
  const error = type === 'notification' ? context?.error : undefined;
  const body = {
    type: 'text/plain',
    text: content,
    ...(language != null && { language }),
    ...(context != null && { context }),
    ...(typeof error === 'string' && { data: { error: turnFailure(error) } }),
  };
  if (type === 'question') return { kind: 'request', body };
  if (type === 'answer') return { kind: 'reply', body };
  return typeof error === 'string' ? { kind: 'reply', body, error: true } : { kind: 'progress', body };
}
