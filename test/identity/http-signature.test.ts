import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import * as oracle from 'http-message-sig';
import { httpbis } from 'http-message-signatures';
import { parseItem } from 'structured-headers';
import { fromMultikey, keyOfMethod, type PublicKey, verify } from '../../src/identity/algorithms.ts';
import { signatureBase } from '../../src/identity/http-signature/base.ts';
import {
  type Component,
  componentValue,
  type Message,
  readComponent,
} from '../../src/identity/http-signature/components.ts';
import { contentDigest } from '../../src/identity/http-signature/digest.ts';
import { bytesOf, readDictionary } from '../../src/identity/http-signature/fields.ts';
import { formatHttpDate, parseHttpDate } from '../../src/identity/http-signature/http-date.ts';
import { signRequest } from '../../src/identity/http-signature/sign.ts';
import {
  readSignature,
  type SignatureClaim,
  type SignedRequest,
  type VerifiedSignature,
} from '../../src/identity/http-signature/verify.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import {
  codeOf,
  fields,
  pairA,
  pairB,
  policyFor,
  type RawHeaders,
  type RequestParts,
  request,
  vectors,
  verifyWith,
} from './support.ts';

const NOW = 1_790_000_000_000;
const KEY = 'did:web:ana.test:agents:ana#key-1';
const rfc = vectors('http-signature/rfc9421');
const rfcComponents = vectors('http-signature/rfc9421-components');
const confer = vectors('http-signature/confer');

function component(id: string): Component {
  const read = readComponent(parseItem(id));
  assert.ok(!(read instanceof Refusal), id);
  return read;
}

function value(id: string, message: Message, types?: Record<string, 'dictionary'>): string | Refusal {
  const read = readComponent(parseItem(id));
  return read instanceof Refusal ? read : componentValue(read, message, types);
}

/** Splits `label=(…);…` of a published case. */
function input(text: string): { components: Component[]; parameters: string } {
  const [member] = [...(readDictionary(text) as Exclude<ReturnType<typeof readDictionary>, string>).values()];
  const items = member!.value[0] as unknown as ReturnType<typeof parseItem>[];
  return { components: items.map((item) => readComponent(item) as Component), parameters: member!.text };
}

/** A signed request as it arrives, with headers changed on the way. */
async function signed(
  parts: RequestParts = {},
  change: (headers: Map<string, string>) => void = () => {},
): Promise<SignedRequest> {
  const bare = request(parts);
  const url = `${bare.scheme}://${bare.authority}${bare.target}`;
  const headers = await signRequest(
    { method: bare.method, url, body: bare.body },
    { keyId: KEY, key: pairA, now: NOW },
  );
  const map = new Map(Object.entries(headers));
  change(map);
  return { ...bare, headers: fields([...map]) };
}

/** A request signed by us over any text of parameters, honest or not. */
function crafted(parameters: string, parts: RequestParts = {}, label = 'sig1', more: RawHeaders = []): SignedRequest {
  const bare = request({ ...parts, headers: [['Date', formatHttpDate(NOW)], ...(parts.headers ?? []), ...more] });
  const { components } = input(`${label}=${parameters}`);
  const base = signatureBase(components, parameters, bare);
  assert.ok(!(base instanceof Refusal), String((base as Refusal).words));
  const signature = `${label}=:${pairA.sign(base).toString('base64')}:`;
  return {
    ...bare,
    headers: fields([...bare.headers.raw, ['Signature-Input', `${label}=${parameters}`], ['Signature', signature]]),
  };
}

const COVERED = '("@method" "@authority" "@path" "date")';
const HONEST = `${COVERED};keyid="${KEY}";created=1790000000`;

function check(incoming: SignedRequest, now = NOW, key: PublicKey = pairA.publicKey): string {
  return codeOf(verifyWith(key, incoming, policyFor(incoming, now)));
}

test('RFC 9421 appendix B: the signature bases', () => {
  for (const { name, target, base, signatureInput } of rfc.cases) {
    const published = rfc[target];
    const digest = /"content-digest": (.*)/.exec(base)?.[1];
    const headers = published.headers.map(([key, text]: [string, string]) => [
      key,
      name === 'B.2.4' && key === 'Content-Digest' ? digest : text,
    ]);
    const { components, parameters } = input(signatureInput);
    const built = signatureBase(components, parameters, { ...published, headers: fields(headers) });
    assert.equal(String(built), base, name);
  }
});

