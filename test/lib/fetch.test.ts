import assert from 'node:assert/strict';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server as TcpServer } from 'node:net';
import { after, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { ManualClock } from '../../src/lib/clock.ts';
import { createFetch, type FetchOptions, type GuardedFetch } from '../../src/lib/fetch.ts';
import { FetchRefused, type FetchRefusedReason } from '../../src/lib/fetch-types.ts';
import { tlsCert, tlsKey } from './tls.ts';

const plenty = { maxBytes: 64 * 1024, timeoutMs: 5_000 };
const open: Array<() => void> = [];
after(() => {
  for (const close of open) close();
});

async function listen(server: Server | TcpServer): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

const serve = (listener: RequestListener): Promise<number> => listen(createServer(listener));

function guarded(options: Partial<FetchOptions> = {}): GuardedFetch {
  const fetch = createFetch({ allowLoopback: true, ...options });
  open.push(() => void fetch.close());
  return fetch;
}

async function refusedAs(reason: FetchRefusedReason, call: Promise<unknown>): Promise<FetchRefused> {
  const error = await call.then(
    () => assert.fail(`not refused; expected ${reason}`),
    (e) => e,
  );
  assert.ok(error instanceof FetchRefused, String(error));
  assert.equal(error.reason, reason, error.message);
  return error;
}

test('an answer comes back with status, fields and bytes', async () => {
  const port = await serve((request, response) => {
    let body = '';
    request.on('data', (chunk) => (body += chunk));
    request.on('end', () => {
      response.writeHead(201, { ETag: '"1"', 'Set-Cookie': ['a=1', 'b=2'] });
      response.end(`${request.method} ${request.headers['x-a']} ${request.headers['accept-encoding']} ${body}`);
    });
  });
  const result = await guarded()(`http://localhost:${port}/x`, {
    ...plenty,
    method: 'POST',
    headers: { 'X-A': '1' },
    body: 'é',
  });
  assert.equal(result.status, 201);
  assert.equal(result.headers.get('etag'), '"1"');
  assert.equal(result.headers.get('Set-Cookie'), 'a=1, b=2');
  assert.equal(result.headers.get('missing'), undefined);
  assert.equal(result.body.toString(), 'POST 1 identity é');
});

test('the path and query leave exactly as they are written', async () => {
  const port = await serve((request, response) => response.end(request.url));
  for (const path of ["/a/%2e%2e/b?x='%20&y=[1]", '/a/../b', '/?', '/a//b', "/it's?a=%C3%A9"]) {
    const { body } = await guarded()(`http://127.0.0.1:${port}${path}#fragment`, plenty);
    assert.equal(body.toString(), path);
  }
  assert.equal((await guarded()(`http://127.0.0.1:${port}?q`, plenty)).body.toString(), '/?q');
});

test('what is no https URL of a DNS name is refused before any look-up', async () => {
  const resolve = async (host: string): Promise<string[]> => assert.fail(`looked up ${host}`);
  const closed = guarded({ allowLoopback: false, resolve });
  const rows: Array<[string, FetchRefusedReason]> = [
    ['http://acme.test/', 'scheme'],
    ['ftp://acme.test/', 'scheme'],
    ['file:///etc/passwd', 'scheme'],
    ['javascript:alert(1)', 'scheme'],
    ['acme.test/x', 'host'],
    ['https://', 'host'],
    ['https://user@acme.test/', 'host'],
    ['https://acme.test:443:80/', 'host'],
    ['https://acme.test@127.0.0.1/', 'host'],
    ['https://acme.test\\@evil.test/', 'host'],
    ['https://ac me.test/', 'host'],
    ['https://acme.test/\r\nX: y', 'host'],
    ['https://127.0.0.1/', 'host'],
    ['https://0x7f.1/', 'host'],
    ['https://2130706433/', 'host'],
    ['https://[::1]/', 'host'],
    ['https://[::ffff:10.0.0.1]/', 'host'],
    ['https://169.254.169.254/latest/meta-data', 'host'],
    ['https://8.8.8.8/', 'host'],
    ['https://a..b/', 'host'],
  ];
  for (const [url, reason] of rows) await refusedAs(reason, closed(url, plenty));
  await refusedAs('host', guarded({ resolve })('http://10.0.0.1/', plenty));
  await refusedAs('host', guarded({ resolve })('http://[::ffff:169.254.169.254]/', plenty));
});

test('WEB-04: a name with any address that is not public is refused, and the words do not say which', async () => {
  let connections = 0;
  const port = await listen(createTcpServer(() => connections++));
  for (const addresses of [
    ['127.0.0.1'],
    ['10.0.0.7'],
    ['93.184.216.34', '10.0.0.7'],
    ['::ffff:127.0.0.1'],
    ['64:ff9b::a00:7'],
  ]) {
    const closed = guarded({ allowLoopback: false, resolve: async () => addresses });
    const error = await refusedAs('address', closed(`https://inside.test:${port}/`, plenty));
    assert.doesNotMatch(error.message, /\d/);
  }
  await refusedAs('address', guarded({ allowLoopback: false })(`https://localhost:${port}/`, plenty));
  await refusedAs(
    'address',
    guarded({ resolve: async () => ['127.0.0.1', '192.168.0.1'] })(`https://mixed.test:${port}/`, plenty),
  );
  assert.equal(connections, 0);
});

test('http goes to loopback alone', async () => {
  const fetch = guarded({ resolve: async () => ['93.184.216.34'] });
  await refusedAs('scheme', fetch('http://public.test/', plenty));
});

test('a name that changes its address between check and connect gains nothing', async () => {
  const port = await serve((request, response) => response.end(request.headers.host));
  const answers = [['127.0.0.1'], ['10.0.0.1']];
  let lookups = 0;
  const fetch = guarded({ resolve: async () => answers[lookups++]! });
  const { body } = await fetch(`http://rebind.test:${port}/`, plenty);
  assert.equal(body.toString(), `rebind.test:${port}`);
  assert.equal(lookups, 1);
});

test('WEB-02: nobody follows a redirect', async () => {
  let visited = 0;
  const inside = await serve((_, response) => response.end(String(visited++)));
  for (const status of [301, 302, 303, 307, 308]) {
    const port = await serve((_, response) =>
      response.writeHead(status, { Location: `http://127.0.0.1:${inside}/` }).end(),
    );
    assert.equal((await guarded()(`http://localhost:${port}/`, plenty)).status, status);
  }
  assert.equal(visited, 0);
});

test('an answer over the limit is cut, whether it says its length or not', async () => {
  const port = await serve((request, response) => {
    if (request.url === '/declared') response.end('x'.repeat(101));
    else if (request.url === '/chunked') for (let i = 0; i < 11; i++) response.write('x'.repeat(10));
    else response.end('x'.repeat(100));
  });
  const limit = { maxBytes: 100, timeoutMs: 5_000 };
  await refusedAs('too_large', guarded()(`http://localhost:${port}/declared`, limit));
  await refusedAs('too_large', guarded()(`http://localhost:${port}/chunked`, limit));
  assert.equal((await guarded()(`http://localhost:${port}/`, limit)).body.length, 100);
});

test('a coded answer is not decoded, so that the limit holds for what arrives', async () => {
  const coded = gzipSync('x'.repeat(100_000));
  const port = await serve((_, response) => response.writeHead(200, { 'Content-Encoding': 'gzip' }).end(coded));
  assert.deepEqual((await guarded()(`http://localhost:${port}/`, { ...plenty, maxBytes: 1_000 })).body, coded);
});

test('time is up before the headers, and in the middle of the body', async () => {
  const clock = new ManualClock();
  let started = (): void => {};
  const port = await serve((request, response) => {
    if (request.url === '/body') response.write('half');
    started();
  });
  for (const path of ['/never', '/body']) {
    const reached = new Promise<void>((resolve) => {
      started = resolve;
    });
    const call = refusedAs('timeout', guarded({ clock })(`http://localhost:${port}${path}`, plenty));
    await reached;
    clock.advance(plenty.timeoutMs);
    await call;
  }
});

test('a caller can give up', async () => {
  const port = await serve(() => {});
  const giveUp = new AbortController();
  const call = refusedAs('timeout', guarded()(`http://localhost:${port}/`, { ...plenty, signal: giveUp.signal }));
  giveUp.abort();
  await call;
  await refusedAs('timeout', guarded()(`http://localhost:${port}/`, { ...plenty, signal: AbortSignal.abort() }));
});

test('WEB-04: a header value cannot start a line of its own', async () => {
  let requests = 0;
  const port = await serve((_, response) => response.end(String(requests++)));
  for (const headers of [
    { 'X-Token': 'x\r\nX-Admin: 1' },
    { 'X-Token': 'x\n' },
    { 'X-Token': 'x\u0000' },
    { 'X-Token': 'snow ☃' },
    { 'X\r\nY': '1' },
    { 'X Y': '1' },
    { 'Content-Length': '5' },
    { 'transfer-encoding': 'chunked' },
    { Connection: 'upgrade' },
  ]) {
    await refusedAs('protocol', guarded()(`http://localhost:${port}/`, { ...plenty, headers }));
  }
  assert.equal(requests, 0);
});

test('a closed port, a broken connection and an unknown name are one reason in the same words', async () => {
  const gone = createTcpServer();
  const port = await listen(gone);
  await new Promise((resolve) => gone.close(resolve));
  const error = await refusedAs('connect', guarded()(`http://127.0.0.1:${port}/`, plenty));
  assert.doesNotMatch(error.message, /\d/);
  const broken = await listen(createTcpServer((socket) => socket.once('data', () => socket.destroy())));
  await refusedAs('connect', guarded()(`http://127.0.0.1:${broken}/`, plenty));
  await refusedAs('connect', guarded({ resolve: async () => [] })('https://nowhere.test/', plenty));
  const notFound = Object.assign(new Error('getaddrinfo ENOTFOUND'), { code: 'ENOTFOUND' });
  await refusedAs('connect', guarded({ resolve: () => Promise.reject(notFound) })('https://nowhere.test/', plenty));
});

test('what is not HTTP is refused as such', async () => {
  const port = await listen(
    createTcpServer((socket) => socket.once('data', () => socket.end('SSH-2.0-OpenSSH_9\r\n\r\n'))),
  );
  await refusedAs('protocol', guarded()(`http://127.0.0.1:${port}/`, plenty));
});

test('TLS: the certificate must be for the name and from a trusted issuer', async () => {
  const port = await listen(
    createTlsServer({ key: tlsKey, cert: tlsCert }, (request, response) => response.end(request.headers.host)),
  );
  const resolve = async (): Promise<string[]> => ['127.0.0.1'];
  const trusting = guarded({ resolve, ca: tlsCert });
  assert.equal((await trusting(`https://acme.test:${port}/`, plenty)).body.toString(), `acme.test:${port}`);
  assert.equal((await trusting(`https://ACME.test.:${port}/`, plenty)).body.toString(), `acme.test:${port}`);
  await refusedAs('tls', trusting(`https://evil.test:${port}/`, plenty));
  await refusedAs('tls', guarded({ resolve })(`https://acme.test:${port}/`, plenty));
  const plain = await serve((_, response) => response.end());
  await refusedAs('tls', trusting(`https://acme.test:${plain}/`, plenty));
});
