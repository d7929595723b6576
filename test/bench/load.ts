import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { Done } from './load-worker.ts';

/** Sends each request once over `connections` sockets, and measures. */
export class Load {
  readonly #worker = new Worker(new URL('./load-worker.js', import.meta.url));

  async run(port: number, connections: number, requests: readonly Buffer[]): Promise<Done> {
    const bytes = Buffer.concat(requests);
    const ends = new Uint32Array(requests.length);
    let end = 0;
    for (const [i, request] of requests.entries()) {
      end += request.length;
      ends[i] = end;
    }
    this.#worker.postMessage({ port, connections, bytes, ends });
    const [{ done, error }] = (await once(this.#worker, 'message')) as [{ done?: Done; error?: string }];
    if (!done) throw new Error(error);
    return done;
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }
}

/** A POST with these headers as bytes for the wire. */
export function post(
  authority: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  body: string | Buffer,
): Buffer {
  const bytes = Buffer.from(body as string);
  const lines = [`POST ${path} HTTP/1.1`, `Host: ${authority}`, 'Content-Type: application/json'];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  lines.push(`Content-Length: ${bytes.length}`, '', '');
  return Buffer.concat([Buffer.from(lines.join('\r\n')), bytes]);
}
