import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { pythonJson } from '../../src/identity/canonical.ts';
import { readIntroduction, signIntroduction } from '../../src/identity/introduction.ts';
import { readInvitation, signInvitation } from '../../src/identity/invitation.ts';
import { keyPair } from '../../src/identity/keys.ts';
import { withRawNumbers } from '../../src/identity/raw-numbers.ts';
import { Refusal } from '../../src/lib/refusal.ts';

// The seeds and the vectors of muretai-wire-facts §2, §10 and §11.
const a = keyPair(Buffer.alloc(32, 0x5a));
const b = keyPair(Buffer.alloc(32, 0xc3));
const o = keyPair(Buffer.alloc(32, 0xe7));
const now = Date.UTC(2026, 8, 22);

const signed =
  '{"credentialSubject":{"expertise":["fotografía"],"id":"did:key:z6MkfMo6gxqdBhaHMNnmfhgZFBjpCDTkmJMJLoypsBZS9PwD","introducedTo":"did:key:z6MktitfYmVKCFDMvfMxFa5Md9CUu2U29TSqhRubdtczJcmL","trustLevelBp":800,"validUntil":"2027-09-21T00:00:00Z"},"id":"urn:uuid:11111111111111111111111111111111","issuanceDate":"2026-09-21T00:00:00Z","issuer":"did:key:z6MkrzNnnZcLWt1AoPJhX3YjdZyb6DeSne7PbvgFVHar7xeC","provenance":{"mode":"proactive"},"type":["VerifiableCredential","AgentIntroduction"]}';
const jws = 'kFUfMKlYkTmurGSDPS4PJUpJK2DiV7+0qUZulzZ066GFMTKh4od7xBaY4qP1ZneDxbGCJKlFf45B5tCBmhyCCQ==';

type Json = Record<string, unknown>;

/** Signs whatever it is given as an introduction, as a careless or hostile issuer would. `raw` stands for numbers as they are written. */
function sealed(body: Json, pair = o, proof: Json = {}, raw = (text: string): string => text): string {
  const text = raw(JSON.stringify(body));
  const bytes = pythonJson(withRawNumbers(text));
  assert.ok(!(bytes instanceof Refusal));
  const jws = pair.sign(Buffer.from(bytes)).toString('base64');
  const full = {
    type: 'Ed25519Signature2020',
    created: body.issuanceDate,
    verificationMethod: pair.did,
    jws,
    ...proof,
  };
  return `${text.slice(0, -1)},"proof":${JSON.stringify(full)}}`;
}

function body(more: Json = {}, subject: Json = {}): Json {
  const base = JSON.parse(signed) as Json;
  return { ...base, ...more, credentialSubject: { ...(base.credentialSubject as Json), ...subject } };
}

function read(text: string, more: Partial<Parameters<typeof readIntroduction>[1]> = {}): string {
  const found = readIntroduction(text, { subject: a.did, introducedTo: b.did, now, ...more });
  return found instanceof Refusal ? `${found.code}: ${found.words}` : `level ${found.level}`;
}

test('the published introduction verifies, whatever order its members are in', () => {
  const proof = { type: 'Ed25519Signature2020', created: '2026-09-21T00:00:00Z', verificationMethod: o.did, jws };
  const whole = { proof, ...(JSON.parse(signed) as Json) };
  assert.equal(read(JSON.stringify(whole)), 'level 800');
  assert.equal(read(JSON.stringify(Object.fromEntries(Object.entries(whole).reverse()), null, 2)), 'level 800');
});

test('what we sign is what we verify, and names what it says', () => {
  const claims = {
    subject: a.did,
    introducedTo: b.did,
    expertise: ['fiscalité'],
    level: 650,
    endpoint: 'https://acme.com',
  };
  const { id, text } = signIntroduction({ ...claims, now, validUntil: now + 86_400_000 }, o);
  const found = readIntroduction(text, { subject: a.did, introducedTo: b.did, now });
  assert.deepEqual(found, { id, issuer: o.did, ...claims, issuedAt: now, validUntil: now + 86_400_000 });
  assert.match(id, /^urn:uuid:[0-9a-f]{32}$/);
});

test('CAN-03 numbers verify as they were written: 1.0 of an old node is not 1', () => {
  const level = (written: string): string =>
    sealed(body({}, { trustLevelBp: undefined, trustLevel: 77 }), o, {}, (text) => text.replace(':77', `:${written}`));
  assert.equal(read(level('1.0')), 'level 1000');
  assert.equal(read(level('0.8')), 'level 800');
  assert.equal(read(level('1e-05')), 'level 0');
  assert.match(read(level('1.0').replace('1.0', '1')), /signature does not verify/);
});

