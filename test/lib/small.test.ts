import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { backoff, retryAfter } from '../../src/lib/backoff.ts';
import { ManualClock } from '../../src/lib/clock.ts';
import { derivedId, newId, newToken, sameSecret, sha256Hex } from '../../src/lib/ids.ts';
import { isIp, isLoopback, isPublic, networks, plainIp } from '../../src/lib/ip.ts';
import { createLog, named } from '../../src/lib/log.ts';

test('ids are ULIDs of the clock, and no two alike', () => {
  const clock = new ManualClock(1_469_918_176_385);
  const ids = Array.from({ length: 5_000 }, () => newId(clock));
  assert.equal(new Set(ids).size, ids.length);
  for (const id of ids) assert.match(id, /^01ARYZ6S41[0-9A-HJKMNP-TV-Z]{16}$/);
  clock.advance(1);
  assert.ok(newId(clock) > ids[0]!);
});

test('tokens have their prefix and 256 random bits', () => {
  assert.match(newToken('ghn_'), /^ghn_[A-Za-z0-9_-]{43}$/);
  assert.notEqual(newToken('rsk_'), newToken('rsk_'));
  assert.equal(sha256Hex('abc'), 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
});

test('derived ids: the vectors of confer-wire-facts §7', () => {
  const owner = '01JGHQ6Z4E8X2V5T9RB3KC7MDA';
  const peer = '01JGHQ9T1ZP4W6Y8N0QS2WVX5F';
  assert.equal(derivedId(['a2a-thread', owner, peer, 'thread_zoe-1']), '0XTSR86FGASYWH8DQM1BVKXZNA');
  assert.equal(derivedId(['a2a-thread', owner, peer, 'año:2026/¿vale?']), '0BY2MM2928MV5C9S2KFQF54ZJQ');
  assert.equal(derivedId(['consult', owner, peer]), '3XMGPWNX4PYBAV4M018G0BQ7WP');
  const seen = '01M8P7WZTHP4005WZVJ34CT932';
  assert.equal(derivedId(['consult', '01M8P8BGFRE49M9JJCC874KYSX', seen]), '2BH974GXMBWNJQNPKXSJASC9DW');
  assert.equal(derivedId(['a2a-thread', '01M8P8PA520YG6ZCSD9DNZW7CK', seen, 'ctx-zoe']), '507R73WJAR5MFY34K0GG2HVNDN');
});

test('derived ids are always 26 characters below 2^128', () => {
  fc.assert(fc.property(fc.array(fc.string()), (parts) => /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/.test(derivedId(parts))));
});

test('secrets are compared whole', () => {
  assert.equal(sameSecret('ghn_a', 'ghn_a'), true);
  assert.equal(sameSecret('ghn_a', 'ghn_b'), false);
  assert.equal(sameSecret('ghn_a', 'ghn_aa'), false);
  assert.equal(sameSecret(Buffer.from('x'), 'x'), true);
});

test('WEB-05: delays are 10, 20, 40 … seconds ±20 %, never past the cap', () => {
  const rule = { baseMs: 10_000, capMs: 60_000 };
  assert.deepEqual(
    [1, 2, 3].map((n) => backoff(n, rule, () => 0.5)),
    [10_000, 20_000, 40_000],
  );
  assert.equal(
    backoff(1, rule, () => 0),
    8_000,
  );
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 5_000 }),
      fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
      (n, r) => {
        const ms = backoff(n, rule, () => r);
        assert.ok(ms >= 8_000 && ms <= 60_000, `${ms}`);
      },
    ),
  );
  assert.notEqual(
    backoff(99, rule, () => 0),
    backoff(99, rule, () => 0.9),
    'jitter holds at the cap too',
  );
});

test('WEB-05: Retry-After in seconds or as a date, capped, and nothing else', () => {
  const now = Date.UTC(2026, 10, 30, 12, 0, 0);
  assert.equal(retryAfter('30', now, 60_000), 30_000);
  assert.equal(retryAfter('86400', now, 60_000), 60_000);
  assert.equal(retryAfter('9'.repeat(400), now, 60_000), 60_000);
  assert.equal(retryAfter('Mon, 30 Nov 2026 12:00:07 GMT', now, 60_000), 7_000);
  assert.equal(retryAfter('Mon, 30 Nov 2026 11:00:00 GMT', now, 60_000), 0);
  for (const field of [undefined, '', '-1', '1.5', 'soon', '2026-11-30', 'Mon, 99 Nov 2026 12:00:07 GMT']) {
    assert.equal(retryAfter(field, now, 60_000), undefined);
  }
});