test('RFC 9421 B.2.6 and B.2.4: the published signatures verify, and ed25519 gives the same bytes', () => {
  const { x, d } = rfc.testKeyEd25519;
  const ed25519 = keyOfMethod({ type: 'JsonWebKey', publicKeyJwk: { kty: 'OKP', crv: 'Ed25519', x } }) as PublicKey;
  const b26 = rfc.cases.find((c: { name: string }) => c.name === 'B.2.6');
  const incoming = request({
    ...rfc.request,
    headers: [...rfc.request.headers, ['Signature-Input', b26.signatureInput], ['Signature', b26.signature]],
  });
  const policy = {
    ...policyFor(incoming, 1_618_884_473_000),
    coverage: [['date'], ['@method'], ['@path'], ['@authority']],
  };
  const verified = verifyWith(ed25519, incoming, policy) as VerifiedSignature;
  assert.equal(verified.label, 'sig-b26');
  assert.equal(verified.keyId, 'test-key-ed25519');
  assert.equal(codeOf(verifyWith(pairB.publicKey, incoming, policy)), 'signature_failed');
  assert.ok(d);

  const { crv, kty, x: px, y } = rfc.testKeyEccP256;
  const p256 = keyOfMethod({ type: 'JsonWebKey', publicKeyJwk: { kty, crv, x: px, y } }) as PublicKey;
  const b24 = rfc.cases.find((c: { name: string }) => c.name === 'B.2.4');
  const signature = bytesOf((readDictionary(b24.signature) as ReadonlyMap<string, never>).get('sig-b24')!)!;
  assert.ok(verify(p256, Buffer.from(b24.base), signature));
});

test('RFC 9421 §2.4: a response signed with components of its request', () => {
  const { request: asked, response, base, signatureInput, signature } = rfc.requestInResponse;
  const message = {
    ...response,
    headers: fields(response.headers),
    request: { ...asked, headers: fields(asked.headers) },
  };
  const { components, parameters } = input(signatureInput);
  assert.equal(String(signatureBase(components, parameters, message)), base);
  const { crv, kty, x, y } = rfc.testKeyEccP256;
  const p256 = keyOfMethod({ type: 'JsonWebKey', publicKeyJwk: { kty, crv, x, y } }) as PublicKey;
  const bytes = bytesOf((readDictionary(signature) as ReadonlyMap<string, never>).get('reqres')!)!;
  assert.ok(verify(p256, Buffer.from(base), bytes));
  assert.equal(
    codeOf(componentValue(component('"@method";req'), { ...message, request: undefined } as Message)),
    'signature_invalid',
  );
  assert.equal(codeOf(componentValue(component('"@method"'), message)), 'signature_malformed');
});

test('RFC 9421 §2.1 and §2.2: the values of the examples', () => {
  for (const { headers, lines } of rfcComponents.fields) {
    for (const line of lines as string[]) {
      const [, id, expected] = /^("[^"]+"(?:;\w+(?:="[^"]*")?)*): (.*)$/.exec(line)!;
      const message = request({ headers });
      assert.equal(value(id!, message, { 'example-dict': 'dictionary' }), expected, line);
    }
  }
  for (const { target, lines } of rfcComponents.queries) {
    for (const line of lines as string[]) {
      const [, id, expected] = /^("[^"]+"(?:;\w+="[^"]*")?): (.*)$/.exec(line)!;
      assert.equal(value(id!, request({ target, authority: 'www.example.com' })), expected, line);
    }
  }
});

test('confer-wire-facts §1: both examples verify', () => {
  for (const example of [confer.example1, confer.example2]) {
    const url = new URL(example.url);
    const incoming = request({
      method: example.method,
      target: url.pathname + url.search,
      authority: url.host,
      body: example.body,
      headers: [
        ['Date', confer.date],
        ...(example.body ? [['Content-Digest', contentDigest(Buffer.from(example.body))] as const] : []),
        ['Signature-Input', example.signatureInput],
        ['Signature', example.signature],
      ],
    });
    const key = fromMultikey(confer.publicKeyMultibase) as PublicKey;
    const verified = verifyWith(key, incoming, policyFor(incoming, NOW)) as VerifiedSignature;
    assert.equal(verified.keyId, confer.keyId);
    assert.equal(verified.created, confer.created);
    const { components, parameters } = input(example.signatureInput);
    assert.equal(String(signatureBase(components, parameters, incoming)), example.base);
  }
});

