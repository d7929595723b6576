import { createHash } from 'node:crypto';
import { type BareItem, type InnerList, isInnerList } from 'structured-headers';
import type { HttpRequest } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { type PublicKey, type SignatureAlgorithm, uniqueSignature, verify } from '../algorithms.ts';
import { signatureBase } from './base.ts';
import { type Component, identityOf, readComponent } from './components.ts';
import { checkContentDigest } from './digest.ts';
import { bytesOf, type Member, readDictionary } from './fields.ts';
import { parseHttpDate } from './http-date.ts';

export type SignedRequest = Pick<HttpRequest, 'method' | 'target' | 'authority' | 'scheme' | 'headers' | 'body'>;

/** Groups of component names. Of each group at least one must be covered, without parameters. */
export type Coverage = readonly (readonly string[])[];

export interface SignaturePolicy {
  readonly coverage: Coverage;
  readonly algorithms: readonly SignatureAlgorithm[];
  /** Milliseconds since 1970. */
  readonly now: number;
  /** How far Date and `created` may lie from `now`, both ways. `expires` has no leeway. */
  readonly windowSeconds: number;
  /** Which of several signatures may count, by its keyid. */
  readonly acceptKeyId?: (keyId: string) => boolean;
  /** The body has not been read yet: a digest of it must be covered, and is judged with the body. */
  readonly bodyUnread?: boolean;
}

/** One signature of a request that meets the policy, not yet verified. Everything in it comes from that one signature. */
export interface SignatureClaim {
  readonly label: string;
  readonly keyId: string;
  readonly components: readonly Component[];
  /** Unix seconds. */
  readonly created: number | undefined;
  readonly expires: number | undefined;
  readonly nonce: string | undefined;
  readonly tag: string | undefined;
  /** What `alg` says; it selects nothing, it can only contradict. */
  readonly algorithm: string | undefined;
  /** Whether Content-Digest is covered; if so it was compared with the body. */
  readonly coversBody: boolean;
  readonly signature: Buffer;
  /** The text after `label=`, verbatim. */
  readonly parameters: string;
  readonly policy: SignaturePolicy;
}

export interface VerifiedSignature {
  readonly label: string;
  readonly keyId: string;
  readonly algorithm: SignatureAlgorithm;
  readonly components: readonly string[];
  readonly created: number | undefined;
  readonly nonce: string | undefined;
  readonly tag: string | undefined;
  readonly coversBody: boolean;
  /** The same for two deliveries of one signature, and for nothing else: key of the replay store. Date may lie ahead, so keep it two windows. */
  readonly replayKey: string;
}

const MAX_SIGNATURES = 4;
const MAX_COMPONENTS = 32;
const MAX_FIELD = 8 * 1024;

/** What a signed call has to cover here (confer-wire-facts §1): method, whole target, body and date. */
export function requiredCoverage(request: Pick<SignedRequest, 'target' | 'body'>): Coverage {
  return [
    ['@method'],
    ['@authority', '@target-uri'],
    ['@path', '@target-uri'],
    ...(request.target.includes('?') ? [['@query', '@target-uri']] : []),
    ...(request.body.length > 0 ? [['content-digest']] : []),
    ['date'],
  ];
}

/**
 * The first step, before any key is looked up: reads the signatures, chooses one that meets the policy, and checks its age and the body's
 * digest. Refusals: `signature_missing`, `signature_malformed`, `signature_invalid`, `signature_stale`, and those of `checkContentDigest`.
 */
export function readSignature(request: SignedRequest, policy: SignaturePolicy): SignatureClaim | Refusal {
  const inputs = readField(request, 'signature-input');
  if (!inputs) return refuse('signature_missing');
  if (inputs instanceof Refusal) return inputs;
  const signatures = readField(request, 'signature');
  if (!signatures) return malformed('There is a Signature-Input but no Signature.');
  if (signatures instanceof Refusal) return signatures;
  if (inputs.size > MAX_SIGNATURES) return malformed(`There are more than ${MAX_SIGNATURES} signatures.`);

  // What is ambiguous is wrong wherever it stands; what one signature lacks for the policy leaves the others untouched.
  const ambiguous = [...inputs.values()].map(ambiguity).find((found) => found !== undefined);
  if (ambiguous) return malformed(ambiguous);

  let first: Refusal | undefined;
  for (const [label, input] of inputs) {
    const claim = readClaim(label, input, signatures.get(label), policy);
    const problem =
      claim instanceof Refusal
        ? claim
        : (freshness(claim, request) ?? (policy.bodyUnread ? undefined : digest(claim, request)));
    if (!problem) return claim as SignatureClaim;
    first ??= problem;
  }
  return first!;
}

/**
 * The second step, with the key that `claim.keyId` names: builds the signature base and verifies. Refusals: `signature_invalid` (that kind
 * of key is not accepted, or a component is not there), `signature_malformed`, `signature_failed`.
 */
export function verifySignature(
  request: SignedRequest,
  claim: SignatureClaim,
  key: PublicKey,
): VerifiedSignature | Refusal {
  if (!claim.policy.algorithms.includes(key.algorithm))
    return unmet(`Signatures by ${key.algorithm} are not accepted here.`);
  if (claim.algorithm !== undefined && claim.algorithm !== key.algorithm) {
    return unmet(`The signature says alg="${claim.algorithm}", but its key is for ${key.algorithm}.`);
  }
  const base = signatureBase(claim.components, claim.parameters, request);
  if (base instanceof Refusal) return base;
  if (!verify(key, base, claim.signature)) return refuse('signature_failed');
  const { label, keyId, created, nonce, tag, coversBody } = claim;
  return {
    label,
    keyId,
    algorithm: key.algorithm,
    components: claim.components.map((component) => component.id),
    created,
    nonce,
    tag,
    coversBody,
    replayKey: createHash('sha256')
      .update(keyId)
      .update('\0')
      .update(uniqueSignature(key, claim.signature))
      .digest('base64url'),
  };
}

