import { signRequest } from '../identity/http-signature/sign.ts';
import { generateSeed, KeyPair } from '../identity/keys.ts';

/** A key of a did:web, as a program of yours keeps it. */
export interface SigningKey {
  /** Under which others find the public half: `did:web:example.com#key-1`. */
  keyId: string;
  /** 32 bytes, or the same as base64url; or a pair that was made of them. */
  key: KeyPair | Uint8Array | string;
}

/** A program that signs, and what it shows of itself. */
export interface SigningPeer {
  keyId: string;
  key: KeyPair;
  /** The secret, as base64url, for keeping it. */
  seed: string;
  /** For `https://…/did.json` of the DID: its content type is `application/did+json`. */
  document: object;
}

export interface SignedFetchOptions {
  /** Sends what was signed. Default: the one of Node. */
  fetch?: typeof fetch;
}

const extension = 'https://www.rfc-editor.org/rfc/rfc9421';

/**
 * A `fetch` that signs every request (RFC 9421, Ed25519), declares to A2A servers that it does, and follows no redirect, for a signature is for one
 * address. Bodies are read whole before they are sent: what is signed is what leaves.
 *
 *     const client = await new ClientFactory({ transports: [new JsonRpcTransportFactory({ fetchImpl: signedFetch(key) })] })
 *       .createFromUrl('https://acme.com/agents/ana');
 */
export function signedFetch({ keyId, key }: SigningKey, options: SignedFetchOptions = {}): typeof fetch {
  const pair = pairOf(key);
  const send = options.fetch ?? fetch;
  return async (input, init) => {
    // What is no text or bytes is read here, and needs this word to be taken at all.
    const request = new Request(input, { ...init, ...(init?.body && { duplex: 'half' }) } as RequestInit);
    const { method, signal } = request;
    const url = request.url.replace(/#.*$/, '');
    const bytes = method === 'GET' || method === 'HEAD' ? undefined : new Uint8Array(await request.arrayBuffer());
    const body = bytes?.length ? bytes : undefined;
    const signed = await signRequest({ method, url, ...(body && { body }) }, { keyId, key: pair, now: Date.now() });
    const headers = new Headers(request.headers);
    for (const [name, value] of Object.entries(signed)) headers.set(name, value);
    declare(headers);
    return send(url, { method, headers, signal, redirect: 'error', ...(body && { body }) });
  };
}

/** A new peer under a did:web of yours, or the one whose secret you kept. */
export function signingPeer(did: string, seed?: Uint8Array | string): SigningPeer {
  const secret = seed === undefined ? generateSeed() : bytesOf(seed);
  const key = new KeyPair(secret);
  const keyId = `${did}#key-1`;
  const type = 'Ed25519VerificationKey2020';
  const method = { id: keyId, type, controller: did, publicKeyMultibase: key.publicKeyMultibase };
  return {
    keyId,
    key,
    seed: Buffer.from(secret).toString('base64url'),
    document: {
      '@context': ['https://www.w3.org/ns/did/v1', 'https://w3id.org/security/suites/ed25519-2020/v1'],
      id: did,
      verificationMethod: [method],
      authentication: [keyId],
      assertionMethod: [keyId],
    },
  };
}

/** A2A §3.2.6: beside what the caller declares itself; 0.3 knows the header by another name. */
function declare(headers: Headers): void {
  const isVersion1 = /^1\b/.test(headers.get('a2a-version') ?? '');
  for (const name of isVersion1 ? ['a2a-extensions'] : ['a2a-extensions', 'x-a2a-extensions']) {
    const given = (headers.get(name) ?? '').split(',').map((uri) => uri.trim());
    headers.set(name, [...new Set([...given, extension])].filter((uri) => uri !== '').join(', '));
  }
}

function pairOf(key: SigningKey['key']): KeyPair {
  return key instanceof KeyPair ? key : new KeyPair(bytesOf(key));
}

function bytesOf(seed: Uint8Array | string): Uint8Array {
  return typeof seed === 'string' ? Buffer.from(seed, 'base64url') : seed;
}