test('confer-wire-facts §1: what we sign is example 2, byte for byte; example 1 but for the nonce', async () => {
  const how = { keyId: confer.keyId, key: pairA, now: NOW };
  const { example1, example2 } = confer;
  assert.deepEqual(await signRequest({ method: 'GET', url: example2.url }, { ...how, nonce: example2.nonce }), {
    Date: confer.date,
    'Signature-Input': example2.signatureInput,
    Signature: example2.signature,
  });
  const headers = await signRequest({ method: 'POST', url: example1.url, body: Buffer.from(example1.body) }, how);
  assert.equal(headers.Date, confer.date);
  assert.match(example1.base, new RegExp(`"content-digest": ${headers['Content-Digest']!.replace(/[+/]/g, '.')}\n`));
  assert.match(headers['Signature-Input'].slice(example1.signatureInput.length), /^;nonce="[\w-]{22}"$/);
  assert.ok(headers['Signature-Input'].startsWith(example1.signatureInput));
});

test('what we sign is taken by http-message-sig, and what it signs by us', async () => {
  for (const [method, target, body] of [
    ['POST', "/a/%2e%2e/b'c?x=%41&y", '{"a":1}'],
    ['GET', '/a?', ''],
    ['GET', '/', ''],
  ] as const) {
    const incoming = await signed({ method, target, body });
    assert.equal(check(incoming), 'accepted');
    const descriptor = {
      kind: 'request' as const,
      method,
      targetUri: `https://acme.test${target}`,
      requestTarget: target,
      fields: incoming.headers.raw.map(([name, text]) => ({ name, value: text })),
    };
    const policy = {
      algorithms: ['ed25519'],
      requiredComponents: ['@method', 'date'],
      requiredParameters: ['keyid'],
      now: NOW / 1000,
    };
    const verifier = {
      algorithm: 'ed25519',
      verify: (data: Uint8Array, sig: Uint8Array) => verify(pairA.publicKey, data, sig),
    };
    if (!/%2e|\?$/.test(target)) {
      const result = await oracle.verifySignature(descriptor, { policy, resolveVerifier: () => verifier });
      assert.equal(result.parameters.keyid, KEY);
    }

    const bare = request({
      method,
      target,
      body,
      headers: [
        ['Date', formatHttpDate(NOW)],
        ['Content-Digest', contentDigest(Buffer.from(body))],
      ],
    });
    const made = await oracle.createSignature(
      { ...descriptor, fields: bare.headers.raw.map(([name, text]) => ({ name, value: text })) },
      {
        label: 'theirs',
        components: [
          'date',
          '@authority',
          'content-digest',
          '@method',
          ...(/%2e|\?$/.test(target) ? ['@target-uri'] : ['@path']),
        ],
        parameters: { keyid: KEY, created: NOW / 1000, nonce: 'n' },
        signer: { algorithm: 'ed25519', sign: (data) => pairA.sign(data) },
      },
    );
    const theirs = {
      ...bare,
      headers: fields([...bare.headers.raw, ['Signature-Input', made.signatureInput], ['Signature', made.signature]]),
    };
    assert.equal(check(theirs), 'accepted', target);
  }
});

test('what we sign is taken by http-message-signatures', async () => {
  const incoming = await signed({ method: 'POST', target: '/a/b?x=1', body: 'hello' });
  const ok = await httpbis.verifyMessage(
    {
      keyLookup: async () => ({
        id: KEY,
        algs: ['ed25519'],
        verify: async (data, signature) => verify(pairA.publicKey, data, signature),
      }),
      notAfter: NOW / 1000,
    },
    { method: 'POST', url: 'https://acme.test/a/b?x=1', headers: Object.fromEntries(incoming.headers.raw) },
  );
  assert.equal(ok, true);
});

