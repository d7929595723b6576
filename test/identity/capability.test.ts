import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  type Capability,
  type CapabilityClaim,
  type CapabilityUse,
  capabilityToken,
  checkCapability,
  issueCapability,
  parseCapability,
  verifyCapability,
} from '../../src/identity/capability.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { codeOf, pairA, pairB } from './support.ts';

const capability: Capability = {
  iss: 'did:web:vendor-x.com',
  sub: 'did:web:vendor-x.com:users:engineer-li',
  aud: 'did:web:acme.com',
  scope: ['ask:technical', 'ask:product:X100', 'read'],
  exp: 1_790_000_600,
  ctx: { thread_id: 'thread_8f3a9c', delegation_depth: 1 },
};

const use: CapabilityUse = {
  now: 1_790_000_000_000,
  signer: 'did:web:vendor-x.com',
  from: 'did:web:vendor-x.com:users:engineer-li',
  to: 'did:web:acme.com:agents:support',
  threadId: 'thread_8f3a9c',
  isQuestion: true,
};

function read(token: string): CapabilityClaim {
  const claim = parseCapability(token);
  assert.ok(!(claim instanceof Refusal), (claim as Refusal).words);
  return claim;
}

function raw(header: unknown, payload: unknown): string {
  const signed = [header, payload].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
  return `${signed}.${pairA.sign(Buffer.from(signed)).toString('base64url')}`;
}

test('a token is issued, read, verified and fits its use', () => {
  const token = issueCapability(capability, pairA, 'did:web:vendor-x.com#key-1');
  // The sample header of the protocol document: {"alg":"Ed25519","typ":"Cap"}.
  assert.ok(issueCapability(capability, pairA).startsWith('eyJhbGciOiJFZDI1NTE5IiwidHlwIjoiQ2FwIn0.'));
  const claim = read(token);
  assert.equal(claim.depth, 1);
  assert.equal(claim.keyId, 'did:web:vendor-x.com#key-1');
  assert.deepEqual(claim.topics, ['technical', 'product:X100']);
  assert.equal(verifyCapability(claim, [pairB.publicKey, pairA.publicKey]), undefined);
  assert.equal(codeOf(verifyCapability(claim, [pairB.publicKey])), 'capability_invalid');
  assert.equal(codeOf(verifyCapability(claim, [])), 'capability_invalid');
  assert.equal(checkCapability(claim, use), undefined);
});

test('the header of the other scheme is none of its business', () => {
  assert.equal(capabilityToken('Capability a.b.c'), 'a.b.c');
  assert.equal(capabilityToken('capability  a.b.c '), 'a.b.c');
  assert.equal(capabilityToken('Capability '), '');
  assert.equal(capabilityToken('Bearer a.b.c'), undefined);
  assert.equal(capabilityToken('Capabilitya.b.c'), undefined);
});

test('a changed token does not verify', () => {
  const [header, payload, signature] = issueCapability(capability, pairA).split('.') as [string, string, string];
  const other = Buffer.from(JSON.stringify({ ...capability, exp: 1_990_000_000 })).toString('base64url');
  assert.equal(
    codeOf(verifyCapability(read(`${header}.${other}.${signature}`), [pairA.publicKey])),
    'capability_invalid',
  );
  assert.equal(verifyCapability(read(`${header}.${payload}.${signature}`), [pairA.publicKey]), undefined);
});

