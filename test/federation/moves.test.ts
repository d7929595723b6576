import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { exposes, readExposure } from '../../src/federation/exposure.ts';
import {
  change,
  halfOf,
  learn,
  propose,
  revoke,
  type Standing,
  stateOf,
  unlinked,
} from '../../src/federation/links/moves.ts';
import { mayBeCalled, readOther } from '../../src/federation/links/peer-name.ts';
import { readIps } from '../../src/federation/links/rules.ts';
import { Refusal } from '../../src/lib/refusal.ts';

const states: Record<string, Standing> = {
  nothing: unlinked,
  ours: { ...unlinked, ourWant: 10, ourRev: 10 },
  theirs: { ...unlinked, theirWant: 7, theirRev: 7 },
  active: { ourWant: 10, theirWant: 7, voided: 0, ourRev: 12, theirRev: 9 },
  ended: { ourWant: 0, theirWant: 0, voided: 7, ourRev: 20, theirRev: 9 },
};

const moves: Record<string, (standing: Standing) => Standing | null> = {
  propose: (s) => propose(s, 100),
  change: (s) => change(s, 100),
  revoke: (s) => revoke(s, 100),
  'they propose': (s) => learn(s, { rev: 50, want: 50, voids: 0 }, 100),
  'they still want': (s) => learn(s, { rev: 50, want: 7, voids: 0 }, 100),
  'they end': (s) => learn(s, { rev: 50, want: 0, voids: s.ourWant }, 100),
  'they end what they knew of': (s) => learn(s, { rev: 50, want: 0, voids: 0 }, 100),
  'they end and propose anew': (s) => learn(s, { rev: 51, want: 51, voids: s.ourWant }, 100),
  'old news': (s) => learn(s, { rev: s.theirRev, want: 5, voids: 0 }, 100),
};

// `-`: no change. `revoked` with `*`: our own yes went with it, and our revision tells so.
const table: Record<string, Record<string, string>> = {
  propose: { nothing: 'proposed', ours: '-', theirs: 'active', active: '-', ended: 'proposed' },
  change: { nothing: '-', ours: 'proposed', theirs: '-', active: 'active', ended: '-' },
  revoke: { nothing: '-', ours: 'revoked', theirs: 'revoked', active: 'revoked', ended: '-' },
  'they propose': { nothing: 'proposed', ours: 'active', theirs: 'proposed', active: 'active', ended: 'proposed' },
  'they still want': { nothing: 'proposed', ours: 'active', theirs: 'proposed', active: 'active', ended: 'revoked' },
  'they end': { nothing: 'revoked', ours: 'revoked*', theirs: 'revoked', active: 'revoked*', ended: 'revoked' },
  'they end what they knew of': {
    nothing: 'revoked',
    ours: 'proposed',
    theirs: 'revoked',
    active: 'revoked*',
    ended: 'revoked',
  },
  'they end and propose anew': {
    nothing: 'proposed',
    ours: 'proposed*',
    theirs: 'proposed',
    active: 'proposed*',
    ended: 'proposed',
  },
  'old news': { nothing: '-', ours: '-', theirs: '-', active: '-', ended: '-' },
};

for (const [move, row] of Object.entries(table)) {
  test(`a link: ${move}, from every state`, () => {
    for (const [state, expected] of Object.entries(row)) {
      const before = states[state]!;
      const after = moves[move]!(before);
      const lost = after !== null && before.ourWant > 0 && after.ourWant === 0 && after.ourRev > before.ourRev;
      const seen = after === null ? '-' : stateOf(after) + (lost && move.startsWith('they') ? '*' : '');
      assert.equal(seen, expected, `${move} from ${state}`);
      if (after) assert.ok(after.ourRev >= before.ourRev && after.theirRev >= before.theirRev);
    }
  });
}

test('two sides that lose, repeat and reorder what they tell agree in the end, and a yes that was ended never counts again', () => {
  const step = fc.record({
    side: fc.nat(1),
    act: fc.constantFrom('propose', 'revoke', 'change', 'tell', 'deliver', 'repeat'),
    pick: fc.nat(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const sides: [Standing, Standing] = [unlinked, unlinked];
      const mail: Array<{ to: 0 | 1; half: ReturnType<typeof halfOf> }> = [];
      let now = 1;
      const hear = (to: 0 | 1, half: ReturnType<typeof halfOf>): void => {
        sides[to] = learn(sides[to], half, now) ?? sides[to];
      };
      /** The yeses of the other side that each has ended. */
      const ended = [new Set<number>(), new Set<number>()] as const;
      let lastWasEnd = false;
      for (const { side, act, pick } of steps) {
        now += 1;
        const at = side as 0 | 1;
        const other = (1 - at) as 0 | 1;
        if (act === 'propose' || act === 'revoke' || act === 'change') {
          const move = { propose, revoke, change }[act](sides[at], now);
          if (move && act === 'revoke' && sides[at].theirWant > 0) ended[at].add(sides[at].theirWant);
          sides[at] = move ?? sides[at];
          if (move) lastWasEnd = act === 'revoke';
        } else if (act === 'tell') mail.push({ to: other, half: halfOf(sides[at]) });
        else if (mail.length > 0) {
          const { to, half } = act === 'deliver' ? mail.splice(pick % mail.length, 1)[0]! : mail[pick % mail.length]!;
          hear(to, half);
        }
        for (const i of [0, 1] as const) assert.ok(!ended[i].has(sides[i].theirWant));
      }
      // Who last ended it, and was not asked again, is never linked, whatever still arrives.
      for (let round = 0; round < 3; round++) {
        hear(1, halfOf(sides[0]));
        hear(0, halfOf(sides[1]));
      }
      for (const { to, half } of mail) hear(to, half);
      assert.equal(stateOf(sides[0]), stateOf(sides[1]));
      assert.equal(sides[0].ourWant, sides[1].theirWant);
      assert.equal(sides[1].ourWant, sides[0].theirWant);
      if (lastWasEnd) assert.notEqual(stateOf(sides[0]), 'active');
    }),
    { numRuns: 2_000 },
  );
});