test('every honest request that we sign verifies; with another method, target, authority, date or body it does not', async () => {
  const path = fc.stringMatching(/^\/[A-Za-z0-9._~!$&'()*+,;=:@%/-]{0,30}$/);
  const query = fc.option(fc.stringMatching(/^\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]{0,20}$/), { nil: '' });
  await fc.assert(
    fc.asyncProperty(path, query, fc.uint8Array({ maxLength: 50 }), async (p, q, body) => {
      const incoming = await signed({ method: 'POST', target: p + q, body: Buffer.from(body) });
      assert.equal(check(incoming), 'accepted');
      const other = (change: Partial<SignedRequest>): string => check({ ...incoming, ...change });
      assert.equal(other({ method: 'PUT' }), 'signature_failed');
      assert.equal(other({ authority: 'evil.test' }), 'signature_failed');
      assert.notEqual(other({ target: `${p}x${q}` }), 'accepted');
      assert.notEqual(other({ target: `${p}${q || '?'}&x=1` }), 'accepted');
      assert.equal(
        other({ body: Buffer.concat([body, Buffer.of(0)]) }),
        body.length > 0 ? 'digest_mismatch' : 'signature_invalid',
      );
    }),
    { numRuns: 60 },
  );
});

test('SIG-04 authority: lower case, brackets kept, the default port of the scheme gone', () => {
  const authority = (text: string, scheme: 'http' | 'https' = 'https'): string | Refusal =>
    value('"@authority"', request({ authority: text, scheme }));
  assert.equal(authority('ACME.test:443'), 'acme.test');
  assert.equal(authority('acme.test:80', 'http'), 'acme.test');
  assert.equal(authority('acme.test:443', 'http'), 'acme.test:443');
  assert.equal(authority('acme.test:8443'), 'acme.test:8443');
  assert.equal(authority('[2001:DB8::1]:8443'), '[2001:db8::1]:8443');
  assert.equal(authority('xn--mnchen-3ya.test'), 'xn--mnchen-3ya.test');
  for (const bad of [
    'münchen.test',
    'acme.test:99999',
    '[fe80::1%25eth0]',
    'user@acme.test',
    'acme.test/x',
    '',
    'acme.test:',
    'a b',
  ]) {
    assert.equal(codeOf(authority(bad)), 'signature_malformed', bad);
  }
  assert.equal(codeOf(value('"@path"', request({ target: 'http://other.test/x' }))), 'signature_malformed');
  const doubled = request({
    headers: [
      ['Host', 'a.test'],
      ['Host', 'b.test'],
    ],
  });
  assert.equal(codeOf(value('"host"', doubled)), 'signature_malformed');
});

test('SIG-05 a covered digest is compared with the bytes that came', async () => {
  const parts = { method: 'POST', body: '{"hello": "world"}' };
  const honest = await signed(parts);
  assert.equal(check(honest), 'accepted');
  assert.equal(check({ ...honest, body: Buffer.from('{"hello": "World"}') }), 'digest_mismatch');
  assert.equal(check({ ...honest, body: Buffer.alloc(0) }), 'digest_mismatch');
  const other = await signed(parts, (headers) =>
    headers.set('Content-Digest', contentDigest(Buffer.from('another body'))),
  );
  assert.equal(check(other), 'digest_mismatch');
  const gone = await signed(parts, (headers) => headers.delete('Content-Digest'));
  assert.equal(check(gone), 'signature_invalid');
});

test('SIG-08 every repetition is malformed, wherever it stands', () => {
  const honest = crafted(HONEST);
  assert.equal(check(honest), 'accepted');
  const signature = honest.headers.get('signature')!;
  const repeated = (inputs: string): string => {
    const raw: RawHeaders = [
      ['Date', formatHttpDate(NOW)],
      ['Signature-Input', inputs],
      ['Signature', signature],
    ];
    return check({ ...honest, headers: fields(raw) });
  };
  assert.equal(repeated(`sig1=${HONEST}, sig1=("@path");keyid="x"`), 'signature_malformed');
  assert.equal(repeated(`sig1=${HONEST};created=1790000001`), 'signature_malformed');
  assert.equal(
    repeated(`sig1=("@method" "@method" "@authority" "@path" "date");keyid="${KEY}"`),
    'signature_malformed',
  );
  assert.equal(repeated(`sig1=("@method";req;req "@authority" "@path" "date");keyid="${KEY}"`), 'signature_malformed');
  assert.equal(repeated(`sig1=("x";key="a";key="b" "@method");keyid="${KEY}"`), 'signature_malformed');
  assert.equal(repeated(`sig1=("date";sf;bs "date";bs;sf);keyid="${KEY}"`), 'signature_malformed');
  assert.equal(repeated(`sig1=${HONEST}, other=("@method" "@method");keyid="x"`), 'signature_malformed');
  assert.equal(repeated(`sig1=${HONEST};x=%"\\";created=1;y="`), 'signature_malformed');
  assert.equal(repeated(`sig1=${HONEST};nonce="a;created=1, sig1=(\\"";nonce="b"`), 'signature_malformed');
});

test('SIG-08 unquoted strings, unknown parameters of components and wrong types are malformed', () => {
  const honest = crafted(HONEST);
  const odd = (inputs: string): string =>
    check({
      ...honest,
      headers: fields([
        ['Date', formatHttpDate(NOW)],
        ['Signature-Input', inputs],
        ['Signature', honest.headers.get('signature')!],
      ]),
    });
  for (const inputs of [
    `sig1=${COVERED};keyid=did:web:x`,
    `sig1=${COVERED};keyid=did:web:x#k`,
    `sig1=${COVERED};keyid="x";created="1790000000"`,
    `sig1=${COVERED};keyid="x";created=1790000000.5`,
    `sig1=${COVERED};keyid="x";created=-1`,
    `sig1=${COVERED};keyid="x";foo`,
    `sig1=${COVERED};keyid="x";foo=?1`,
    `sig1=${COVERED};keyid="x";foo=token`,
    `sig1=${COVERED};keyid="x";foo=:YQ==:`,
    `sig1=${COVERED};keyid="x";foo=@1`,
    `sig1=${COVERED};keyid=:YQ==:`,
    `sig1=("@method";zz "@authority" "@path" "date");keyid="x"`,
    `sig1=("@method" "@authority" "@path" "date";tr);keyid="x"`,
    `sig1=("@method";req "@authority" "@path" "date");keyid="x"`,
    `sig1=("@method" "@authority" "@path" "Date");keyid="x"`,
    `sig1=("@method" "@authority" "@path" "date" "@signature-params");keyid="x"`,
    `sig1=("@method" "@authority" "@path" "date" "@nonsense");keyid="x"`,
    `sig1=("@method" "@authority" "@path" "date" "@query-param");keyid="x"`,
    `sig1=("@method" "@authority" "@path" "date" "content-digest";bs;sf);keyid="x"`,
    `sig1=("@method" "@authority" "@path" "date";sf=?0);keyid="x"`,
    `sig1=(date "@method");keyid="x"`,
    `sig1="@method";keyid="x"`,
    'sig1',
    'sig1=',
    'Sig1=();keyid="x"',
    'sig1=("@method"',
    `keyId="x",algorithm="ed25519"`,
  ]) {
    assert.equal(odd(inputs), 'signature_malformed', inputs);
  }
});

test('SIG-08 any label and any order of parameters; the text is taken as it came', () => {
  assert.equal(
    check(
      crafted(`("date" "@path" "@authority" "@method");keyid="${KEY}";nonce="n";created=1790000000`, {}, 'attest-7'),
    ),
    'accepted',
  );
  assert.equal(check(crafted(`${COVERED};x="1";keyid="${KEY}";y=7;created=1790000000`)), 'accepted');
  assert.equal(
    check(crafted(`("@method"  "@authority" "@path" "date" );keyid="${KEY}"; created=1790000000`)),
    'accepted',
  );
});

test('one signature is chosen, and nothing of another one counts', () => {
  const honest = crafted(HONEST, {}, 'b');
  const [inB, sigB] = [honest.headers.get('signature-input')!, honest.headers.get('signature')!];
  const zero = `:${Buffer.alloc(64).toString('base64')}:`;
  const both = (inputs: string, signatures: string): SignedRequest => ({
    ...honest,
    headers: fields([
      ['Date', formatHttpDate(NOW)],
      ['Signature-Input', inputs],
      ['Signature', signatures],
    ]),
  });
  // A proxy's own signature that covers little is passed over; the identity is that of the one that counts.
  const proxy = both(`p=("@method");keyid="did:web:proxy.test#k", ${inB}`, `p=${zero}, ${sigB}`);
  const claim = readSignature(proxy, policyFor(proxy, NOW)) as SignatureClaim;
  assert.deepEqual([claim.label, claim.keyId], ['b', KEY]);
  assert.equal(check(proxy), 'accepted');
  // A forged one of full coverage that stands first is the one that is chosen, and fails.
  const forged = both(`a=${COVERED};keyid="did:web:victim.test#k", ${inB}`, `a=${zero}, ${sigB}`);
  assert.equal(check(forged), 'signature_failed');
  const byKey = policyFor(forged, NOW, { acceptKeyId: (id) => id === KEY });
  assert.equal((verifyWith(pairA.publicKey, forged, byKey) as VerifiedSignature).label, 'b');
  // A component that we do not do spoils only the signature that covers it.
  assert.equal(check(both(`p=("x";tr);keyid="k", ${inB}`, `p=${zero}, ${sigB}`)), 'accepted');
  assert.equal(check(both(`${inB}, c=();keyid="k"`, sigB)), 'accepted');
  assert.equal(check(both(inB, `c=${zero}`)), 'signature_malformed');
});

test('four signatures are looked at; with a fifth none is', () => {
  const honest = crafted(HONEST);
  const signature = honest.headers.get('signature')!.slice('sig1='.length);
  const many = (count: number): string => {
    const labels = Array.from({ length: count }, (_, i) => `s${i}`);
    const inputs = labels.map((label) => `${label}=${HONEST}`).join(', ');
    const signatures = labels.map((label) => `${label}=${signature}`).join(', ');
    const raw: RawHeaders = [
      ['Date', formatHttpDate(NOW)],
      ['Signature-Input', inputs],
      ['Signature', signatures],
    ];
    return check({ ...honest, headers: fields(raw) });
  };
  assert.equal(many(4), 'accepted');
  for (const count of [5, 20, 150]) assert.equal(many(count), 'signature_malformed');
});

test('a signature that covers too little is refused, and told what is missing', async () => {
  const policy = (incoming: SignedRequest): ReturnType<typeof policyFor> => policyFor(incoming, NOW);
  const missing = (covered: string, parts: RequestParts = {}): unknown => {
    const incoming = crafted(`(${covered});keyid="${KEY}";created=1790000000`, parts);
    const result = readSignature(incoming, policy(incoming));
    return result instanceof Refusal ? [result.code, result.data?.missing] : 'accepted';
  };
  assert.deepEqual(missing(''), [
    'signature_invalid',
    ['@method', '@authority or @target-uri', '@path or @target-uri', 'date'],
  ]);
  assert.deepEqual(missing('"@method" "@authority" "@path"'), ['signature_invalid', ['date']]);
  assert.deepEqual(missing('"@method" "@authority" "@path" "date"', { target: '/x?y=1' }), [
    'signature_invalid',
    ['@query or @target-uri'],
  ]);
  assert.deepEqual(missing('"@method" "@authority" "@path" "date"', { target: '/x?' }), [
    'signature_invalid',
    ['@query or @target-uri'],
  ]);
  assert.deepEqual(missing('"@method" "@authority" "@path" "date" "@query-param";name="y"', { target: '/x?y=1' }), [
    'signature_invalid',
    ['@query or @target-uri'],
  ]);
  assert.deepEqual(missing('"@method" "@authority" "@path" "date"', { body: 'x' }), [
    'signature_invalid',
    ['content-digest'],
  ]);
  assert.equal(missing('"@method" "@target-uri" "date"', { target: '/x?y=1' }), 'accepted');
  // A parameter changes what is covered: the bytes of a member are not the field.
  const digest: RawHeaders = [['Content-Digest', contentDigest(Buffer.from('x'))]];
  assert.deepEqual(
    missing('"@method" "@authority" "@path" "date" "content-digest";key="sha-256"', { body: 'x', headers: digest }),
    ['signature_invalid', ['content-digest']],
  );
});

test('the default is refusal: no algorithm, no time, no keyid', () => {
  const honest = crafted(HONEST);
  assert.equal(
    codeOf(verifyWith(pairA.publicKey, honest, policyFor(honest, NOW, { algorithms: [] }))),
    'signature_invalid',
  );
  const timeless = crafted(`("@method");keyid="${KEY}"`);
  assert.equal(
    codeOf(readSignature(timeless, policyFor(timeless, NOW, { coverage: [['@method']] }))),
    'signature_invalid',
  );
  assert.equal(check(crafted(`${COVERED};created=1790000000`)), 'signature_invalid');
  assert.equal(check(crafted(`${COVERED};keyid=""`)), 'signature_invalid');
});

test('alg selects nothing: another one is refused, and so is a key of another kind', () => {
  assert.equal(check(crafted(`${HONEST};alg="ed25519"`)), 'accepted');
  assert.equal(check(crafted(`${HONEST};alg="hmac-sha256"`)), 'signature_invalid');
  assert.equal(check(crafted(`${HONEST};alg="ecdsa-p256-sha256"`)), 'signature_invalid');
  const p256 = fromMultikey('zDnaed86KkrLsaP9faeT5yGmoiVHRyzMssnf5ntKx29W5oten') as PublicKey;
  assert.equal(check(crafted(HONEST), NOW, p256), 'signature_invalid');
  const both = policyFor(crafted(HONEST), NOW, { algorithms: ['ed25519', 'ecdsa-p256-sha256'] });
  assert.equal(codeOf(verifyWith(p256, crafted(`${HONEST};alg="ed25519"`), both)), 'signature_invalid');
  assert.equal(codeOf(verifyWith(p256, crafted(HONEST), both)), 'signature_failed');
});

test('time: Date and created within the window, expires not past; 300 s itself passes', () => {
  const at = (seconds: number): string => check(crafted(HONEST), NOW + seconds * 1000);
  assert.equal(at(300), 'accepted');
  assert.equal(at(-300), 'accepted');
  assert.equal(at(301), 'signature_stale');
  assert.equal(at(-301), 'signature_stale');
  assert.equal(check(crafted(`${COVERED};keyid="${KEY}"`)), 'accepted');
  assert.equal(check(crafted(`${COVERED};keyid="${KEY}"`), NOW + 301_000), 'signature_stale');
  assert.equal(check(crafted(`${COVERED};keyid="${KEY}";created=1789999000`)), 'signature_stale');
  assert.equal(check(crafted(`${HONEST};expires=1789999999`)), 'signature_stale');
  assert.equal(check(crafted(`${HONEST};expires=1790000000`)), 'accepted');
  assert.equal(
    check(crafted(`${HONEST};expires=1790000001;nonce=";expires=9999999999"`), NOW + 2_000),
    'signature_stale',
  );
});

test('Date: the three forms of RFC 9110 §5.6.7, no other', async () => {
  const time = Date.UTC(1994, 10, 6, 8, 49, 37);
  for (const text of ['Sun, 06 Nov 1994 08:49:37 GMT', 'Sunday, 06-Nov-94 08:49:37 GMT', 'Sun Nov  6 08:49:37 1994']) {
    assert.equal(parseHttpDate(text, NOW), time);
  }
  for (const text of [
    '1994-11-06T08:49:37Z',
    'Sun, 6 Nov 1994 08:49:37 GMT',
    'Sun, 06 Nov 1994 08:49:37',
    'Sun, 06 Nov 1994 08:49:37 UTC',
    'Sun, 31 Feb 1994 08:49:37 GMT',
    'Sun, 06 Nov 1994 24:49:37 GMT',
    'Sun, 06 nov 1994 08:49:37 GMT',
    '784111777',
    '',
    ' Sun, 06 Nov 1994 08:49:37 GMT',
  ]) {
    assert.equal(parseHttpDate(text, NOW), undefined, text);
  }
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 4_102_444_800 }), (seconds) => {
      assert.equal(parseHttpDate(formatHttpDate(seconds * 1000), NOW), seconds * 1000);
    }),
  );
  assert.equal(check(await signed({}, (h) => h.set('Date', '2026-09-21T14:13:20Z'))), 'signature_malformed');
  const honest = crafted(HONEST);
  const twice = { ...honest, headers: fields([...honest.headers.raw, ['Date', formatHttpDate(NOW)]]) };
  assert.equal(codeOf(readSignature(twice, policyFor(twice, NOW))), 'signature_malformed');
  assert.equal(
    check({ ...honest, headers: fields(honest.headers.raw.filter(([name]) => name !== 'Date')) }),
    'signature_invalid',
  );
});

