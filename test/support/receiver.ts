import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Lifetime } from './database.ts';

export interface Arrived {
  path: string;
  headers: IncomingHttpHeaders;
  /** The very bytes. */
  body: Buffer;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into envelopes
  json: any;
}

export interface Receiver {
  readonly url: string;
  readonly arrived: Arrived[];
  /** What it does with the next requests: a status, or the answer written by hand. Default 200. */
  answer: (arrived: Arrived, response: ServerResponse) => number | undefined | Promise<number | undefined>;
  /** Refuses connections from now on. */
  down(): Promise<void>;
  /** On the same port again. */
  up(): Promise<void>;
}

/** Somebody's webhook on loopback. */
export async function receiver(lifetime: Lifetime): Promise<Receiver> {
  const arrived: Arrived[] = [];
  let server: Server;
  let port = 0;
  const up = (): Promise<void> => {
    server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const body = Buffer.concat(chunks);
        const one = { path: request.url ?? '', headers: request.headers, body, json: JSON.parse(body.toString()) };
        arrived.push(one);
        void (async () => {
          const status = await self.answer(one, response);
          if (status !== undefined) response.writeHead(status).end('thank you');
        })();
      });
    });
    return new Promise((resolve) => server.listen(port, '127.0.0.1', () => resolve()));
  };
  const down = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  const self: Receiver = { url: '', arrived, answer: () => 200, down, up };
  await up();
  port = (server!.address() as AddressInfo).port;
  lifetime.after(async () => {
    if (server.listening) await down();
  });
  return Object.assign(self, { url: `http://localhost:${port}/hook` });
}

/** REDSYN's own task `genuine`, line by line. `now`: milliseconds. */
export function genuine({ headers, body }: Arrived, key: string, now: number): boolean {
  const parts = Object.fromEntries(
    String(headers['redsyn-signature'])
      .split(',')
      .map((part) => part.split('=') as [string, string]),
  );
  if (!parts.t || !parts.v1) return false;
  if (Math.abs(now / 1000 - Number(parts.t)) > 300) return false;
  const expected = createHmac('sha256', key).update(`${parts.t}.${body.toString()}`).digest('hex');
  return parts.v1.length === expected.length && timingSafeEqual(Buffer.from(parts.v1), Buffer.from(expected));
}
