/**
 * The load generator: closed loop over raw keep-alive sockets, one request of each at a time, in a thread of its own. It takes requests that are
 * bytes already, so that neither signing nor an HTTP client is measured.
 */
import { connect, type Socket } from 'node:net';
import { parentPort } from 'node:worker_threads';

export interface Order {
  port: number;
  connections: number;
  /** All requests, one behind the other, and where each ends. */
  bytes: Uint8Array;
  ends: Uint32Array;
}

export interface Done {
  /** Milliseconds from the first byte sent to the last answer. */
  elapsed: number;
  /** Milliseconds of each request. */
  latencies: Float64Array;
  /** Answers that were not 2xx, or that were JSON-RPC errors; the first of them. */
  failures: number;
  firstFailure: string | null;
}

const endOfHead = Buffer.from('\r\n\r\n');

parentPort!.on('message', (order: Order) => {
  run(order).then(
    (done) => parentPort!.postMessage({ done }, [done.latencies.buffer as ArrayBuffer]),
    (error: unknown) => parentPort!.postMessage({ error: String(error) }),
  );
});

async function run({ port, connections, bytes, ends }: Order): Promise<Done> {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const latencies = new Float64Array(ends.length);
  let next = 0;
  let failures = 0;
  let firstFailure: string | null = null;
  const sockets = await Promise.all(Array.from({ length: connections }, () => open(port)));
  const began = performance.now();
  await Promise.all(
    sockets.map(
      (socket) =>
        new Promise<void>((resolve, reject) => {
          let mine = -1;
          let sentAt = 0;
          let kept: Buffer | undefined;
          const send = (): void => {
            mine = next++;
            if (mine >= ends.length) {
              socket.destroy();
              resolve();
              return;
            }
            sentAt = performance.now();
            socket.write(all.subarray(mine === 0 ? 0 : ends[mine - 1]!, ends[mine]!));
          };
          socket.on('data', (chunk) => {
            const got = kept ? Buffer.concat([kept, chunk]) : chunk;
            const size = sizeOf(got);
            if (size === undefined || got.length < size) {
              kept = got;
              return;
            }
            kept = undefined;
            latencies[mine] = performance.now() - sentAt;
            const isGood = got[9] === 0x32 && !got.includes('"error"');
            if (!isGood) {
              failures++;
              firstFailure ??= got.toString('utf8', 0, 1_000);
            }
            send();
          });
          socket.on('error', reject);
          socket.on('close', () => mine < ends.length && reject(new Error('the server closed a connection')));
          send();
        }),
    ),
  );
  return { elapsed: performance.now() - began, latencies, failures, firstFailure };
}

/** Bytes of the answer that begins here, or undefined while its head is not whole. Answers here have a length; chunks are not expected. */
function sizeOf(answer: Buffer): number | undefined {
  const head = answer.indexOf(endOfHead);
  if (head < 0) return undefined;
  const length = /\r\ncontent-length: *(\d+)/i.exec(answer.toString('latin1', 0, head));
  if (!length) throw new Error(`an answer without a length: ${answer.toString('latin1', 0, head)}`);
  return head + 4 + Number(length[1]);
}

function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true }, () => {
      socket.off('error', reject);
      resolve(socket);
    });
    socket.once('error', reject);
  });
}