test('missing and malformed are told apart; a signature has one spelling', async () => {
  assert.equal(check(request()), 'signature_missing');
  assert.equal(check(request({ headers: [['Signature', 'keyId="x",signature="YQ=="']] })), 'signature_missing');
  assert.equal(check(await signed({}, (h) => h.delete('Signature'))), 'signature_malformed');
  const respelt = async (change: (text: string) => string): Promise<string> =>
    check(await signed({}, (h) => h.set('Signature', change(h.get('Signature')!))));
  assert.equal(await respelt((text) => text.replace('==:', ':')), 'signature_malformed');
  // 64 bytes leave four unused bits in the last character; any but zero spells the same bytes again.
  assert.equal(
    await respelt((text) =>
      text.replace(/.==:$/, (c) => `${c[0] === 'A' ? 'B' : String.fromCharCode(c.charCodeAt(0) + 1)}==:`),
    ),
    'signature_malformed',
  );
  assert.equal(await respelt(() => `sig1=:${Buffer.alloc(63).toString('base64')}:`), 'signature_malformed');
  assert.equal(await respelt(() => `sig1=:${Buffer.alloc(64).toString('base64')}:`), 'signature_failed');
  assert.equal(await respelt(() => 'sig1="text"'), 'signature_malformed');
  assert.equal(
    check(await signed({}, (h) => h.set('Signature-Input', `${h.get('Signature-Input')}${';x=1'.repeat(3000)}`))),
    'signature_malformed',
  );
});

