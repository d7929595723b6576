import { didWebParts, isDidWeb, parseDidUrl } from '../../identity/did.ts';
import {
  readSignature,
  requiredCoverage,
  type SignatureClaim,
  verifySignature,
} from '../../identity/http-signature/verify.ts';
import type { HttpRequest } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import type { Called, Claim, Tools } from '../facts.ts';

const WINDOW_SECONDS = 300;

export function isSigned({ headers }: HttpRequest): boolean {
  return headers.get('signature-input') !== undefined || headers.get('signature') !== undefined;
}

/** All that can be judged of a signature without its key: form, coverage, age, the body's digest, whom it was meant for. */
export function claimSignature(request: HttpRequest, { clock, self }: Tools, bodyUnread: boolean): Claim | Refusal {
  if (!self.authorities.includes(request.authority)) {
    const [expected] = self.authorities;
    return refuse('signature_invalid', `Sign for the authority "${expected}": that is the name of this gateway.`, {
      data: { authority: expected },
    });
  }
  const signature = readSignature(request, {
    coverage: [...requiredCoverage(request), ...(bodyUnread ? [['content-digest']] : [])],
    bodyUnread,
    algorithms: ['ed25519'],
    now: clock.now(),
    windowSeconds: WINDOW_SECONDS,
    acceptKeyId: (keyId) => keyId.startsWith('did:web:'),
  });
  if (signature instanceof Refusal) return signature;
  const url = parseDidUrl(signature.keyId, { allowIp: true });
  if (url instanceof Refusal) return url;
  if (!isDidWeb(url.did)) return refuse('signature_invalid', 'The keyid must be a key of a did:web.');
  return { kind: 'signature', name: signature.keyId, domain: didWebParts(url.did).authority, signature };
}

/** The one place where a request may cost a DID document. */
export async function proveSignature(
  request: HttpRequest,
  signature: SignatureClaim,
  { resolver }: Tools,
): Promise<Called | Refusal> {
  const key = await resolver.key(signature.keyId, 'authentication');
  if (key instanceof Refusal) return key;
  const verified = verifySignature(request, signature, key.publicKey);
  if (verified instanceof Refusal) return verified;
  if (!isDidWeb(key.did)) return refuse('signature_invalid');
  const { authority, segments } = didWebParts(key.did);
  return {
    principal: {
      kind: 'signer',
      did: key.did,
      domain: authority,
      keyId: verified.keyId,
      isInstance: segments.length === 0,
    },
    proof: { coversBody: verified.coversBody, fingerprint: Buffer.from(verified.replayKey, 'base64url') },
  };
}
