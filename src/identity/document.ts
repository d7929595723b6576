import type { DIDDocument, Service, VerificationMethod } from 'did-resolver';
import { type Refusal, refuse } from '../lib/refusal.ts';
import { keyOfMethod, type PublicKey, toMultikey } from './algorithms.ts';
import { type Did, type DidKey, keyOfDidKey } from './did.ts';

export type { Service, VerificationMethod } from 'did-resolver';

/** What a key is used for here: signing requests (`authentication`) or statements (`assertionMethod`). */
export type KeyPurpose = 'authentication' | 'assertionMethod';

/** A DID document after `readDocument`: the right id, bounded, every id absolute. What is not understood was left out. */
export type DidDocument = Readonly<DIDDocument> & { readonly id: Did };

const MAX_ENTRIES = 64;
const MAX_ID = 1024;
const RELATIONSHIPS = ['authentication', 'assertionMethod', 'keyAgreement'] as const;

/**
 * Reads the JSON that was found for `did` (DID Core §5). It must say the same `id`, byte for byte. A single malformed method does not spoil
 * the document: it is simply not there. Refusal: `did_resolution_failed`.
 */
export function readDocument(did: Did, json: unknown): DidDocument | Refusal {
  if (!isObject(json)) return unreadable(did, 'the document is no JSON object');
  if (json.id !== did) return unreadable(did, 'the document has another id');
  const lists = [json.verificationMethod, json.service, json.alsoKnownAs, ...RELATIONSHIPS.map((name) => json[name])];
  if (lists.some((list) => Array.isArray(list) && list.length > MAX_ENTRIES)) {
    return unreadable(did, `a list of the document has more than ${MAX_ENTRIES} entries`);
  }
  const document: DIDDocument & { id: Did } = {
    id: did,
    verificationMethod: items(json.verificationMethod).flatMap((method) => readMethod(did, method) ?? []),
    alsoKnownAs: items(json.alsoKnownAs).filter((name) => typeof name === 'string'),
    service: items(json.service).flatMap((service) => readService(did, service) ?? []),
  };
  for (const name of RELATIONSHIPS) {
    // Absent and empty differ: see `mayBeUsedFor`.
    if (json[name] === undefined) continue;
    document[name] = items(json[name]).flatMap((entry) =>
      typeof entry === 'string' ? absolute(did, entry) : (readMethod(did, entry) ?? []),
    );
  }
  return document;
}

/**
 * The key with this full id, if the document allows it for this purpose. Refusals: `key_not_found`, `key_not_authorized`,
 * `unsupported_key` (with the method's id and the reason in its words).
 */
export function pickKey(document: DidDocument, keyId: string, purpose: KeyPurpose): PublicKey | Refusal {
  const found = methodsOf(document).filter((method) => method.id === keyId);
  if (found.length === 0) return refuse('key_not_found', undefined, { detail: keyId });
  if (!mayBeUsedFor(document, keyId, purpose)) {
    return refuse('key_not_authorized', `The DID document does not list that key for ${purpose}.`, { detail: keyId });
  }
  if (found.length > 1) return unsupported(keyId, 'the document has more than one method of that id');
  const [method] = found;
  if (method!.controller !== document.id) return unsupported(keyId, 'its controller is another DID');
  const key = keyOfMethod(method! as unknown as Record<string, unknown>);
  return typeof key === 'string' ? unsupported(keyId, key) : key;
}

/** Every usable key for a purpose, in the document's order. For proofs that name no key (capability tokens). */
export function keysFor(document: DidDocument, purpose: KeyPurpose): readonly { id: string; publicKey: PublicKey }[] {
  const ids = new Set(methodsOf(document).map((method) => method.id));
  return [...ids].flatMap((id) => {
    const key = pickKey(document, id, purpose);
    return 'raw' in key ? { id, publicKey: key } : [];
  });
}

/** The document of a did:key (did:key §3.1): one method, good for signing. */
export function didKeyDocument(did: DidKey): DidDocument {
  const multikey = toMultikey(keyOfDidKey(did));
  const id = `${did}#${multikey}`;
  return {
    id: did,
    verificationMethod: [{ id, type: 'Multikey', controller: did, publicKeyMultibase: multikey }],
    authentication: [id],
    assertionMethod: [id],
  };
}

function methodsOf(document: DidDocument): VerificationMethod[] {
  const embedded = RELATIONSHIPS.flatMap((name) => document[name] ?? []).filter((entry) => typeof entry !== 'string');
  return [...(document.verificationMethod ?? []), ...embedded];
}

// A document without `authentication` at all lets every key of its list sign requests (confer-wire-facts §1); an empty list lets none.
// An embedded method serves only the relationship that it stands in (DID Core §5.3).
function mayBeUsedFor(document: DidDocument, keyId: string, purpose: KeyPurpose): boolean {
  const listed = document[purpose];
  if (listed) return listed.some((entry) => (typeof entry === 'string' ? entry : entry.id) === keyId);
  return purpose === 'authentication' && (document.verificationMethod ?? []).some((method) => method.id === keyId);
}

function readMethod(did: Did, value: unknown): VerificationMethod | undefined {
  if (!isObject(value) || typeof value.id !== 'string' || value.id.length > MAX_ID) return undefined;
  if (typeof value.type !== 'string') return undefined;
  const controller = value.controller === undefined ? did : value.controller;
  return { ...value, id: absolute(did, value.id), type: value.type, controller: String(controller) };
}

function readService(did: Did, value: unknown): Service | undefined {
  if (!isObject(value) || typeof value.id !== 'string' || typeof value.type !== 'string') return undefined;
  return { ...value, id: absolute(did, value.id) } as Service;
}

/** DID Core §3.2.2: a relative DID URL resolves against the document's id. */
function absolute(did: Did, id: string): string {
  return id.startsWith('#') ? did + id : id;
}

function items(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function unsupported(keyId: string, why: string): Refusal {
  return refuse('unsupported_key', `${keyId} is not accepted: ${why}.`);
}

function unreadable(did: Did, why: string): Refusal {
  return refuse('did_resolution_failed', undefined, { detail: `${did}: ${why}` });
}