test('the replay key is the same for the same signature and another for each other one', async () => {
  const incoming = await signed();
  const key = (r: SignedRequest): string =>
    (verifyWith(pairA.publicKey, r, policyFor(r, NOW)) as VerifiedSignature).replayKey;
  const relabelled = {
    ...incoming,
    headers: fields(incoming.headers.raw.map(([name, text]) => [name, text.replace('sig1=', 'again=')])),
  };
  assert.equal(key(relabelled), key(incoming));
  assert.notEqual(key(await signed()), key(incoming), 'the nonce tells equal requests apart');
});

test('a query parameter has one value, percent-encoded as forms are', () => {
  const param = (target: string, name: string): string | Refusal =>
    value(`"@query-param";name="${name}"`, request({ target }));
  assert.equal(param("/x?a=!'()~*-._%7E", 'a'), '%21%27%28%29%7E*-._%7E');
  assert.equal(param('/x?a=1&b=2', 'b'), '2');
  assert.equal(codeOf(param('/x?a=1&a=2', 'a')), 'signature_invalid');
  assert.equal(codeOf(param('/x?a=1&%61=2', 'a')), 'signature_invalid');
  assert.equal(codeOf(param('/x', 'a')), 'signature_invalid');
});

test('the base names no component twice, in whatever order its parameters stand', () => {
  const message = request({ headers: [['content-digest', 'sha-256=:AAAA:']] });
  const twice = [component('"content-digest";sf'), component('"content-digest";sf')];
  assert.equal(codeOf(signatureBase(twice, '()', message)), 'signature_malformed');
  assert.ok(
    signatureBase([component('"content-digest"'), component('"content-digest";sf')], '()', message) instanceof Buffer,
  );
});

