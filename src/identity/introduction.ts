import { randomUUID } from 'node:crypto';
import { containsNul, readJson } from '../lib/json.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import { verify } from './algorithms.ts';
import { pythonJson } from './canonical.ts';
import { isDidWeb, keyOfDidKey, parseDid } from './did.ts';
import { fromBase64 } from './encoding.ts';
import type { KeyPair } from './keys.ts';
import { numberOf, withRawNumbers } from './raw-numbers.ts';

/** What an introduction says once it was verified (muretai-wire-facts §10). Times in milliseconds. */
export interface Introduction {
  id: string;
  issuer: string;
  /** Who is introduced, and to whom. */
  subject: string;
  introducedTo: string;
  expertise: string[];
  /** Thousandths: 0 to 1000. */
  level: number;
  issuedAt: number;
  validUntil: number;
  /** Where its issuer tells what it revoked; null when it does not say. */
  endpoint: string | null;
}

export interface NewIntroduction {
  subject: string;
  introducedTo: string;
  expertise: readonly string[];
  level: number;
  now: number;
  validUntil: number;
  endpoint: string | null;
  /** The subject's signed request, when it asked: the six signed fields and `sig`. Without it the introduction is proactive. */
  request?: Readonly<Record<string, unknown>>;
}

export const maxCredential = 16 * 1024;
const types = ['VerifiableCredential', 'AgentIntroduction'];
const requestLife = 30 * 86_400_000;
const skew = 300_000;
const requestPrefix = 'introduce-me-to:';

/** The credential as JSON text, signed by `pair` over muretai's canonical JSON of everything but `proof`. Throws on claims that have no such form. */
export function signIntroduction(claims: NewIntroduction, pair: KeyPair): { id: string; text: string } {
  const { subject, introducedTo, expertise, level, now, validUntil, endpoint, request } = claims;
  const id = `urn:uuid:${randomUUID().replaceAll('-', '')}`;
  const body = {
    id,
    type: types,
    issuer: pair.did,
    issuanceDate: seconds(now),
    credentialSubject: { id: subject, introducedTo, expertise, trustLevelBp: level, validUntil: seconds(validUntil) },
    provenance: request ? { mode: 'requested', request } : { mode: 'proactive' },
    ...(endpoint !== null && { issuerEndpoint: endpoint }),
  };
  const bytes = pythonJson(body);
  if (bytes instanceof Refusal) throw new TypeError(`an introduction without a canonical form: ${bytes.words}`);
  const jws = pair.sign(Buffer.from(bytes)).toString('base64');
  const proof = { type: 'Ed25519Signature2020', created: seconds(now), verificationMethod: pair.did, jws };
  return { id, text: JSON.stringify({ ...body, proof }) };
}

/**
 * Verifies a credential for the one who presents it and the one it is presented to. Refused as `introduction_invalid`, the words say why. Whether its
 * issuer counts, and whether it was revoked, is not asked here.
 */
export function readIntroduction(
  text: string,
  expect: { subject: string; introducedTo: string; now: number },
): Introduction | Refusal {
  if (Buffer.byteLength(text) > maxCredential) return bad(`it is larger than ${maxCredential} bytes`);
  const json = readJson(text);
  if (json instanceof Refusal || containsNul(json.value)) return bad('it is no JSON object that can be read');
  const value = withRawNumbers(text);
  if (!isRecord(value)) return bad('it is no object');
  const { proof, ...signed } = value;
  const issuer = didKeyOf(signed.issuer);
  if (!issuer) return bad('its issuer is no Ed25519 did:key');
  if (!Array.isArray(signed.type) || !types.every((type) => (signed.type as unknown[]).includes(type)))
    return bad('it is no AgentIntroduction');
  const fault = proofFault(proof, issuer, signed);
  if (fault) return bad(fault);
  const claims = claimsOf(signed);
  if (typeof claims === 'string') return bad(claims);
  if (claims.subject !== expect.subject) return bad('it introduces somebody else');
  if (claims.introducedTo !== expect.introducedTo) return bad('it is for somebody else');
  if (claims.validUntil <= expect.now) return bad('it has expired');
  const provenance = provenanceFault(signed.provenance, claims);
  return provenance ? bad(provenance) : claims;
}

/** The key of an Ed25519 did:key; undefined for anything else. muretai verifies under no other kind (muretai.md "Identidad"). */
export function didKeyOf(did: unknown): { did: string; key: ReturnType<typeof keyOfDidKey> } | undefined {
  if (typeof did !== 'string') return undefined;
  const parsed = parseDid(did);
  if (parsed instanceof Refusal || isDidWeb(parsed)) return undefined;
  const key = keyOfDidKey(parsed);
  return key.algorithm === 'ed25519' ? { did, key } : undefined;
}

