import { isUtf8 } from 'node:buffer';
import { Refusal, refuse } from '../lib/refusal.ts';
import { type PublicKey, verify } from './algorithms.ts';
import { type DidOptions, isAtOrBelow, parseDid } from './did.ts';
import { fromBase64url, toBase64url } from './encoding.ts';
import type { KeyPair } from './keys.ts';

/** What a capability token says (confer.md «Token de capacidad»). */
export interface Capability {
  readonly iss: string;
  readonly sub: string;
  readonly aud: string;
  readonly scope: readonly string[];
  /** Unix seconds. */
  readonly exp: number;
  readonly ctx?: { readonly thread_id?: string; readonly delegation_depth?: number };
  /** The token that this one narrows: its holder, who is `iss` here, passes on less than it was given. */
  readonly prf?: string;
}

/** A token whose form is right. Nothing in it is true before `verifyCapability` and `checkCapability` have passed. */
export interface CapabilityClaim extends Capability {
  /** How often it was passed on, 0 to 3. */
  readonly depth: number;
  /** What it narrows. */
  readonly parent: CapabilityClaim | undefined;
  /** The id of the issuer's key, where the header names one. */
  readonly keyId: string | undefined;
  /** `technical` for the scope `ask:technical`. */
  readonly topics: readonly string[];
  /** ASCII of `header.payload`. */
  readonly signed: Buffer;
  readonly signature: Buffer;
}

/** The request that a token came with. */
export interface CapabilityUse {
  /** Milliseconds since 1970. */
  readonly now: number;
  /** Whose key signed the request. */
  readonly signer: string;
  readonly from: string;
  readonly to: string;
  readonly threadId: string | undefined;
  readonly isQuestion: boolean;
}

const MAX_TOKEN = 8 * 1024;
const MAX_SCOPES = 64;
const MAX_TEXT = 512;
const MAX_DEPTH = 3;

/** The token of an `Authorization: Capability …` header, or undefined when the header is of another scheme. */
export function capabilityToken(authorization: string): string | undefined {
  return /^capability +(\S*) *$/i.exec(authorization)?.[1];
}

/** Reads the form and the types. Refusal: `capability_invalid`. */
export function parseCapability(token: string, options: DidOptions = {}): CapabilityClaim | Refusal {
  if (token.length > MAX_TOKEN) return invalid('Invalid capability token: it is too long.');
  const parts = token.split('.');
  const [header, payload] = parts.slice(0, 2).map(decodeObject);
  const signature = fromBase64url(parts[2] ?? '');
  if (parts.length !== 3 || !header || !payload || signature?.length !== 64) {
    return invalid('Invalid capability token: it is not header.payload.signature in base64url.');
  }
  if (header.typ !== 'Cap' || (header.alg !== 'Ed25519' && header.alg !== 'EdDSA') || 'crit' in header) {
    return invalid('Invalid capability token: its header must be {"alg":"Ed25519","typ":"Cap"}.');
  }
  const { iss, sub, aud, scope, exp, ctx = {}, prf } = payload;
  for (const [name, value] of Object.entries({ iss, sub, aud })) {
    if (typeof value !== 'string' || parseDid(value, options) instanceof Refusal) {
      return invalid(`Invalid capability token: ${name} is no DID.`);
    }
  }
  if (!Array.isArray(scope) || scope.length > MAX_SCOPES || !scope.every((entry) => isText(entry))) {
    return invalid('Invalid capability token: scope is no list of texts.');
  }
  if (!Number.isSafeInteger(exp)) return invalid('Invalid capability token: exp is no whole number of seconds.');
  if (!isObject(ctx) || (ctx.thread_id !== undefined && !isText(ctx.thread_id))) {
    return invalid('Invalid capability token: ctx is malformed.');
  }
  // The early code looked at the top level, the document writes it into ctx; a token cannot hide behind the smaller one.
  const depths = [ctx.delegation_depth, payload.delegation_depth].filter((depth) => depth !== undefined);
  if (!depths.every((depth) => Number.isSafeInteger(depth) && (depth as number) >= 0)) {
    return invalid('Invalid capability token: delegation_depth is no whole number.');
  }
  const depth = Math.max(0, ...(depths as number[]));
  if (depth > MAX_DEPTH) return invalid(`Delegation depth exceeds maximum of ${MAX_DEPTH}`);
  if (prf !== undefined && typeof prf !== 'string') return invalid('Invalid capability token: prf is no token.');
  // Bounded: each holds the next one whole, within the length of the first.
  const parent = prf === undefined ? undefined : parseCapability(prf, options);
  if (parent instanceof Refusal) return parent;
  return {
    ...({ iss, sub, aud, scope, exp, ctx } as Required<Omit<Capability, 'prf'>>),
    parent,
    depth,
    keyId: typeof header.kid === 'string' ? header.kid : undefined,
    topics: (scope as string[]).filter((entry) => /^ask:[^*]+$/.test(entry)).map((entry) => entry.slice('ask:'.length)),
    signed: Buffer.from(token.slice(0, token.lastIndexOf('.')), 'ascii'),
    signature,
  };
}