test('only global unicast addresses are public', () => {
  for (const ip of ['93.184.216.34', '8.8.8.8', '2606:4700:4700::1111', '::ffff:8.8.8.8'])
    assert.equal(isPublic(ip), true, ip);
  for (const ip of [
    '0.0.0.0',
    '10.1.2.3',
    '100.64.0.1',
    '127.0.0.1',
    '169.254.169.254',
    '172.16.0.1',
    '192.0.0.8',
    '192.0.2.1',
    '192.168.1.1',
    '198.18.0.1',
    '198.51.100.1',
    '203.0.113.1',
    '224.0.0.1',
    '240.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::127.0.0.1',
    '::ffff:127.0.0.1',
    '::ffff:a00:1',
    '64:ff9b::7f00:1',
    '64:ff9b:1::1',
    '100::1',
    '2001::1',
    '2001:db8::1',
    '2002:7f00:1::',
    '3fff::1',
    '5f00::1',
    'fc00::1',
    'fd12::1',
    'fe80::1',
    'fe80::1%eth0',
    'fec0::1',
    'ff02::1',
    '4000::1',
    '127.1',
    '0x7f.0.0.1',
    '017700000001',
    '2130706433',
    'acme.test',
    '',
  ]) {
    assert.equal(isPublic(ip), false, ip);
  }
  for (const ip of ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1']) assert.equal(isLoopback(ip), true, ip);
  assert.equal(isIp('127.1'), false);
  assert.equal(plainIp('::ffff:10.0.0.1'), '10.0.0.1');
});

test('networks: addresses and CIDRs of both families', () => {
  const inside = networks(['10.0.0.0/8', '192.0.2.7', '2001:db8::/32', '::1']);
  for (const ip of ['10.9.8.7', '::ffff:10.9.8.7', '192.0.2.7', '2001:db8:1::', '::1'])
    assert.equal(inside(ip), true, ip);
  for (const ip of ['11.0.0.1', '192.0.2.8', '2001:db9::', 'x', '']) assert.equal(inside(ip), false, ip);
  assert.throws(() => networks(['10.0.0.0/33']), /"10.0.0.0\/33" is neither an IP address nor a network/);
  assert.equal(networks([])('10.0.0.1'), false);
});

test('a log line names its part and holds no secret, at any depth or inside words', () => {
  const lines: string[] = [];
  const log = named(createLog({ level: 'info', destination: { write: (line) => void lines.push(line) } }), 'outbox');
  const token = `ghn_${'x'.repeat(43)}`;
  log.info(
    {
      headers: { Authorization: 'Bearer abcdefgh', Signature: 'sig1=:c2ln:', accept: 'text/plain' },
      deep: [{ webhook: { auth: { secret: 'hush-1' }, url: 'https://acme.test/' } }],
      seed: 'hush-2',
      phrase: 'hush-3 words',
      privateKey: 'hush-4',
      node_token: 'hush-5',
      access_token: undefined,
    },
    `took ${token} and rsw_${'y'.repeat(43)}`,
  );
  const error = Object.assign(new Error(`refused for Bearer ${token}`), { request: { authorization: 'hush-6' } });
  log.error({ err: error }, 'failed');
  log.debug('below the level');

  assert.equal(lines.length, 2);
  const text = lines.join('');
  for (const secret of ['abcdefgh', 'c2ln', 'hush', 'xxxx', 'yyyy']) assert.ok(!text.includes(secret), secret);
  const [info, failed] = lines.map((line) => JSON.parse(line));
  assert.equal(info.name, 'outbox');
  assert.equal(info.level, 'info');
  assert.equal(info.headers.accept, 'text/plain');
  assert.equal(info.deep[0].webhook.url, 'https://acme.test/');
  assert.match(failed.err.stack, /refused for/);
});
