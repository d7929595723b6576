import assert from 'node:assert/strict';
import { createPrivateKey, createPublicKey } from 'node:crypto';
import { after, describe, it } from 'node:test';
import {
  type AgentCard,
  AgentCard as Codec,
  canonicalizeAgentCard,
  generateAgentCardSignature,
  verifyAgentCardSignature,
} from '@a2a-js/sdk';
import { fromMultikey } from '../src/identity/algorithms.ts';
import { canonicalJson } from '../src/identity/canonical.ts';
import { sealCard } from '../src/identity/card-seal.ts';
import { parseDidUrl } from '../src/identity/did.ts';
import { KeyPair } from '../src/identity/keys.ts';
import { Refusal } from '../src/lib/refusal.ts';
import type { TestGateway } from './support/gateway.ts';
import { strangers } from './support/pair.ts';

const key = new KeyPair(Buffer.alloc(32, 'card'));
const sealer = { keyId: 'did:web:acme.test#key-1', pair: key };
const jwk = { kty: 'OKP', crv: 'Ed25519', x: key.publicKey.raw.toString('base64url') };

/** Verifies with the SDK, without its notes on the entries that do not verify. */
async function verify(card: object, find: (kid: string, jku?: string) => Promise<object>): Promise<void> {
  const { debug } = console;
  console.debug = () => {};
  try {
    // As it was served, and as the SDK's resolver hands it on: read by its codec.
    await verifyAgentCardSignature(find as never)(card as AgentCard);
    await verifyAgentCardSignature(find as never)(Codec.fromJSON(card));
  } finally {
    console.debug = debug;
  }
}

const plain = {
  name: 'close',
  description: 'Closes the books. ',
  supportedInterfaces: [{ url: 'https://acme.test/a2a', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
  version: '1',
  capabilities: { streaming: false, extensions: [{ uri: 'https://x.test', params: { b: 1, a: '' } }] },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [{ id: 'ask', name: 'Ask', description: 'Asks. é😀', tags: [] }],
};
const hybrid = { protocolVersion: '0.3.0', ...plain, url: 'https://acme.test/', did: 'did:key:z6Mk' };

describe('a sealed card', () => {
  it("verifies with the SDK's own verifier, in either form", async () => {
    for (const card of [sealCard(plain, plain, sealer), sealCard(hybrid, plain, sealer)]) {
      await verify(card, async (kid) => {
        assert.equal(kid, sealer.keyId);
        return jwk;
      });
    }
  });

  it('what a reader of 1.0 makes of it is what the SDK signs', async () => {
    const read = Codec.fromJSON(plain);
    const pkcs8 = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), Buffer.alloc(32, 'card')]);
    const signer = generateAgentCardSignature(createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' }), {
      alg: 'EdDSA',
      kid: sealer.keyId,
      typ: 'JOSE',
    });
    const theirs = (await signer(read)).signatures.map(({ signature }) => signature);
    const ours = sealCard(hybrid, plain, sealer).signatures.map(({ signature }) => signature);
    assert.deepEqual(
      theirs.filter((one) => ours.includes(one)),
      theirs,
    );
  });

  it('a reader that takes the card as it is finds it signed too', () => {
    const { signatures, ...rest } = sealCard(hybrid, plain, sealer);
    const payload = canonicalJson(rest);
    assert.ok(typeof payload === 'string');
    const found = signatures.some((one) => {
      const data = Buffer.from(`${one.protected}.${Buffer.from(payload).toString('base64url')}`);
      return key.sign(data).toString('base64url') === one.signature;
    });
    assert.ok(found);
    assert.deepEqual(JSON.parse(Buffer.from(signatures[0]!.protected, 'base64url').toString()), {
      alg: 'EdDSA',
      kid: sealer.keyId,
      typ: 'JOSE',
    });
  });

  it('a card without anything empty needs one signature', () => {
    const full = { ...plain, skills: [{ ...plain.skills[0]!, tags: ['ask'] }], capabilities: { streaming: false } };
    assert.equal(sealCard(full, full, sealer).signatures.length, 1);
    assert.equal(canonicalizeAgentCard(Codec.fromJSON(full)), canonicalJson(full));
  });

  it('does not verify once a word of it is changed, or under another key', async () => {
    const card = sealCard(hybrid, plain, sealer);
    await assert.rejects(verify({ ...card, description: 'Opens the books.' }, async () => jwk));
    const other = new KeyPair(Buffer.alloc(32, 'other')).publicKey.raw.toString('base64url');
    await assert.rejects(verify(card, async () => ({ ...jwk, x: other })));
  });

  it('is the same every time', () => {
    assert.deepEqual(sealCard(hybrid, plain, sealer), sealCard({ ...hybrid }, { ...plain }, sealer));
  });
});