test('each thing that can be wrong with an introduction is told by its name', () => {
  const cases: Array<[string, string, Partial<Parameters<typeof readIntroduction>[1]>?]> = [
    [sealed(body()), 'introduces somebody else', { subject: b.did }],
    [sealed(body()), 'is for somebody else', { introducedTo: a.did }],
    [sealed(body()), 'has expired', { now: Date.UTC(2027, 8, 21) }],
    [sealed(body(), a), 'names another key than its issuer'],
    [sealed(body(), a, { verificationMethod: o.did }), 'signature does not verify'],
    [sealed(body({ type: ['VerifiableCredential'] })), 'no AgentIntroduction'],
    [sealed(body({ issuer: 'did:web:acme.com' })), 'no Ed25519 did:key'],
    [sealed(body(), o, { type: 'JsonWebSignature2020' }), 'no Ed25519Signature2020 proof'],
    [sealed(body(), o, { jws: jws.replace('==', '') }), 'signature does not verify'],
    [sealed(body({}, { trustLevelBp: 1001 })), 'trust level'],
    [sealed(body({}, { validUntil: '2027-02-30T00:00:00Z' })), 'dates'],
    [sealed(body({ provenance: { mode: 'rumour' } })), 'unknown mode'],
    [sealed(body({ id: 'x' })), 'no urn:uuid'],
    [sealed(body()).replace('"proof"', '"id":"urn:uuid:22222222222222222222222222222222","proof"'), 'no JSON object'],
    ['[]', 'no object'],
    ['{"a":"\\u0000"}', 'no JSON object'],
    [' '.repeat(20_000), 'larger than'],
  ];
  for (const [text, why, expect] of cases) {
    const told = read(text, expect);
    assert.ok(told.startsWith('introduction_invalid') && told.includes(why), `${told} should have told: ${why}`);
  }
});

test('an introduction that was asked for carries the signed request of the one it introduces', () => {
  const issued = Date.UTC(2026, 8, 21);
  const request = (more: Json = {}, pair = a): Json => {
    const fields = {
      contextId: null,
      from: a.did,
      messageId: 'm1',
      text: `introduce-me-to:${b.did}`,
      timestamp: issued / 1000 - 60,
      to: o.did,
      ...more,
    };
    const bytes = pythonJson(fields);
    assert.ok(!(bytes instanceof Refusal));
    return { ...fields, sig: pair.sign(Buffer.from(bytes)).toString('base64') };
  };
  const asked = (shown: Json): string => read(sealed(body({ provenance: { mode: 'requested', request: shown } })));
  assert.equal(asked(request()), 'level 800');
  assert.equal(asked(request({ text: 'introduce-me-to:' })), 'level 800');
  const { contextId: _, ...bare } = request();
  assert.equal(asked(bare), 'level 800', 'an absent contextId is signed as null');
  assert.match(asked(request({}, b)), /signature of its request/);
  assert.match(asked(request({ from: b.did }, b)), /somebody else/);
  assert.match(asked(request({ to: b.did })), /somebody else/);
  assert.match(asked(request({ text: 'hello' })), /something else/);
  assert.match(asked(request({ text: `introduce-me-to:${a.did}` })), /asks for somebody else/);
  assert.match(asked(request({ timestamp: issued / 1000 - 31 * 86_400 })), /older than 30 days/);
  assert.match(asked(request({ timestamp: issued / 1000 + 301 })), /younger/);
});

test('the published invitation verifies; a changed, expired or unsigned one does not', () => {
  const expiresAt = Date.UTC(2026, 8, 28);
  const card = signInvitation(
    {
      did: a.did,
      name: 'Ana',
      url: '',
      specialty: 'general',
      nonce: '7'.padStart(32, '0'),
      relay: 'https://relay.example',
      expiresAt,
    },
    a,
  );
  assert.equal(card.sig, 'jPrWgseDjO1Yle+wLkVOiMX4AKsQE9E2/VMRsQmTL72spHwq+KMiJPhShzYL2J0xfp9HOekx2uuJpufRPliQDg==');
  const told = (value: unknown, at = now): string => {
    const found = readInvitation(JSON.stringify(value), at);
    return found instanceof Refusal ? found.words : found.did;
  };
  assert.equal(told(card), a.did);
  assert.match(told({ ...card, name: 'Eve' }), /signature does not verify/);
  assert.match(told(card, expiresAt), /has expired/);
  assert.match(told({ ...card, sig: undefined }), /signature does not verify/);
  assert.match(told('nothing'), /did is no Ed25519/);
});

test('JSON keeps its numbers as they were written, and nothing else changes', () => {
  const keep = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(keep);
    if (typeof value !== 'object' || value === null) return value;
    if ('token' in value) return Number((value as { token: string }).token);
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, keep(item)]));
  };
  const safe = fc.jsonValue().filter((value) => !/\\u0000|__proto__|"token"/.test(JSON.stringify(value)));
  fc.assert(
    fc.property(safe, (value) =>
      assert.deepEqual(keep(withRawNumbers(JSON.stringify(value))), JSON.parse(JSON.stringify(value))),
    ),
  );
});