test('a display string has no escapes', () => {
  const read = readDictionary('a=1;x=%"\\";c=1, b=2');
  assert.ok(typeof read !== 'string', read as string);
  assert.deepEqual([...read.keys()], ['a', 'b']);
  assert.equal(typeof readDictionary('a=1;x=%"\\";c=1;c=2, b=2'), 'string');
});

test('a value that could forge a line of the base is refused', () => {
  for (const text of ['a\r\n"@method": GET', 'a\nb', 'é', 'a\u0000b']) {
    assert.equal(
      codeOf(signatureBase([component('"x"')], '("x")', request({ headers: [['x', text]] }))),
      'signature_malformed',
    );
  }
});

test('no header makes the reading throw', () => {
  const piece = fc.constantFrom(
    'sig1',
    '=',
    '(',
    ')',
    '"',
    '"@method"',
    '"date"',
    ';',
    'keyid',
    'created=1',
    ',',
    ' ',
    ':',
    ':AAAA:',
    '\\',
    '%"',
    '?1',
    '@1',
    '1.5',
    'é',
    '-',
  );
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.array(piece, { maxLength: 25 }).map((parts) => parts.join('')),
  );
  fc.assert(
    fc.property(text, text, text, (a, b, c) => {
      const incoming = request({
        headers: [
          ['Signature-Input', a],
          ['Signature', b],
          ['Date', c],
          ['Content-Digest', b],
        ],
      });
      assert.notEqual(codeOf(verifyWith(pairA.publicKey, incoming, policyFor(incoming, NOW))), 'accepted');
      readDictionary(a);
    }),
    { numRuns: 2000 },
  );
});

