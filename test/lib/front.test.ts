import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import supertest from 'supertest';
import { CallerGone } from '../../src/lib/answer.ts';
import { ManualClock } from '../../src/lib/clock.ts';
import type { Handler, HttpRequest, HttpResponse, Route } from '../../src/lib/http.ts';
import type { FrontOptions } from '../../src/wires/front.ts';
import {
  bodyOf,
  closed,
  dial,
  exchange,
  json,
  lines,
  renderer,
  startFront,
  statusOf,
  type TestFront,
} from './http-tools.ts';

const fronts: TestFront[] = [];
after(() => Promise.all(fronts.map((front) => front.close(0))));

async function start(routes: readonly Route[], options: Partial<FrontOptions> = {}): Promise<TestFront> {
  const front = await startFront(routes, options);
  fronts.push(front);
  return front;
}

/** The same route on both ways through the front. */
const bothWays = (method: Route['method'], path: string, handler: Handler, more: Partial<Route> = {}): Route[] => [
  { method, path: `/hot${path}`, handler, hot: true, ...more },
  { method, path: `/cold${path}`, handler, ...more },
];

/** A promise and the function that resolves it. */
function signal<T = void>(): { happened: Promise<T>; happen: (value: T) => void } {
  let happen!: (value: T) => void;
  const happened = new Promise<T>((resolve) => {
    happen = resolve;
  });
  return { happened, happen };
}

test('both ways see the same request and write the same answer', async () => {
  const { url } = await start(
    bothWays('POST', '/{name}/x', async ({ method, params, search, body, headers }) =>
      json(201, {
        method,
        params,
        search,
        body: body.toString(),
        agent: headers.get('X-Agent'),
        all: headers.all('x-two'),
      }),
    ),
  );
  for (const way of ['hot', 'cold']) {
    const answer = await supertest(url)
      .post(`/${way}/a%2Fb/x?q=%20`)
      .set('x-agent', 'me')
      .set('x-two', '2')
      .type('text')
      .send('é');
    assert.equal(answer.status, 201);
    const expected = { method: 'POST', params: { name: 'a/b' }, search: '?q=%20', body: 'é', agent: 'me', all: ['2'] };
    assert.deepEqual(answer.body, expected);
    assert.equal(answer.headers['content-length'], String(Buffer.byteLength(answer.text)));
    assert.equal(answer.headers['x-powered-by'], undefined);
    assert.equal(answer.headers['x-request-id'], undefined);
  }
});

test('an unknown path is refused by the renderer of the longest prefix', async () => {
  const { url } = await start([], {
    renderers: { '/': renderer('root'), '/a2a/v1': renderer('a2a'), '/a2a/v1/messages': renderer('confer') },
  });
  for (const [path, by] of [
    ['/', 'root'],
    ['/a2a/v1', 'a2a'],
    ['/a2a/v1/x', 'a2a'],
    ['/a2a/v1x', 'root'],
    ['/a2a/v1/messages/7', 'confer'],
    ['/a2a/v1/messages', 'confer'],
  ]) {
    const answer = await supertest(url).get(path!);
    assert.equal(answer.status, 404);
    assert.equal(answer.body.by, by, path);
    assert.equal(answer.body.code, 'not_found');
  }
});

test('another method is 405 with Allow; OPTIONS tells; HEAD is GET without its body', async () => {
  const told: boolean[] = [];
  const handler: Handler = async ({ method }) => ({ ...json(200, { method }), written: (ok) => void told.push(ok) });
  const { url } = await start([...bothWays('GET', '', handler), ...bothWays('DELETE', '', handler)]);
  for (const way of ['/hot', '/cold']) {
    const wrong = await supertest(url).put(way).send('x');
    assert.equal(wrong.status, 405);
    assert.equal(wrong.headers.allow, 'GET, DELETE, HEAD, OPTIONS');
    assert.equal(wrong.body.code, 'method_not_allowed');
    const options = await supertest(url).options(way);
    assert.deepEqual([options.status, options.headers.allow], [204, 'GET, DELETE, HEAD, OPTIONS']);
    assert.equal((await supertest(url).options('/nowhere')).status, 404);
    const head = await supertest(url).head(way);
    assert.deepEqual([head.status, head.text], [200, undefined]);
    assert.equal(head.headers['content-length'], '17');
  }
  assert.deepEqual(told, [false, false], 'a caller of HEAD got nothing that could be acked');
});