describe('two companies', async () => {
  const { acme, globex } = await strangers({ after });
  const billing = 'globex/erp/bob/billing';
  await globex.admin.announce(billing, { allow: ['anyone'], description: 'Knows what is paid.' });
  const paths = ['/.well-known/agent-card.json', '/agents/bob/erp/billing/.well-known/agent-card.json'];

  /** The key that a signature names, by the DID document behind it. */
  async function fromDid(kid: string): Promise<object> {
    const url = parseDidUrl(kid, { allowIp: true });
    assert.ok(!(url instanceof Refusal));
    const authority = url.did.slice('did:web:'.length).replace('%3A', ':');
    const document = (await (await fetch(`http://${authority}/.well-known/did.json`)).json()) as {
      verificationMethod: Array<{ id: string; publicKeyMultibase: string }>;
    };
    const method = document.verificationMethod.find(({ id }) => id === kid);
    const found = fromMultikey(method!.publicKeyMultibase);
    assert.ok(typeof found !== 'string');
    return { kty: 'OKP', crv: 'Ed25519', x: found.raw.toString('base64url') };
  }

  async function fromJku(kid: string, jku?: string): Promise<object> {
    const { keys } = (await (await fetch(jku!)).json()) as { keys: Array<{ kid: string }> };
    return keys.find((one) => one.kid === kid)!;
  }

  for (const [name, find] of [
    ['by the DID document', fromDid],
    ['by the key set', fromJku],
  ] as const) {
    it(`the cards of the one verify for the other, in every form: ${name}`, async () => {
      for (const gateway of [acme, globex] satisfies TestGateway[]) {
        for (const path of gateway === globex ? paths : paths.slice(0, 1)) {
          for (const headers of [{}, { 'a2a-version': '1.0' }] as Record<string, string>[]) {
            const { status, json } = await gateway.call('GET', path, { token: null, headers });
            assert.equal(status, 200);
            await verify(json as AgentCard, find);
            await assert.rejects(verify({ ...json, name: 'mallory' }, find));
          }
        }
      }
    });
  }

  it('a signed card keeps its ETag, and gets another when it changes', async () => {
    const tag = async (): Promise<string | null> =>
      (await globex.call('GET', paths[1]!, { token: null })).headers.get('etag');
    const before = await tag();
    assert.equal(await tag(), before);
    await globex.admin.announce(billing, { allow: ['anyone'], description: 'Knows what was paid.' });
    assert.notEqual(await tag(), before);
  });

  it('the public agents stand in an AI Catalog, by the URLs of their cards', async () => {
    const { headers, json } = await globex.call('GET', '/.well-known/ai-catalog.json', { token: null });
    assert.equal(headers.get('content-type'), 'application/ai-catalog+json');
    assert.deepEqual(json, {
      specVersion: '1.0',
      host: { displayName: 'globex', identifier: globex.did },
      entries: [
        {
          identifier: `urn:air:${globex.authority.replace(':', '%3A')}:agents:bob:erp:billing`,
          type: 'application/a2a-agent-card+json',
          url: `${globex.url}/agents/bob/erp/billing/.well-known/agent-card.json`,
        },
      ],
    });
    const listed = await globex.call('GET', '/.well-known/agents.json', { token: null });
    assert.equal(listed.json.agents.length, json.entries.length);
    const { url } = json.entries[0]!;
    assert.equal((await globex.call('GET', url.slice(globex.url.length), { token: null })).status, 200);
    assert.deepEqual((await acme.call('GET', '/.well-known/ai-catalog.json', { token: null })).json.entries, []);
  });

  it('the keys of the instance stand in both directories', async () => {
    const set = await globex.call('GET', '/.well-known/jwks.json', { token: null });
    assert.equal(set.headers.get('content-type'), 'application/jwk-set+json');
    assert.deepEqual(
      set.json.keys.map(({ kid, kty, crv, use }: Record<string, string>) => [kid, kty, crv, use]),
      [[`${globex.did}#key-1`, 'OKP', 'Ed25519', 'sig']],
    );
    const directory = await globex.call('GET', '/.well-known/http-message-signatures-directory', { token: null });
    assert.equal(directory.headers.get('content-type'), 'application/http-message-signatures-directory+json');
    assert.deepEqual(directory.json, set.json);
    const [first] = set.json.keys;
    assert.equal(createPublicKey({ key: first, format: 'jwk' }).asymmetricKeyType, 'ed25519');
  });
});
