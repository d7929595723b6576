import type { IncomingMessage } from 'node:http';
import type { Clock } from './clock.ts';
import { type Refusal, refuse } from './refusal.ts';

export interface BodyLimits {
  readonly maxBytes: number;
  /** For the whole body. */
  readonly timeoutMs: number;
  readonly clock: Clock;
}

const nothing = Buffer.alloc(0);

export function hasBody(message: IncomingMessage): boolean {
  const length = message.headers['content-length'];
  return message.headers['transfer-encoding'] !== undefined || (length !== undefined && Number(length) > 0);
}

/**
 * The bytes of the body as they came. Refused: `payload_too_large` (without reading on), and `malformed_request` with status 408 when the
 * body is too slow. Undefined when the caller went away first.
 */
export function readBody(message: IncomingMessage, limits: BodyLimits): Promise<Buffer | Refusal | undefined> {
  if (!hasBody(message)) return Promise.resolve(nothing);
  if (Number(message.headers['content-length'] ?? 0) > limits.maxBytes)
    return Promise.resolve(tooLarge(limits.maxBytes));
  const chunks: Buffer[] = [];
  let size = 0;
  let refusal: Refusal | undefined;
  return consume(message, limits, (chunk) => {
    size += chunk.length;
    if (size > limits.maxBytes) refusal = tooLarge(limits.maxBytes);
    else chunks.push(chunk);
    return refusal === undefined;
  }).then((end) => {
    if (end === 'late') return refuse('malformed_request', 'The body did not arrive in time.', { status: 408 });
    if (end === 'gone') return undefined;
    return refusal ?? (chunks.length === 1 ? chunks[0] : Buffer.concat(chunks, size));
  });
}

/** Reads and forgets what is still under way, so that a caller who is still sending sees our answer and not a reset connection. Bounded. */
export async function discardBody(message: IncomingMessage, limits: BodyLimits): Promise<void> {
  let size = 0;
  await consume(message, limits, (chunk) => {
    size += chunk.length;
    return size <= limits.maxBytes;
  });
}

function tooLarge(maxBytes: number): Refusal {
  return refuse('payload_too_large', `The body is larger than the ${maxBytes} bytes that this call takes.`, {
    data: { limit: maxBytes },
  });
}

/** Feeds chunks to `take` until it has enough (false), the body ends, time is up, or the caller is gone. Leaves the message paused. */
function consume(
  message: IncomingMessage,
  { timeoutMs, clock }: BodyLimits,
  take: (chunk: Buffer) => boolean,
): Promise<'end' | 'enough' | 'late' | 'gone'> {
  return new Promise((resolve) => {
    if (message.readableEnded) return resolve('end');
    if (message.destroyed) return resolve('gone');
    const cancel = clock.after(timeoutMs, () => stop('late'));
    const onData = (chunk: Buffer): void => {
      if (!take(chunk)) stop('enough');
    };
    const onEnd = (): void => stop('end');
    const onGone = (): void => stop('gone');
    const stop = (why: 'end' | 'enough' | 'late' | 'gone'): void => {
      cancel();
      message.off('data', onData).off('end', onEnd).off('close', onGone).pause();
      resolve(why);
    };
    // The listener for errors stays: a reset that comes later must not end the process.
    message.on('data', onData).on('end', onEnd).on('close', onGone).on('error', onGone).resume();
  });
}