test('a handler that throws is a 500 with the number that the log has, and nothing else', async () => {
  const handler: Handler = async () => {
    throw new Error('relation "secret_table" does not exist');
  };
  const front = await start(bothWays('POST', '', handler), {
    mount: (app) =>
      app.use('/mounted', () => {
        throw new Error('secret_table again');
      }),
  });
  for (const path of ['/hot', '/cold', '/mounted']) {
    const answer = await supertest(front.url).post(path);
    assert.equal(answer.status, 500);
    assert.equal(answer.headers['x-request-id'], 'request-7');
    assert.equal(answer.body.request_id, 'request-7');
    assert.equal(answer.body.code, 'internal');
    assert.doesNotMatch(answer.text + JSON.stringify(answer.headers), /secret_table|Error|\.js/);
  }
  assert.equal(front.lines.length, 3);
  for (const line of front.lines)
    assert.match(line, /"request_id":"request-7".*secret_table|secret_table.*"request_id":"request-7"/);
});

test('an answer with headers that are not HTTP is our fault, told as such', async () => {
  const told: boolean[] = [];
  const { url } = await start(
    bothWays('GET', '', async () => ({
      status: 200,
      headers: { 'x-a': 'b\r\nc: d' },
      written: (ok) => void told.push(ok),
    })),
  );
  for (const way of ['/hot', '/cold']) {
    const answer = await supertest(url).get(way);
    assert.equal(answer.status, 500);
    assert.equal(answer.headers.c, undefined);
  }
  assert.deepEqual(told, [false, false]);
});

test('Express carries foreign apps, with their bodies unread', async () => {
  const { url } = await start(
    bothWays('GET', '', async () => json(200, 'ours')),
    {
      mount: (app) =>
        app.use('/foreign', (request, response) => {
          request.pipe(response);
        }),
    },
  );
  assert.equal((await supertest(url).post('/foreign/x').type('text').send('echo')).text, 'echo');
  assert.equal((await supertest(url).get('/cold')).body, 'ours');
  assert.equal((await supertest(url).get('/other')).body.code, 'not_found');
});

test('a body over the limit is refused without reading on, and the caller sees the answer', async () => {
  let handled = 0;
  const handler: Handler = async ({ body }) => json(200, { handled: ++handled, size: body.length });
  // On a clock that stands still only a body that was read to its end lets go of the connection.
  const { port } = await start(bothWays('POST', '', handler, { maxBody: 10 }), { clock: new ManualClock() });
  for (const way of ['/hot', '/cold']) {
    const start = [`POST ${way} HTTP/1.1`, 'Host: a'].join('\r\n');
    const declared = await exchange(port, `${start}\r\nContent-Length: 100000\r\n\r\n${'x'.repeat(100_000)}`);
    const chunked = await exchange(
      port,
      `${start}\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n${'x'.repeat(11)}\r\n0\r\n\r\n`,
    );
    for (const answer of [declared, chunked]) {
      assert.equal(statusOf(answer), 413, answer);
      assert.match(answer, /Connection: close/);
      const { code, limit } = bodyOf(answer);
      assert.deepEqual([code, limit], ['payload_too_large', 10]);
    }
    const fits = await exchange(port, `${start}\r\nContent-Length: 10\r\nConnection: close\r\n\r\n0123456789`);
    assert.equal(bodyOf(fits).size, 10);
  }
  assert.equal(handled, 2);
});

test('who never stops sending a refused body is cut off', async () => {
  const clock = new ManualClock();
  const { port } = await start(
    bothWays('POST', '', async () => json(200, 1), { maxBody: 10 }),
    { clock },
  );
  const { socket, until } = await dial(port);
  socket.write('POST /hot HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n');
  await until('payload_too_large');
  clock.advance(2_000);
  await closed(socket);

  const fast = await dial(port);
  fast.socket.write('POST /hot HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n');
  await fast.until('payload_too_large');
  const pump = (): void => {
    while (!fast.socket.destroyed && fast.socket.write(Buffer.alloc(65_536)));
  };
  fast.socket.on('drain', pump);
  pump();
  await closed(fast.socket);
});

test('a body that comes too slowly is 408', async () => {
  const clock = new ManualClock();
  const { port } = await start(
    bothWays('POST', '', async () => json(200, 1)),
    { clock },
  );
  for (const way of ['/hot', '/cold']) {
    const { socket, until } = await dial(port);
    socket.write(`POST ${way} HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n`);
    await until('100 Continue');
    clock.advance(30_000);
    assert.match(await until('in time'), /HTTP\/1.1 408 .*Connection: close/s);
    socket.destroy();
  }
});

