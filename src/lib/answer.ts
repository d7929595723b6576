import type { ServerResponse } from 'node:http';
import type { HttpResponse } from './http.ts';

export interface AnswerOptions {
  /** Of the request: HEAD gets the headers alone (RFC 9110 §9.3.2). */
  readonly method: string;
  readonly gone: AbortSignal;
  /** Takes what `written` throws. */
  readonly onFault: (error: unknown) => void;
  /** Waited for between the last byte of the answer and the end of the connection. */
  readonly linger?: () => Promise<void>;
}

/** What `write` of a streamed answer rejects with. */
export class CallerGone extends Error {
  override readonly name = 'CallerGone';

  constructor() {
    super('the caller went away');
  }
}

/**
 * Writes an answer and calls its `written` exactly once (REL-01): true only when all of it was handed to a live connection. After HEAD it
 * is false: what the handler set aside for the caller did not get there. Rejects, with nothing written, when the headers are not valid
 * HTTP, and when `stream` throws though the caller is still there.
 */
export async function sendAnswer(
  response: ServerResponse,
  answer: HttpResponse,
  options: AnswerOptions,
): Promise<void> {
  const { gone } = options;
  let told = false;
  const tell = (ok: boolean): void => {
    if (told) return;
    told = true;
    try {
      answer.written?.(ok);
    } catch (error) {
      options.onFault(error);
    }
  };
  if (gone.aborted || response.destroyed) return tell(false);

  const bodiless = options.method === 'HEAD';
  try {
    response.writeHead(answer.status, { ...answer.headers, ...lengthOf(answer) });
  } catch (error) {
    tell(false);
    throw error;
  }
  const socket = response.socket;
  // node emits 'finish' also when the last write failed.
  response.once('finish', () => tell(!bodiless && !gone.aborted && socket?.destroyed === false));
  gone.addEventListener('abort', () => tell(false), { once: true });

  if (answer.stream && !bodiless) {
    response.flushHeaders();
    try {
      await answer.stream((chunk) => writeChunk(response, chunk, gone), gone);
    } catch (error) {
      // An end without the last chunk tells the caller that something is missing.
      response.destroy();
      if (!gone.aborted && !(error instanceof CallerGone)) throw error;
    }
    response.end();
    return;
  }
  const body = bodiless ? undefined : answer.body;
  if (!options.linger) {
    response.end(body);
    return;
  }
  if (body === undefined) response.flushHeaders();
  else response.write(body);
  await options.linger();
  response.end();
}

function lengthOf({ status, body, stream }: HttpResponse): Record<string, number> {
  if (stream || status === 204 || status === 304) return {};
  return { 'content-length': body === undefined ? 0 : Buffer.byteLength(body) };
}

function writeChunk(response: ServerResponse, chunk: string, gone: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (gone.aborted || response.destroyed) return reject(new CallerGone());
    if (response.write(chunk)) return resolve();
    const onDrain = (): void => {
      gone.removeEventListener('abort', onGone);
      resolve();
    };
    const onGone = (): void => {
      response.off('drain', onDrain);
      reject(new CallerGone());
    };
    response.once('drain', onDrain);
    gone.addEventListener('abort', onGone, { once: true });
  });
}