test('exposures name what their pattern says and nothing else', () => {
  const on = (pattern: string, kind: 'agent' | 'pub' | 'sub' = 'agent') => [{ kind, pattern }];
  assert.ok(exposes(on('*'), 'erp/bob/billing'));
  assert.ok(exposes(on('erp/*'), 'erp/bob/billing'));
  assert.ok(exposes(on('erp/bob/*'), 'erp/bob/billing'));
  assert.ok(exposes(on('erp/bob/billing'), 'erp/bob/billing'));
  assert.ok(!exposes(on('erp/*'), 'erp2/bob/billing'));
  assert.ok(!exposes(on('erp/bob/*'), 'erp/bobby/billing'));
  assert.ok(!exposes(on('erp/bob/billing'), 'erp/bob/billing2'));
  assert.ok(!exposes(on('*', 'pub'), 'erp/bob/billing'));
  assert.ok(!exposes([], 'erp/bob/billing'));
  assert.ok(exposes(on('erp/*', 'sub'), 'erp/invoices', 'sub'));
  assert.ok(!exposes(on('erp/*', 'sub'), 'erp/invoices', 'pub'));
});

test('patterns that the document does not have are refused', () => {
  for (const pattern of [
    '',
    '**',
    'erp',
    'erp/bob',
    'erp/*/billing',
    '*/bob',
    'erp/bob/billing/*',
    'ERP/*',
    'erp/../*',
    'erp//x',
    'a*',
    '*/*/*',
  ]) {
    assert.ok(readExposure('agent', pattern) instanceof Refusal, pattern);
  }
  for (const pattern of ['erp/bob/*', 'erp', 'erp/x/y'])
    assert.ok(readExposure('pub', pattern) instanceof Refusal, pattern);
  for (const kind of ['topic', '', null, 'Agent']) assert.ok(readExposure(kind, '*') instanceof Refusal);
});

test('`ips` takes v4, v6 and networks, and names itself when it is wrong (WEB)', () => {
  assert.deepEqual(readIps('203.0.113.7, 198.51.100.0/24,2001:DB8::/32,::1'), [
    '203.0.113.7',
    '198.51.100.0/24',
    '2001:db8::/32',
    '::1',
  ]);
  assert.deepEqual(readIps(''), []);
  assert.deepEqual(readIps([]), []);
  for (const ips of [
    '10.1',
    '0x7f.0.0.1',
    '010.0.0.1',
    '1.2.3.4/33',
    '::1/129',
    'example.com',
    '1.2.3.256',
    'fe80::1%eth0',
    '1.2.3.4/',
    '5',
    ':',
  ]) {
    const refusal = readIps(ips);
    assert.ok(refusal instanceof Refusal, ips);
    assert.equal(refusal.status, 422);
    assert.equal(refusal.data?.field, 'ips');
  }
});

test('the other side is named by handle, domain, host:port, https URL or did:web', () => {
  const gateway = (authority: string, org: string | null = null) => ({ kind: 'gateway', authority, org });
  assert.deepEqual(readOther('globex'), { kind: 'handle', handle: 'globex' });
  assert.deepEqual(readOther('globex.com'), gateway('globex.com'));
  assert.deepEqual(readOther('Globex.COM'), gateway('globex.com'));
  assert.deepEqual(readOther('localhost:8081'), gateway('localhost:8081'));
  assert.deepEqual(readOther('localhost-8081'), gateway('localhost:8081'));
  assert.deepEqual(readOther('127.0.0.1:8081'), gateway('127.0.0.1:8081'));
  assert.deepEqual(readOther('https://globex.com/'), gateway('globex.com'));
  assert.deepEqual(readOther('http://localhost:8081'), gateway('localhost:8081'));
  assert.deepEqual(readOther('did:web:localhost%3A8081'), gateway('localhost:8081'));
  assert.deepEqual(readOther('did:web:globex.com:orgs:sales'), gateway('globex.com', 'sales'));
  assert.deepEqual(readOther('globex.com/sales'), gateway('globex.com', 'sales'));
  for (const bad of [
    '',
    'did:key:z6Mk',
    'https://a.com/b/c',
    'https://user@a.com',
    'ftp://a.com',
    'a/b/c',
    '169.254.169.254',
    'gl obex',
    'a.com:99999',
    'did:web:a.com%2Fx',
  ]) {
    assert.ok(readOther(bad) instanceof Refusal, bad);
  }
});

test('a peer is not written by a handle that spells somebody else’s domain', () => {
  assert.ok(mayBeCalled('globex', 'globex.com'));
  assert.ok(mayBeCalled('globex.com', 'globex.com'));
  assert.ok(mayBeCalled('localhost-8081', 'localhost:8081'));
  assert.ok(!mayBeCalled('acme.com', 'evil.com'));
  assert.ok(!mayBeCalled('localhost-8080', 'localhost:8081'));
});