test('a caller who leaves in the middle of the body meets no handler', async () => {
  let handled = 0;
  const front = await start(bothWays('POST', '', async () => json(200, ++handled)));
  const { socket } = await dial(front.port);
  const [message] = await Promise.all([
    once(front.server, 'request'),
    socket.write('POST /hot HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf'),
  ]);
  socket.destroy();
  await once(message[1], 'close');
  await turn();
  assert.equal(handled, 0);
  assert.deepEqual(front.lines, []);
});

test('REL-01: an answer that left is told as written, once', async () => {
  const told: boolean[] = [];
  const { url } = await start(
    bothWays('GET', '', async () => ({ ...json(200, 1), written: (ok) => void told.push(ok) })),
  );
  for (const way of ['/hot', '/cold']) await supertest(url).get(way).expect(200);
  assert.deepEqual(told, [true, true]);
});

for (const way of ['/hot', '/cold']) {
  for (const leave of ['end', 'resetAndDestroy'] as const) {
    test(`REL-01: a long poll whose caller goes (${leave}) is told so, ${way}`, async () => {
      const asked = signal<HttpRequest>();
      const left = signal();
      const told = signal<boolean>();
      const handler: Handler = async (request) => {
        asked.happen(request);
        request.gone.addEventListener('abort', () => left.happen());
        await left.happened;
        return { ...json(200, ['message']), written: told.happen };
      };
      const front = await start(bothWays('GET', '', handler));
      const { socket } = await dial(front.port);
      socket.write(`GET ${way} HTTP/1.1\r\nHost: a\r\n\r\n`);
      assert.equal((await asked.happened).gone.aborted, false);
      socket[leave]();
      assert.equal(await told.happened, false);
      assert.equal((await asked.happened).gone.aborted, true);
    });
  }

  test(`REL-01: a caller who dies in the middle of the answer did not get it, ${way}`, async () => {
    const told = signal<boolean>();
    const body = Buffer.alloc(64 * 1024 * 1024);
    const front = await start(bothWays('GET', '', async () => ({ status: 200, body, written: told.happen })));
    const { socket, until } = await dial(front.port);
    socket.write(`GET ${way} HTTP/1.1\r\nHost: a\r\n\r\n`);
    await until('Content-Length'.toLowerCase());
    socket.destroy();
    assert.equal(await told.happened, false);
  });
}

test('REL-01: of pipelined requests the ones still queued learn that the caller went', async () => {
  const asked = signal();
  const told = [signal<boolean>(), signal<boolean>()];
  const front = await start([
    ...bothWays('GET', '/slow', async ({ gone }) => {
      asked.happen();
      await new Promise((resolve) => gone.addEventListener('abort', resolve));
      return { ...json(200, 1), written: told[0]!.happen };
    }),
    ...bothWays('GET', '/fast', async () => ({ ...json(200, 2), written: told[1]!.happen })),
  ]);
  const { socket } = await dial(front.port);
  socket.write('GET /hot/slow HTTP/1.1\r\nHost: a\r\n\r\nGET /hot/fast HTTP/1.1\r\nHost: a\r\n\r\n');
  await asked.happened;
  for (let i = 0; i < 5; i++) await turn();
  socket.destroy();
  assert.deepEqual(await Promise.all(told.map(({ happened }) => happened)), [false, false]);
});

test('a fault in `written` or in a renderer stays with its request', async () => {
  const front = await start(
    bothWays('GET', '', async () => ({
      ...json(200, 1),
      written: () => {
        throw new Error('in written');
      },
    })),
    {
      renderers: {
        '/': () => {
          throw new Error('in renderer');
        },
      },
    },
  );
  const written = await lines(front.port, 'GET /hot HTTP/1.1', 'Host: a');
  assert.equal(statusOf(written), 200);
  assert.equal(await lines(front.port, 'GET /nowhere HTTP/1.1', 'Host: a'), '');
  assert.match(front.lines.join(), /in written.*in renderer/s);
  assert.equal(statusOf(await lines(front.port, 'GET /cold HTTP/1.1', 'Host: a')), 200);
});