test('what is no token is refused with the reason', () => {
  const header = { alg: 'Ed25519', typ: 'Cap' };
  const cases: Array<[string, RegExp]> = [
    ['', /Invalid capability token/],
    ['a.b', /Invalid capability token/],
    [`${issueCapability(capability, pairA)}.x`, /header\.payload/],
    [`${issueCapability(capability, pairA)}=`, /base64url/],
    ['x'.repeat(10_000), /too long/],
    [raw({ alg: 'none', typ: 'Cap' }, capability), /its header/],
    [raw({ alg: 'HS256', typ: 'Cap' }, capability), /its header/],
    [raw({ alg: 'Ed25519', typ: 'JWT' }, capability), /its header/],
    [raw({ ...header, crit: ['x'] }, capability), /its header/],
    [raw(header, [capability]), /header\.payload/],
    [raw(header, { ...capability, iss: 'acme' }), /iss is no DID/],
    [raw(header, { ...capability, sub: 7 }), /sub is no DID/],
    [raw(header, { ...capability, aud: 'did:web:acme.com%40evil.test' }), /aud is no DID/],
    [raw(header, { ...capability, scope: 'ask' }), /scope/],
    [raw(header, { ...capability, scope: [1] }), /scope/],
    [raw(header, { ...capability, scope: Array(65).fill('ask') }), /scope/],
    [raw(header, { ...capability, exp: '1790000600' }), /exp/],
    [raw(header, { ...capability, exp: 1790000600.5 }), /exp/],
    [raw(header, { ...capability, ctx: 'x' }), /ctx/],
    [raw(header, { ...capability, ctx: { thread_id: 7 } }), /ctx/],
    [raw(header, { ...capability, ctx: { delegation_depth: -1 } }), /delegation_depth/],
    [raw(header, { ...capability, ctx: { delegation_depth: 4 } }), /^Delegation depth exceeds maximum of 3$/],
    [raw(header, { ...capability, delegation_depth: 4 }), /^Delegation depth exceeds maximum of 3$/],
  ];
  for (const [token, words] of cases) {
    const refusal = parseCapability(token) as Refusal;
    assert.equal(codeOf(refusal), 'capability_invalid', String(words));
    assert.match(refusal.words, words);
  }
  assert.equal(read(raw({ alg: 'EdDSA', typ: 'Cap' }, { ...capability, ctx: undefined })).depth, 0);
});

test('a token fits only the request that it was made for', () => {
  const words = (claims: Partial<Capability>, change: Partial<CapabilityUse> = {}): string =>
    checkCapability(read(issueCapability({ ...capability, ...claims }, pairA)), { ...use, ...change })?.words ?? 'fits';
  assert.equal(words({}), 'fits');
  assert.equal(words({ exp: 1_790_000_000 }), 'Capability token has expired');
  assert.match(words({ iss: 'did:web:other.com' }), /somebody else/);
  assert.equal(words({}, { signer: 'did:web:vendor-x.com:users:engineer-li' }), 'fits');
  assert.match(words({ iss: 'did:web:vendor-x.com:users:engineer-li' }), /somebody else/);
  assert.match(words({}, { signer: 'did:web:vendor-x.com.evil.test' }), /somebody else/);
  assert.match(words({}, { from: 'did:web:vendor-x.com:users:other' }), /another sender/);
  assert.equal(words({}, { from: 'did:web:vendor-x.com:users:engineer-li:agent' }), 'fits');
  assert.match(words({ aud: 'did:web:globex.com' }), /another recipient/);
  assert.equal(words({ aud: 'did:web:acme.com:agents' }), 'fits');
  assert.match(words({}, { threadId: 'other' }), /another thread/);
  assert.match(words({}, { threadId: undefined }), /another thread/);
  assert.equal(words({ ctx: {} }, { threadId: undefined }), 'fits');
  assert.match(words({ scope: ['read', 'asking'] }), /no "ask"/);
  assert.equal(words({ scope: ['read'] }, { isQuestion: false }), 'fits');
  for (const scope of ['ask', 'ask:*', 'ask:technical']) assert.equal(words({ scope: [scope] }), 'fits');
});

test('no text makes the reading throw', () => {
  const part = fc.oneof(
    fc.base64String(),
    fc.jsonValue().map((v) => Buffer.from(JSON.stringify(v)).toString('base64url')),
    fc.string(),
  );
  fc.assert(
    fc.property(fc.array(part, { maxLength: 4 }), (parts) => {
      parseCapability(parts.join('.'));
      capabilityToken(parts.join(' '));
    }),
  );
});
