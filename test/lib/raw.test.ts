import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { HttpRequest, Route } from '../../src/lib/http.ts';
import { bodyOf, exchange, json, lines, startFront, statusOf, type TestFront } from './http-tools.ts';

const echo: Route = {
  method: 'GET',
  path: '/x',
  hot: true,
  handler: async ({ authority, scheme, ip, target, path, search }: HttpRequest) =>
    json(200, { authority, scheme, ip, target, path, search }),
};

let plain: TestFront;
let secure: TestFront;
let proxied: TestFront;

before(async () => {
  plain = await startFront([echo]);
  secure = await startFront([echo], { scheme: 'https' });
  proxied = await startFront([echo], { scheme: 'http', trustProxy: ['127.0.0.0/8', '10.0.0.0/8', '2001:db8::1'] });
});
after(() => Promise.all([plain.close(), secure.close(), proxied.close()]));

const get = async (front: TestFront, ...fields: string[]): Promise<Record<string, unknown>> => {
  const answer = await lines(front.port, 'GET /x HTTP/1.1', ...fields);
  assert.equal(statusOf(answer), 200, answer);
  return bodyOf(answer);
};

test('SIG-04: honest spellings of Host become one authority', async () => {
  const rows: Array<[TestFront, string, string]> = [
    [secure, 'ACME.test:443', 'acme.test'],
    [secure, 'acme.test:80', 'acme.test:80'],
    [secure, '[2001:DB8::1]:8443', '[2001:db8::1]:8443'],
    [secure, '[::1]', '[::1]'],
    [secure, 'xn--mnchen-3ya.test', 'xn--mnchen-3ya.test'],
    [plain, 'acme.test:80', 'acme.test'],
    [plain, 'acme.test:443', 'acme.test:443'],
    [plain, '127.0.0.1:8080', '127.0.0.1:8080'],
  ];
  for (const [front, host, authority] of rows) assert.equal((await get(front, `Host: ${host}`)).authority, authority);
});

test('SIG-04: a Host that two readers could read differently is refused', async () => {
  const rows = [
    ['Host: münchen.test'],
    ['Host: acme.test', 'Host: evil.test'],
    ['Host: acme.test', 'host: acme.test'],
    ['Host: acme.test:99999'],
    ['Host: acme.test:0443'],
    ['Host: acme.test:'],
    ['Host: [fe80::1%25eth0]'],
    ['Host: [fe80::1%eth0]'],
    ['Host: [acme]'],
    ['Host: ::1'],
    ['Host: user@acme.test'],
    ['Host: acme.test/x'],
    ['Host: acme test'],
    ['Host: acme.test, evil.test'],
    ['Host:'],
    [],
  ];
  for (const fields of rows) {
    const answer = await lines(plain.port, 'GET /x HTTP/1.1', ...fields);
    assert.equal(statusOf(answer), 400, fields.join());
    assert.equal(bodyOf(answer).code, 'malformed_request');
  }
});

test('SIG-04: only the origin form of a target, with whole escapes and no dot segments', async () => {
  for (const target of [
    'http://other.test/x',
    '*',
    '/x/%ZZ',
    '/x/%4',
    '/x?a=%',
    '/x/%ff',
    '/x%00',
    '/x?a=%00',
    '/../x',
    '/x/.',
    '/./x',
    '/a/%2e%2E/x',
    '/a/.%2e',
    '/x#y',
    '/a\\x',
    '/ü',
  ]) {
    const answer = await lines(plain.port, `GET ${target} HTTP/1.1`, 'Host: acme.test');
    assert.equal(statusOf(answer), 400, target);
    assert.match(answer, /"code":"malformed_request"/);
  }
  const { target, path, search } = await get(plain, 'Host: a');
  assert.deepEqual([target, path, search], ['/x', '/x', '']);
  const answer = await lines(plain.port, "GET /%78?q='%20..&& HTTP/1.1", 'Host: a');
  const asked = bodyOf(answer);
  assert.deepEqual([asked.target, asked.path, asked.search], ["/%78?q='%20..&&", '/%78', "?q='%20..&&"]);
});

