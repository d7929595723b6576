import type { DidFacts } from '../src/directory/facts.ts';
import { fromMultikey } from '../src/identity/algorithms.ts';

/**
 * The keys with which the instance signs cards and calls, for readers that know no DIDs: a JWK Set (RFC 7517 §5, RFC 8037 §2), also served as the
 * directory of draft-meunier-webbotauth-httpsig-directory. `kid` is what our signatures name: the verification method of the DID document.
 */
export function keyDirectory({ methods }: Pick<DidFacts, 'methods'>): object {
  return {
    keys: methods.flatMap(({ id, publicKeyMultibase }) => {
      const key = fromMultikey(publicKeyMultibase);
      if (typeof key === 'string') return [];
      return [{ kty: 'OKP', crv: 'Ed25519', kid: id, use: 'sig', x: key.raw.toString('base64url') }];
    }),
  };
}
