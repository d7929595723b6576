import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  authorityOf,
  formatAddress,
  formatTopic,
  handleOfAuthority,
  isName,
  namesAuthority,
  readAddress,
  readNewName,
  readTopic,
  withoutSession,
} from '../../src/directory/names.ts';
import type { Address } from '../../src/directory/types.ts';
import { Refusal } from '../../src/lib/refusal.ts';

const seat = { org: 'acme', team: 'finance', user: 'ana' };
const name = fc.stringMatching(/^[a-z0-9._-]{1,100}$/).filter((text) => text !== '.' && text !== '..');
const host = fc.stringMatching(/^[a-z0-9]{1,20}(\.[a-z0-9]{1,20}){0,3}$/);
const authority = fc.oneof(
  host,
  fc.tuple(host, fc.integer({ min: 1, max: 65_535 })).map(([h, p]) => `${h}:${p}`),
);
const session = fc.oneof(fc.constant(null), fc.constant('new' as const), fc.integer({ min: 1, max: 999_999_999 }));
const address: fc.Arbitrary<Address> = fc.record(
  {
    org: fc.oneof(name, authority),
    team: name,
    user: name,
    agent: name,
    session,
  },
  { noNullPrototype: true },
);

function refusedField(result: unknown): unknown {
  assert.ok(result instanceof Refusal, `taken: ${JSON.stringify(result)}`);
  assert.equal(result.code, 'invalid_field');
  return result.data?.field;
}

test('every address is read back as it was written', () => {
  fc.assert(
    fc.property(address, (given) => {
      assert.deepEqual(readAddress(formatAddress(given)), given);
    }),
  );
});

test('whatever is read as an address is written again the same, and all else is a refusal that names the field', () => {
  const noise = fc.oneof(
    fc.string(),
    fc.string({ unit: 'binary' }),
    fc
      .array(fc.oneof(name, fc.constantFrom('#', '#s1', '#new', '', '..', 'É', 'A')), { maxLength: 6 })
      .map((a) => a.join('/')),
  );
  fc.assert(
    fc.property(noise, (text) => {
      const result = readAddress(text, { field: 'from' });
      if (result instanceof Refusal) assert.equal(refusedField(result), 'from');
      else assert.equal(formatAddress(result), text);
    }),
    { numRuns: 2_000 },
  );
});

test('short forms are resolved from the seat of the sender', () => {
  const at = (text: string): unknown => {
    const result = readAddress(text, { seat });
    return result instanceof Refusal ? result : formatAddress(result);
  };
  assert.equal(at('close'), 'acme/finance/ana/close');
  assert.equal(at('bob/close'), 'acme/finance/bob/close');
  assert.equal(at('ops/bob/close#s4'), 'acme/ops/bob/close#s4');
  assert.equal(at('globex/ops/bob/close#new'), 'globex/ops/bob/close#new');
  fc.assert(
    fc.property(name, name, name, (team, user, agent) => {
      assert.equal(at(agent), `acme/finance/ana/${agent}`);
      assert.equal(at(`${user}/${agent}`), `acme/finance/${user}/${agent}`);
      assert.equal(at(`${team}/${user}/${agent}`), `acme/${team}/${user}/${agent}`);
    }),
  );
});

test('without a seat only the full address is one', () => {
  for (const text of ['close', 'ana/close', 'finance/ana/close']) assert.equal(refusedField(readAddress(text)), 'to');
});

test('what is no name, no session or no shape is refused', () => {
  const bad = [
    '',
    '/',
    'acme/finance/ana/',
    'acme/finance/ana/close/more',
    'Acme/finance/ana/close',
    'acme/finance/ána/close',
    'acme/finance/ana/cl ose',
    'acme/finance/../close',
    './finance/ana/close',
    'acme/finance/ana/close#',
    'acme/finance/ana/close#s',
    'acme/finance/ana/close#s0',
    'acme/finance/ana/close#s01',
    'acme/finance/ana/close#s1234567890',
    'acme/finance/ana/close#NEW',
    'acme/finance/ana/close#s1#s2',
    'acme:0/finance/ana/close',
    'acme:65536/finance/ana/close',
    'acme:/finance/ana/close',
    'a_b:80/finance/ana/close',
    'acme/finance:80/ana/close',
    `acme/finance/ana/${'a'.repeat(101)}`,
    `${'a'.repeat(261)}/finance/ana/close`,
    'a/'.repeat(10_000),
  ];
  for (const text of bad) assert.equal(refusedField(readAddress(text, { seat })), 'to', text);
});

test('topics, with their short forms', () => {
  const at = (text: string): unknown => {
    const result = readTopic(text, { seat, field: 'topic' });
    return result instanceof Refusal ? result.data?.field : formatTopic(result);
  };
  assert.equal(at('topic:acme/finance/invoices'), 'topic:acme/finance/invoices');
  assert.equal(at('topic:ops/invoices'), 'topic:acme/ops/invoices');
  assert.equal(at('topic:invoices'), 'topic:acme/finance/invoices');
  for (const bad of ['invoices', 'topic:', 'topic:a/b/c/d', 'topic:a/b/C', 'topic:invoices#s1'])
    assert.equal(at(bad), 'topic');
});

test('an org segment spells an authority, with its port in both spellings, or is a handle', () => {
  assert.equal(authorityOf('acme.com'), 'acme.com');
  assert.equal(authorityOf('localhost:8081'), 'localhost:8081');
  assert.equal(authorityOf('localhost-8081'), 'localhost:8081');
  assert.equal(authorityOf('127.0.0.1-8081'), '127.0.0.1:8081');
  assert.equal(authorityOf('acme'), null);
  assert.equal(authorityOf('acme-2024'), null);
  assert.equal(authorityOf('localhost-99999'), null);
  fc.assert(
    fc.property(
      authority.filter((a) => a.includes('.') || a.startsWith('localhost')),
      (a) => {
        assert.ok(namesAuthority(a, a));
        assert.ok(namesAuthority(handleOfAuthority(a), a));
        assert.equal(authorityOf(a), a);
      },
    ),
  );
});

test('new names keep out of what other names mean', () => {
  for (const [text, noun] of [
    ['agents', 'team'],
    ['org', 'user'],
    ['anyone', 'user'],
    ['.well-known', 'team'],
    ['Ana', 'user'],
    ['', 'org'],
  ] as const) {
    assert.equal(refusedField(readNewName(text, 'me', noun)), 'me', text);
  }
  assert.equal(readNewName('agents', 'handle', 'org'), 'agents');
  assert.ok(!isName('..'));
});

test('the agent of an address with a session', () => {
  assert.equal(withoutSession('acme/finance/ana/close#s4'), 'acme/finance/ana/close');
  assert.equal(withoutSession('acme/finance/ana/close'), 'acme/finance/ana/close');
});
