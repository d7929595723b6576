import { ownerOfDid } from '../src/directory/dids.ts';
import type { DidFacts } from '../src/directory/facts.ts';

/** Where this instance stands. Every URL in a public document comes from the configuration, never from a request (A2A-03). */
export interface Place {
  /** The public base URL without a slash at its end. */
  readonly base: string;
  /** Its authority: what did:web has. */
  readonly authority: string;
}

const context = ['https://www.w3.org/ns/did/v1', 'https://w3id.org/security/suites/ed25519-2020/v1'];

/**
 * The DID document of the instance, of an owner or of an agent (DID Core §5, did:web §3.2, confer-wire-facts §5). The ids of methods are those
 * that were stored, so that what an old key signed still finds it. An agent stands under the control of its owner.
 */
export function didDocument(place: Place, facts: DidFacts): object {
  const { did, methods, alsoKnownAs, controller } = facts;
  const ids = methods.map((method) => method.id);
  const owner = ownerOfDid(did);
  return {
    '@context': context,
    id: did,
    ...(owner !== null && owner !== did && { controller: owner }),
    ...(alsoKnownAs.length > 0 && { alsoKnownAs }),
    verificationMethod: methods.map(({ id, publicKeyMultibase }) => ({
      id,
      type: 'Ed25519VerificationKey2020',
      controller,
      publicKeyMultibase,
    })),
    authentication: ids,
    assertionMethod: ids,
    service: [
      { id: `${did}#confer-agent`, type: 'ConferAgent', serviceEndpoint: `${place.base}/a2a/v1` },
      ...(owner === null
        ? [
            {
              id: `${did}#gatehouse-federation`,
              type: 'GatehouseFederation',
              serviceEndpoint: `${place.base}/federation/v1`,
            },
          ]
        : []),
    ],
  };
}