function readField(
  request: SignedRequest,
  name: 'signature' | 'signature-input',
): ReadonlyMap<string, Member> | Refusal | undefined {
  const text = request.headers.get(name);
  if (text === undefined) return undefined;
  if (text.length > MAX_FIELD) return malformed(`The ${name} header is too long.`);
  const members = readDictionary(text);
  if (typeof members === 'string') return malformed(`The ${name} header is malformed: ${members}.`);
  return members.size === 0 ? undefined : members;
}

function ambiguity({ value }: Member): string | undefined {
  if (!isInnerList(value)) return 'A signature input is no list of components.';
  const [items] = value;
  if (items.length > MAX_COMPONENTS) return `A signature covers more than ${MAX_COMPONENTS} components.`;
  return new Set(items.map(identityOf)).size < items.length
    ? 'A signature covers the same component twice.'
    : undefined;
}

const TEXT_PARAMETERS = ['keyid', 'alg', 'nonce', 'tag'];
const TIME_PARAMETERS = ['created', 'expires'];

function readClaim(
  label: string,
  input: Member,
  signature: Member | undefined,
  policy: SignaturePolicy,
): SignatureClaim | Refusal {
  const [items, parameters] = input.value as InnerList;
  const components: Component[] = [];
  for (const item of items) {
    const component = readComponent(item);
    if (component instanceof Refusal) return component;
    if (component.parameters.has('req')) return malformed(`${component.id} has no meaning in a request.`);
    components.push(component);
  }
  for (const [name, value] of parameters) {
    if (!fits(name, value)) return malformed(`The parameter "${name}" of ${label} is not of its type.`);
  }
  const bytes = signature && bytesOf(signature);
  if (!bytes) return malformed(`There is no Signature in canonical base64 for ${label}.`);
  if (bytes.length !== 64) return malformed(`The Signature of ${label} is not 64 bytes long.`);

  const keyId = parameters.get('keyid') as string | undefined;
  if (!keyId) return unmet('The signature names no keyid.');
  if (policy.acceptKeyId && !policy.acceptKeyId(keyId)) return unmet('That keyid does not count here.');
  const algorithm = parameters.get('alg') as string | undefined;
  if (algorithm !== undefined && !policy.algorithms.some((known) => known === algorithm)) {
    return unmet(`alg="${algorithm}" is not accepted here; use ${policy.algorithms.join(' or ')}.`);
  }
  const covered = new Set(components.map((component) => component.id));
  const missing = policy.coverage.filter((group) => !group.some((name) => covered.has(`"${name}"`)));
  if (missing.length > 0) {
    const names = missing.map((group) => group.join(' or '));
    return unmet(`The signature does not cover ${names.join(', ')}.`, { missing: names });
  }
  return {
    label,
    keyId,
    components,
    created: parameters.get('created') as number | undefined,
    expires: parameters.get('expires') as number | undefined,
    nonce: parameters.get('nonce') as string | undefined,
    tag: parameters.get('tag') as string | undefined,
    algorithm,
    coversBody: covered.has('"content-digest"'),
    signature: bytes,
    parameters: input.text,
    policy,
  };
}

/** Parameters that are not known are passed over (RFC 9421 §3.2), but only as plain text or whole numbers. */
function fits(name: string, value: BareItem): boolean {
  if (TEXT_PARAMETERS.includes(name)) return typeof value === 'string';
  if (TIME_PARAMETERS.includes(name)) return Number.isSafeInteger(value) && (value as number) >= 0;
  return typeof value === 'string' || Number.isInteger(value);
}

function freshness(claim: SignatureClaim, request: SignedRequest): Refusal | undefined {
  const { now, windowSeconds } = claim.policy;
  const isNear = (time: number): boolean => Math.abs(now - time) <= windowSeconds * 1000;
  if (claim.expires !== undefined && claim.expires * 1000 < now) return stale('The signature has expired.');
  if (claim.created !== undefined && !isNear(claim.created * 1000)) {
    return stale(`The signature was created more than ${windowSeconds} s from the time here.`);
  }
  if (!claim.components.some((component) => component.id === '"date"')) {
    return claim.created === undefined ? unmet('The signature covers no time: neither created nor date.') : undefined;
  }
  const [text, ...more] = request.headers.all('date');
  if (text === undefined) return unmet('The signature covers "date", which is not there.');
  const date = more.length > 0 ? undefined : parseHttpDate(text.trim(), now);
  if (date === undefined) return malformed('The Date header is no HTTP date.');
  return isNear(date) ? undefined : stale(`Date lies more than ${windowSeconds} s from the time here.`);
}

/** Hashing what came costs less than fetching a document, so it comes first. */
function digest(claim: SignatureClaim, request: SignedRequest): Refusal | undefined {
  if (!claim.coversBody) return undefined;
  const field = request.headers.get('content-digest');
  return field === undefined
    ? unmet('The signature covers "content-digest", which is not there.')
    : checkContentDigest(field, request.body);
}

function malformed(words: string): Refusal {
  return refuse('signature_malformed', words);
}

function unmet(words: string, data?: Record<string, unknown>): Refusal {
  return refuse('signature_invalid', words, { ...(data && { data }) });
}

function stale(words: string): Refusal {
  return refuse('signature_stale', words);
}
