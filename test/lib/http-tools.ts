import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { HttpResponse, RenderRefusal, Route } from '../../src/lib/http.ts';
import { createLog } from '../../src/lib/log.ts';
import type { Front, FrontOptions } from '../../src/wires/front.ts';
import { createFront } from '../../src/wires/front.ts';

export const json = (status: number, value: unknown): HttpResponse => ({
  status,
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(value),
});

/** Says the code, and which renderer spoke. */
export const renderer =
  (name: string): RenderRefusal =>
  (refusal) =>
    json(refusal.status, { by: name, code: refusal.code, words: refusal.words, ...refusal.data });

export interface TestFront extends Front {
  readonly port: number;
  readonly url: string;
  /** Lines of the log. */
  readonly lines: string[];
}

export async function startFront(routes: readonly Route[], options: Partial<FrontOptions> = {}): Promise<TestFront> {
  const lines: string[] = [];
  const front = createFront({
    routes,
    renderers: { '/': renderer('root') },
    trustProxy: [],
    scheme: 'http',
    requestId: () => 'request-7',
    log: createLog({ level: 'info', destination: { write: (line) => void lines.push(line) } }),
    ...options,
  });
  await new Promise<void>((resolve) => front.server.listen(0, '127.0.0.1', resolve));
  const { port } = front.server.address() as AddressInfo;
  return { server: front.server, close: (ms) => front.close(ms), port, url: `http://127.0.0.1:${port}`, lines };
}

/** Sends bytes as they are and gives all that comes back until the server closes. */
export function exchange(port: number, text: string | Buffer): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(text));
    let answer = '';
    socket.setEncoding('latin1').on('data', (chunk) => {
      answer += chunk;
    });
    socket.on('close', () => resolve(answer)).on('error', reject);
  });
}

/** One request with the given lines, closed after its answer. */
export function lines(port: number, ...head: string[]): Promise<string> {
  return exchange(port, Buffer.from(`${[...head, 'Connection: close'].join('\r\n')}\r\n\r\n`));
}

export const statusOf = (answer: string): number => Number(/^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1]);

export const bodyOf = (answer: string): Record<string, unknown> =>
  JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4));

/** Resolves when the connection has ended, well or badly. */
export const closed = (socket: Socket): Promise<void> =>
  new Promise((resolve) => socket.once('close', () => resolve()));

/** A connection whose arriving bytes can be waited for. */
export async function dial(port: number): Promise<{ socket: Socket; until: (part: string) => Promise<string> }> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  let got = '';
  const waiting = new Set<() => void>();
  const settle = (): void => {
    for (const check of waiting) check();
  };
  socket.setEncoding('latin1').on('data', (chunk) => {
    got += chunk;
    settle();
  });
  socket.on('close', settle);
  await once(socket, 'connect');
  const until = (part: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const check = (): void => {
        if (!got.includes(part) && !socket.destroyed) return;
        waiting.delete(check);
        if (got.includes(part)) resolve(got);
        else reject(new Error(`closed before ${part}; got ${got}`));
      };
      waiting.add(check);
      check();
    });
  return { socket, until };
}
