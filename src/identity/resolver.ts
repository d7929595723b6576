import { type DIDDocument, type DIDResolutionResult, Resolver } from 'did-resolver';
import { Refusal, refuse } from '../lib/refusal.ts';
import type { PublicKey } from './algorithms.ts';
import { type Did, type DidKey, type DidOptions, type DidWeb, parseDid, parseDidUrl } from './did.ts';
import { type DidDocument, didKeyDocument, type KeyPurpose, pickKey } from './document.ts';
import { WebDocuments, type WebDocumentsOptions } from './web-documents.ts';

export interface ResolverOptions extends WebDocumentsOptions, DidOptions {}

export interface ResolvedKey {
  readonly did: Did;
  /** The full id of the verification method, as it was asked for. */
  readonly keyId: string;
  readonly publicKey: PublicKey;
  readonly document: DidDocument;
}

/**
 * DIDs to documents and keys: did:web over the guarded fetch and its cache, did:key by itself. The registry is did-resolver's; its own
 * cache is not used (no end, no bound, keyed by fragment).
 */
export class DidResolver {
  readonly #registry: Resolver;
  readonly #options: DidOptions;

  constructor(options: ResolverOptions) {
    this.#options = { allowIp: options.allowIp ?? false };
    const web = new WebDocuments(options);
    this.#registry = new Resolver({
      web: async (did, _parsed, _registry, { refetch }) => {
        const { result, fetched } = await web.load(did as DidWeb, refetch === true);
        return resolution(result, fetched);
      },
      key: async (did) => resolution(didKeyDocument(did as DidKey), true),
    });
  }

  /** Refusals: `invalid_did`, `unsupported_key` (did:key), `did_resolution_failed` (why is in `detail`, for the log alone). */
  async resolve(text: string): Promise<DidDocument | Refusal> {
    const did = parseDid(text, this.#options);
    return did instanceof Refusal ? did : (await this.#load(did, false)).result;
  }

  /**
   * The public key that a proof names by its full verification-method id. A key that a cached document does not list makes the document be
   * fetched again, once: the signer may have rotated. Refusals: those of `resolve` and of `pickKey`.
   */
  async key(keyId: string, purpose: KeyPurpose = 'authentication'): Promise<ResolvedKey | Refusal> {
    const url = parseDidUrl(keyId, this.#options);
    if (url instanceof Refusal) return url;
    let { result: document, fetched } = await this.#load(url.did, false);
    if (document instanceof Refusal) return document;
    let key = pickKey(document, keyId, purpose);
    if (key instanceof Refusal && key.code === 'key_not_found' && !fetched) {
      ({ result: document } = await this.#load(url.did, true));
      if (document instanceof Refusal) return document;
      key = pickKey(document, keyId, purpose);
    }
    return key instanceof Refusal ? key : { did: url.did, keyId, publicKey: key, document };
  }

  async #load(did: Did, refetch: boolean): Promise<{ result: DidDocument | Refusal; fetched: boolean }> {
    const { didDocument, didResolutionMetadata } = await this.#registry.resolve(did, { refetch });
    const fetched = didResolutionMetadata.fetched === true;
    if (didDocument) return { result: didDocument as DidDocument, fetched };
    const refusal: unknown = didResolutionMetadata.refusal;
    return { result: refusal instanceof Refusal ? refusal : refuse('invalid_did'), fetched };
  }
}

function resolution(result: DidDocument | Refusal, fetched: boolean): DIDResolutionResult {
  if (result instanceof Refusal) {
    return {
      didDocument: null,
      didDocumentMetadata: {},
      didResolutionMetadata: { error: 'notFound', refusal: result, fetched },
    };
  }
  return {
    didDocument: result as DIDDocument,
    didDocumentMetadata: {},
    didResolutionMetadata: { contentType: 'application/did+json', fetched },
  };
}
