import { GatehouseError, NoAnswerError } from '../client/errors.ts';
import { openSession } from './home.ts';

const timeoutMs = 70_000;

/** A call of `/api/v1` with this machine's token; a Buffer is sent as text. Throws what calls of the client throw. */
export async function callOwnerApi<T>(
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  path: string,
  body?: object | Buffer,
): Promise<T> {
  const { login } = await openSession();
  const url = `${login.url.replace(/\/+$/, '')}/api/v1${path}`;
  let response: Response;
  let text: string;
  try {
    response = await fetch(url, {
      method,
      headers: { authorization: `Bearer ${login.token}`, ...(body && { 'content-type': typeOf(body) }) },
      ...(body && { body: Buffer.isBuffer(body) ? new Uint8Array(body) : JSON.stringify(body) }),
      redirect: 'error',
      signal: AbortSignal.timeout(timeoutMs),
    });
    text = await response.text();
  } catch (cause) {
    throw new NoAnswerError(`no answer from ${login.url}`, { cause });
  }
  const json = read(text);
  if (response.ok) return json as T;
  const { code, message, details } =
    (json as { error?: { code?: string; message?: string; details?: unknown } }).error ?? {};
  const words = details === undefined ? message : `${message}: ${JSON.stringify(details)}`;
  throw new GatehouseError(response.status, { error: words, code }, response.headers.get('retry-after') ?? undefined);
}

function typeOf(body: object): string {
  return Buffer.isBuffer(body) ? 'text/plain; charset=utf-8' : 'application/json';
}

function read(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
