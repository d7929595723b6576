import { randomBytes } from 'node:crypto';
import { httpbis } from 'http-message-signatures';
import type { KeyPair } from '../keys.ts';
import { contentDigest } from './digest-value.ts';
import { formatHttpDate } from './http-date.ts';

export interface OutgoingRequest {
  readonly method: string;
  /** Absolute. Its path and query are signed as they are written and must be sent so. */
  readonly url: string;
  /** The very bytes that will be sent. */
  readonly body?: Uint8Array;
}

export interface Signing {
  /** Full id of the verification method under which others find the key. */
  readonly keyId: string;
  readonly key: KeyPair;
  /** Milliseconds since 1970. */
  readonly now: number;
  /** 22 base64url characters; random when it is not given. Without it two equal requests within a second would be a replay. */
  readonly nonce?: string;
}

export interface SignatureHeaders {
  readonly Date: string;
  readonly 'Content-Digest'?: string;
  readonly 'Signature-Input': string;
  readonly Signature: string;
}

/** The headers that prove who sends a request, in the one form that we send (design §4, confer-wire-facts §1). */
export async function signRequest(
  request: OutgoingRequest,
  signing: Signing,
): Promise<SignatureHeaders & Record<string, string>> {
  const derived = deriveFrom(request);
  const headers = {
    Date: formatHttpDate(signing.now),
    ...(request.body?.length && { 'Content-Digest': contentDigest(request.body) }),
  };
  const signed = await httpbis.signMessage(
    {
      name: 'sig1',
      fields: [...derived.keys(), ...('Content-Digest' in headers ? ['content-digest'] : []), 'date'],
      // The library would normalise the URL as browsers do (`/a/%2e%2e/b`, `'`, a bare `?`); the values have to be those on the wire.
      componentParser: (name) => (derived.has(name) ? [derived.get(name)!] : null),
      params: ['keyid', 'created', 'alg', 'nonce'],
      paramValues: {
        keyid: signing.keyId,
        created: new Date(signing.now),
        alg: 'ed25519',
        nonce: signing.nonce ?? randomBytes(16).toString('base64url'),
      },
      key: { sign: async (data) => signing.key.sign(data) },
    },
    { method: request.method, url: request.url, headers },
  );
  return signed.headers as SignatureHeaders & Record<string, string>;
}

const ABSOLUTE = /^(?<scheme>https?):\/\/(?<authority>[^/?#@]+)(?<path>\/[^?#]*)?(?<query>\?[^#]*)?$/;
const DEFAULT_PORT = { http: ':80', https: ':443' };

/** Derived components in the order in which we sign them. */
function deriveFrom({ method, url }: OutgoingRequest): Map<string, string> {
  const parts = ABSOLUTE.exec(url)?.groups;
  if (!parts) throw new TypeError(`cannot sign a request to ${url}: not an absolute http(s) URL`);
  const authority = parts.authority!.toLowerCase();
  const port = DEFAULT_PORT[parts.scheme as 'http' | 'https'];
  return new Map([
    ['@method', method],
    ['@authority', authority.endsWith(port) ? authority.slice(0, -port.length) : authority],
    ['@path', parts.path ?? '/'],
    ...(parts.query === undefined ? [] : ([['@query', parts.query]] as const)),
  ]);
}