test('a stream is written as it comes, waits for a slow reader, and ends when the caller goes', async () => {
  const told = signal<boolean>();
  const failed = signal<unknown>();
  let sent = 0;
  const stream: NonNullable<HttpResponse['stream']> = async (write, gone) => {
    await write('first\n');
    try {
      for (;;) {
        await write('x'.repeat(65_536));
        sent++;
      }
    } catch (error) {
      assert.equal(gone.aborted, true);
      failed.happen(error);
      throw error;
    }
  };
  const front = await start(bothWays('GET', '', async () => ({ status: 200, stream, written: told.happen })));
  const { socket, until } = await dial(front.port);
  socket.write('GET /hot HTTP/1.1\r\nHost: a\r\n\r\n');
  await until('first');
  socket.pause();
  let before: number;
  do {
    before = sent;
    for (let i = 0; i < 50; i++) await turn();
  } while (sent > before);
  assert.ok(sent < 1_000, `${sent} chunks went to a reader that does not read`);
  socket.destroy();
  assert.ok((await failed.happened) instanceof CallerGone);
  assert.equal(await told.happened, false);
  assert.deepEqual(front.lines, []);
});

test('a stream that ends is whole; one that fails is cut so that it shows', async () => {
  const told: boolean[] = [];
  const written = (ok: boolean): void => void told.push(ok);
  const front = await start([
    ...bothWays('GET', '/good', async () => ({ status: 200, written, stream: (write) => write('all') })),
    ...bothWays('GET', '/bad', async () => ({
      status: 200,
      written,
      stream: async (write) => {
        await write('some');
        await turn();
        throw new Error('lost the database');
      },
    })),
  ]);
  assert.equal((await supertest(front.url).get('/hot/good').buffer(true)).text, 'all');
  const answer = await lines(front.port, 'GET /cold/bad HTTP/1.1', 'Host: a');
  assert.match(answer, /some/);
  assert.doesNotMatch(answer, /\r\n0\r\n/);
  assert.deepEqual(told, [true, false]);
  assert.match(front.lines.join(), /lost the database/);
});

test('bytes that are no HTTP get a plain 400 in JSON', async () => {
  const { port } = await start(bothWays('POST', '', async () => json(200, 1)));
  for (const [text, status] of [
    ['HELLO\r\n\r\n', 400],
    ['GET / HTTP/1.1\r\nHost: a\r\nBad Header: x\r\n\r\n', 400],
    ['POST /hot HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n', 400],
    ['POST /hot HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx', 400],
    ['POST /hot HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n', 400],
    [`GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
  ] as const) {
    const answer = await exchange(port, text);
    assert.equal(statusOf(answer), status, text.slice(0, 60));
    assert.match(answer, /content-type: application\/json/i);
    assert.equal(bodyOf(answer).code, 'malformed_request');
    assert.match(answer, /connection: close/i);
  }
});

test('closing: nothing new is taken, what is in flight ends, idle connections go', async () => {
  const release = signal();
  const asked = signal();
  const front = await startFront([
    ...bothWays('GET', '/slow', async () => {
      asked.happen();
      await release.happened;
      return json(200, 'whole');
    }),
    ...bothWays('GET', '/fast', async () => json(200, 'fast')),
  ]);
  const idle = await dial(front.port);
  idle.socket.write('GET /hot/fast HTTP/1.1\r\nHost: a\r\n\r\n');
  await idle.until('"fast"');
  const busy = await dial(front.port);
  busy.socket.write('GET /hot/slow HTTP/1.1\r\nHost: a\r\n\r\n');
  await asked.happened;

  const idleGone = closed(idle.socket);
  const stopped = front.close();
  assert.equal(front.close(), stopped, 'a second stop is the same stop');
  await idleGone;
  await assert.rejects(dial(front.port), { code: 'ECONNREFUSED' });
  release.happen();
  assert.match(await busy.until('"whole"'), /Connection: close/);
  await stopped;
});

test('closing: what does not end is cut after the grace', async () => {
  const clock = new ManualClock();
  const asked = signal();
  const front = await startFront(
    bothWays('GET', '', async () => {
      asked.happen();
      return await new Promise<never>(() => {});
    }),
    { clock },
  );
  const { socket } = await dial(front.port);
  socket.write('GET /hot HTTP/1.1\r\nHost: a\r\n\r\n');
  await asked.happened;
  const cut = closed(socket);
  const stopped = front.close(5_000);
  clock.advance(5_000);
  await Promise.all([stopped, cut]);
});

test('a connection is kept for the next request, longer than proxies keep theirs', async () => {
  const front = await start(bothWays('POST', '', async ({ body }) => json(200, body.length)));
  assert.equal(front.server.keepAliveTimeout, 65_000);
  const { socket, until } = await dial(front.port);
  const one = 'POST /hot HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc';
  socket.write(one + one.replace('/hot', '/cold').replace('3', '0').slice(0, -3));
  const both = await until('\r\n\r\n0');
  assert.equal(both.split('HTTP/1.1 200').length, 3);
  socket.destroy();
});