/** A token and those that it narrows, the newest first. */
export function chainOf(claim: CapabilityClaim): readonly CapabilityClaim[] {
  return claim.parent ? [claim, ...chainOf(claim.parent)] : [claim];
}

/** `ask` covers `ask:technical`; `ask:technical`, also written `ask:technical:*`, what is beneath it. */
export function scopeCovers(scope: string, entry: string): boolean {
  const [wide, narrow] = [scope, entry].map((one) => one.replace(/:\*$/, '')) as [string, string];
  return narrow === wide || narrow.startsWith(`${wide}:`);
}

/** Whether a token takes nothing that its holder was not given (confer.md: "la idea de las macaroons"). Undefined is success. */
function widens(claim: CapabilityClaim, parent: CapabilityClaim): string | undefined {
  if (!isAtOrBelow(claim.iss, parent.sub)) return 'it was narrowed by somebody who does not hold it';
  if (!isAtOrBelow(claim.aud, parent.aud)) return 'it names another recipient than what it narrows';
  if (claim.exp > parent.exp) return 'it outlives what it narrows';
  if (!claim.scope.every((entry) => parent.scope.some((scope) => scopeCovers(scope, entry))))
    return 'its scope is wider than what it narrows';
  const thread = parent.ctx?.thread_id;
  if (thread !== undefined && claim.ctx?.thread_id !== thread) return 'it leaves the thread that it is bound to';
  if (claim.depth <= parent.depth) return 'it does not count how often it was passed on';
  return undefined;
}

/** Verifies with the `authentication` keys of the issuer's document: one of them must have signed. Undefined is success. */
export function verifyCapability(claim: CapabilityClaim, keys: readonly PublicKey[]): Refusal | undefined {
  const signed = keys.some((key) => key.algorithm === 'ed25519' && verify(key, claim.signed, claim.signature));
  return signed ? undefined : invalid('The signature of the capability token does not verify.');
}

/** Whether the token allows this request (confer-wire-facts §6). Undefined is success. */
export function checkCapability(claim: CapabilityClaim, use: CapabilityUse): Refusal | undefined {
  if (claim.exp * 1000 <= use.now) return invalid('Capability token has expired');
  for (const { parent, ...child } of chainOf(claim)) {
    const why = parent && widens({ ...child, parent }, parent);
    if (why !== undefined) return invalid(`The capability token is not valid: ${why}.`);
  }
  if (!isAtOrBelow(use.signer, claim.iss))
    return invalid('The capability token was issued by somebody else than the signer.');
  if (!isAtOrBelow(use.from, claim.sub)) return invalid('The capability token was issued for another sender.');
  if (!isAtOrBelow(use.to, claim.aud)) return invalid('The capability token is meant for another recipient.');
  const thread = claim.ctx?.thread_id;
  if (thread !== undefined && thread !== use.threadId)
    return invalid('The capability token is bound to another thread.');
  if (use.isQuestion && !claim.scope.some((entry) => entry === 'ask' || entry.startsWith('ask:'))) {
    return invalid('The scope of the capability token holds no "ask".');
  }
  return undefined;
}

/** A token signed by the issuer's key. */
export function issueCapability(capability: Capability, key: KeyPair, keyId?: string): string {
  const header = { alg: 'Ed25519', typ: 'Cap', ...(keyId !== undefined && { kid: keyId }) };
  const signed = [header, capability].map((part) => toBase64url(Buffer.from(JSON.stringify(part)))).join('.');
  return `${signed}.${toBase64url(key.sign(Buffer.from(signed, 'ascii')))}`;
}

/**
 * A token with less in it than the one that is held, signed by its holder's key. `holder`: at or beneath the DID that it was issued to. Refusal:
 * `capability_invalid`.
 */
export function narrowCapability(
  token: string,
  holder: string,
  less: { sub?: string; aud?: string; scope?: readonly string[]; exp?: number; threadId?: string },
  key: KeyPair,
  options: DidOptions & { keyId?: string } = {},
): string | Refusal {
  const held = parseCapability(token, options);
  if (held instanceof Refusal) return held;
  const thread_id = less.threadId ?? held.ctx?.thread_id;
  const narrowed = issueCapability(
    {
      iss: holder,
      sub: less.sub ?? holder,
      aud: less.aud ?? held.aud,
      scope: less.scope ?? held.scope,
      exp: less.exp ?? held.exp,
      ctx: { ...(thread_id !== undefined && { thread_id }), delegation_depth: held.depth + 1 },
      prf: token,
    },
    key,
    options.keyId,
  );
  const claim = parseCapability(narrowed, options);
  if (claim instanceof Refusal) return claim;
  const why = widens(claim, held);
  return why === undefined ? narrowed : invalid(`That is not narrower: ${why}.`);
}

function decodeObject(part: string): Record<string, unknown> | undefined {
  const bytes = fromBase64url(part);
  if (!bytes || !isUtf8(bytes)) return undefined;
  try {
    const value: unknown = JSON.parse(bytes.toString());
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value.length <= MAX_TEXT;
}

function invalid(words: string): Refusal {
  return refuse('capability_invalid', words);
}