test('SIG-04: repeats of the fields that decide are refused', async () => {
  for (const [one, two] of [
    ['Content-Type: a/b', 'content-type: c/d'],
    ['Date: Mon, 30 Nov 2026 12:00:00 GMT', 'Date: Mon, 30 Nov 2026 12:00:01 GMT'],
    ['Authorization: Bearer a', 'Authorization: Bearer b'],
    ['Content-Length: 0', 'Content-Length: 0'],
  ]) {
    const answer = await lines(plain.port, 'GET /x HTTP/1.1', 'Host: acme.test', one!, two!);
    assert.equal(statusOf(answer), 400, one);
    assert.equal(bodyOf(answer).code, 'malformed_request');
  }
  await get(plain, 'Host: acme.test', 'Accept: a/b', 'Accept: c/d');
});

test('more fields than anybody needs are refused, not dropped', async () => {
  const answer = await lines(
    plain.port,
    'GET /x HTTP/1.1',
    'Host: a',
    ...Array.from({ length: 130 }, (_, i) => `X-${i}: 1`),
  );
  assert.equal(statusOf(answer), 431);
});

test('SIG-06: a coded body is 415', async () => {
  for (const field of [
    'Content-Encoding: gzip',
    'Content-Encoding: identity, br',
    'Transfer-Encoding: gzip, chunked',
  ]) {
    const answer = await exchange(
      plain.port,
      `POST /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${field}\r\n\r\n0\r\n\r\n`,
    );
    assert.equal(statusOf(answer), 415, field);
    assert.match(answer, /"code":"unsupported_media_type"/);
  }
  await get(plain, 'Host: acme.test', 'Content-Encoding: Identity');
});

test('SIG-03: forwarded fields of a stranger count for nothing', async () => {
  const { authority, scheme, ip } = await get(
    plain,
    'Host: acme.test',
    'X-Forwarded-Host: evil.test',
    'X-Forwarded-Proto: https',
    'X-Forwarded-For: 192.0.2.1',
  );
  assert.deepEqual([authority, scheme, ip], ['acme.test', 'http', '127.0.0.1']);
});

test('SIG-03: a trusted proxy says host, scheme and caller', async () => {
  const { authority, scheme, ip } = await get(
    proxied,
    'Host: 10.0.0.5:3000',
    'X-Forwarded-Host: ACME.test:443',
    'X-Forwarded-Proto: https',
    'X-Forwarded-For: 192.0.2.1',
  );
  assert.deepEqual([authority, scheme, ip], ['acme.test', 'https', '192.0.2.1']);
});

test('SIG-03: of a list the right-most address that is no trusted proxy counts', async () => {
  const rows: Array<[string[], string]> = [
    [['X-Forwarded-For: 6.6.6.6, 192.0.2.1'], '192.0.2.1'],
    [['X-Forwarded-For: 6.6.6.6, 192.0.2.1, 10.1.1.1, 2001:db8::1'], '192.0.2.1'],
    [['X-Forwarded-For: 6.6.6.6', 'X-Forwarded-For: 192.0.2.1'], '192.0.2.1'],
    [['X-Forwarded-For: 192.0.2.1:4711'], '192.0.2.1'],
    [['X-Forwarded-For: [2001:db8::7]:4711'], '2001:db8::7'],
    [['X-Forwarded-For: ::ffff:192.0.2.1'], '192.0.2.1'],
    [['X-Forwarded-For: 10.1.1.1, 10.1.1.2'], '10.1.1.1'],
    [['X-Forwarded-For: 6.6.6.6, unknown, 10.1.1.1'], '10.1.1.1'],
    [['X-Forwarded-For: nonsense'], '127.0.0.1'],
    [[], '127.0.0.1'],
  ];
  for (const [fields, ip] of rows) assert.equal((await get(proxied, 'Host: a', ...fields)).ip, ip, fields.join());
});

test('SIG-03: what a proxy forwards is as strictly read as Host', async () => {
  for (const field of ['X-Forwarded-Host: acme.test:99999', 'X-Forwarded-Host: a b', 'X-Forwarded-Proto: gopher']) {
    assert.equal(statusOf(await lines(proxied.port, 'GET /x HTTP/1.1', 'Host: a', field)), 400, field);
  }
  const { authority } = await get(proxied, 'Host: a', 'X-Forwarded-Host: evil.test, acme.test');
  assert.equal(authority, 'acme.test');
});
