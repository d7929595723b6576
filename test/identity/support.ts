import { readFileSync } from 'node:fs';
import type { PublicKey } from '../../src/identity/algorithms.ts';
import type { SignaturePolicy, SignedRequest, VerifiedSignature } from '../../src/identity/http-signature/verify.ts';
import { readSignature, requiredCoverage, verifySignature } from '../../src/identity/http-signature/verify.ts';
import { type KeyPair, keyPair } from '../../src/identity/keys.ts';
import type { Fetch, FetchInit } from '../../src/lib/fetch-types.ts';
import type { HeaderFields } from '../../src/lib/http.ts';
import { Refusal } from '../../src/lib/refusal.ts';

// biome-ignore lint/suspicious/noExplicitAny: published vectors of many shapes
export function vectors(name: string): any {
  return JSON.parse(readFileSync(`test/vectors/${name}.json`, 'utf8'));
}

export type RawHeaders = ReadonlyArray<readonly [string, string]>;

export function fields(raw: RawHeaders): HeaderFields {
  const all = (name: string): string[] => raw.filter(([key]) => key.toLowerCase() === name).map(([, value]) => value);
  return { raw, all, get: (name) => (all(name).length > 0 ? all(name).join(', ') : undefined) };
}

export interface RequestParts {
  method?: string;
  target?: string;
  authority?: string;
  scheme?: 'http' | 'https';
  headers?: RawHeaders;
  body?: string | Buffer;
}

export function request(parts: RequestParts = {}): SignedRequest {
  return {
    method: parts.method ?? 'GET',
    target: parts.target ?? '/',
    authority: parts.authority ?? 'acme.test',
    scheme: parts.scheme ?? 'https',
    headers: fields(parts.headers ?? []),
    body: Buffer.from(parts.body ?? ''),
  };
}

export const pairA: KeyPair = keyPair(Buffer.alloc(32, 0x5a));
export const pairB: KeyPair = keyPair(Buffer.alloc(32, 0xc3));

export function policyFor(incoming: SignedRequest, now: number, more: Partial<SignaturePolicy> = {}): SignaturePolicy {
  return { coverage: requiredCoverage(incoming), algorithms: ['ed25519'], now, windowSeconds: 300, ...more };
}

/** Both steps, with one key for every keyid. */
export function verifyWith(
  key: PublicKey,
  incoming: SignedRequest,
  policy: SignaturePolicy,
): VerifiedSignature | Refusal {
  const claim = readSignature(incoming, policy);
  return claim instanceof Refusal ? claim : verifySignature(incoming, claim, key);
}

export function codeOf(result: unknown): string {
  return result instanceof Refusal ? result.code : 'accepted';
}

/** A web of documents, and a record of who asked for what. */
export class FakeWeb {
  readonly asked: Array<{ url: string; init: FetchInit }> = [];
  answer: (
    url: string,
    init: FetchInit,
  ) => { status?: number; headers?: Record<string, string>; body?: string } | Error = () => ({
    status: 404,
  });

  readonly fetch: Fetch = async (url, init) => {
    this.asked.push({ url, init });
    await Promise.resolve();
    const answer = this.answer(url, init);
    if (answer instanceof Error) throw answer;
    const headers: Record<string, string> = { 'content-type': 'application/did+json', ...answer.headers };
    return {
      status: answer.status ?? 200,
      headers: { get: (name) => headers[name] },
      body: Buffer.from(answer.body ?? ''),
    };
  };
}

/** The document that a Confer peer serves (confer-wire-facts §5). */
export function documentOf(did: string, keys: Record<string, KeyPair>): Record<string, unknown> {
  return {
    '@context': ['https://www.w3.org/ns/did/v1'],
    id: did,
    verificationMethod: Object.entries(keys).map(([name, pair]) => ({
      id: `${did}#${name}`,
      type: 'Ed25519VerificationKey2020',
      controller: did,
      publicKeyMultibase: pair.publicKeyMultibase,
    })),
    authentication: Object.keys(keys).map((name) => `${did}#${name}`),
  };
}