test('a member of a dictionary has the text that said so', () => {
  const key = fc.stringMatching(/^[a-z*][a-z0-9_.*-]{0,5}$/);
  const text = fc.stringMatching(/^[ -~]{0,8}$/).map((s) => `"${s.replace(/["\\]/g, '\\$&')}"`);
  const item = fc
    .tuple(text, fc.uniqueArray(key, { maxLength: 3 }), text)
    .map(([v, names, p]) => v + names.map((n) => `;${n}=${p}`).join(''));
  const member = fc.oneof(
    item,
    fc
      .tuple(fc.array(item, { maxLength: 3 }), fc.uniqueArray(key, { maxLength: 2 }), text)
      .map(([items, names, p]) => `(${items.join(' ')})${names.map((n) => `;${n}=${p}`).join('')}`),
  );
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.tuple(key, member), { selector: ([k]) => k, maxLength: 4 }),
      fc.constantFrom(',', ', ', ' , ', '\t,\t'),
      (members, comma) => {
        const read = readDictionary(members.map(([k, v]) => `${k}=${v}`).join(comma));
        assert.ok(typeof read !== 'string', read as string);
        assert.deepEqual(
          [...read].map(([k, m]) => [k, m.text]),
          members,
        );
        if (members.length === 0) return;
        const [k, v] = members[0]!;
        assert.equal(typeof readDictionary([...members, [k, v]].map((m) => m.join('=')).join(comma)), 'string');
      },
    ),
    { numRuns: 500 },
  );
});