/** Whether `signature`, standard base64 in its one spelling, is `did`'s over muretai's canonical JSON of `value`. */
export function isSignedBy(did: unknown, value: unknown, signature: unknown): boolean {
  const signer = didKeyOf(did);
  const raw = typeof signature === 'string' && signature.length === 88 ? fromBase64(signature) : undefined;
  const bytes = pythonJson(value);
  return !!signer && !!raw && !(bytes instanceof Refusal) && verify(signer.key, Buffer.from(bytes), raw);
}

/** `2026-09-21T00:00:00Z`. */
export function seconds(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** Milliseconds of such a text; undefined when it is none. */
export function timeOf(text: unknown): number | undefined {
  if (typeof text !== 'string' || !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(text)) return undefined;
  const ms = Date.parse(text);
  return Number.isNaN(ms) || seconds(ms) !== text ? undefined : ms;
}

function proofFault(proof: unknown, { did }: { did: string }, signed: Record<string, unknown>): string | undefined {
  if (!isRecord(proof) || proof.type !== 'Ed25519Signature2020') return 'it has no Ed25519Signature2020 proof';
  if (proof.verificationMethod !== did) return 'its proof names another key than its issuer';
  return isSignedBy(did, signed, proof.jws) ? undefined : 'its signature does not verify';
}

function claimsOf(signed: Record<string, unknown>): Introduction | string {
  const { id, issuer, issuanceDate, credentialSubject: subject, issuerEndpoint } = signed;
  if (typeof id !== 'string' || !/^urn:uuid:[0-9a-fA-F-]{32,36}$/.test(id)) return 'its id is no urn:uuid';
  if (!isRecord(subject) || typeof subject.id !== 'string' || typeof subject.introducedTo !== 'string')
    return 'it names nobody';
  const issuedAt = timeOf(issuanceDate);
  const validUntil = timeOf(subject.validUntil);
  if (issuedAt === undefined || validUntil === undefined) return 'its dates are not of the form YYYY-MM-DDTHH:MM:SSZ';
  const level = levelOf(subject);
  if (level === undefined) return 'its trust level is not from 0 to 1000';
  const expertise = Array.isArray(subject.expertise) ? subject.expertise.filter((one) => typeof one === 'string') : [];
  const endpoint = typeof issuerEndpoint === 'string' && issuerEndpoint.length <= 512 ? issuerEndpoint : null;
  return {
    id,
    issuer: issuer as string,
    subject: subject.id,
    introducedTo: subject.introducedTo,
    expertise: expertise.slice(0, 32).map((one) => one.slice(0, 64)),
    level,
    issuedAt,
    validUntil,
    endpoint,
  };
}

/** Old credentials have a fraction of 1 instead of thousandths. */
function levelOf({ trustLevelBp, trustLevel }: Record<string, unknown>): number | undefined {
  const [parts, whole] = [numberOf(trustLevelBp), numberOf(trustLevel)];
  const level = parts ?? (whole === undefined ? undefined : Math.round(whole * 1000));
  return level !== undefined && Number.isInteger(level) && level >= 0 && level <= 1000 ? level : undefined;
}

/** Absent is tolerated, another mode is not; who says that the subject asked shows what the subject signed. */
function provenanceFault(provenance: unknown, claims: Introduction): string | undefined {
  if (provenance === undefined) return undefined;
  if (!isRecord(provenance)) return 'its provenance is no object';
  if (provenance.mode === 'proactive') return undefined;
  if (provenance.mode !== 'requested' || !isRecord(provenance.request)) return 'its provenance is of an unknown mode';
  const { from, to, text, timestamp, sig, messageId, contextId = null } = provenance.request;
  if (from !== claims.subject || to !== claims.issuer) return 'its request is of somebody else, or to somebody else';
  if (typeof text !== 'string' || !text.startsWith(requestPrefix)) return 'its request asks for something else';
  const asked = text.slice(requestPrefix.length).trim();
  if (asked !== '' && asked !== claims.introducedTo) return 'its request asks for somebody else';
  const at = numberOf(timestamp);
  if (at === undefined) return 'its request has no time';
  const age = claims.issuedAt - at * 1000;
  if (age > requestLife || age < -skew) return 'its request is older than 30 days, or younger than itself';
  const isSigned = isSignedBy(from, { contextId, from, messageId, text, timestamp, to }, sig);
  return isSigned ? undefined : 'the signature of its request does not verify';
}

function bad(why: string): Refusal {
  return refuse('introduction_invalid', `The introduction does not hold: ${why}.`);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
