import { Refusal, type RefusalCode, refuse } from '../lib/refusal.ts';
import type { Arrived, Called, Claimed, Gate, Watching } from './facts.ts';
import { noteFailure } from './flood.ts';
import { claimSignature, isSigned, proveSignature } from './proofs/http-signature.ts';
import { bearerToken, claimToken, proveToken } from './proofs/token.ts';
import { unauthenticated } from './unseen.ts';

/**
 * Which proof does the request say it has? Only what costs nothing is judged. Two proofs at once are refused: whichever one were taken, somebody
 * could have added it to another's request. `Authorization: Capability …` is no proof of who calls.
 */
export const claim: Gate<Arrived, Claimed> = async ({ inbound, column }, tools) => {
  const { request, resident } = inbound;
  if (resident)
    return column === 'answer' ? { claim: { kind: 'resident', node: resident } } : unauthenticated(tools.self);
  const authorization = request.headers.get('authorization');
  const token = bearerToken(authorization);
  if (isSigned(request)) {
    if (token !== undefined) {
      return refuse('malformed_request', 'Prove who you are in one way: a bearer token or a signature, not both.');
    }
    const claimed = claimSignature(request, tools, column === 'knock');
    if (!(claimed instanceof Refusal)) return { claim: claimed };
    return ofIntegrity.has(claimed.code) ? claimed.by('integrity') : claimed;
  }
  if (token) return { claim: claimToken(token) };
  if (token === null || (authorization !== undefined && !/^capability\s/i.test(authorization))) {
    return refuse('unauthenticated', 'The Authorization header is malformed, or of a scheme that is not known here.');
  }
  const { claimedDid, envelope } = inbound;
  if (claimedDid !== undefined || envelope?.from.startsWith('did:'))
    return unauthenticated(tools.self, 'signature_missing');
  // Nobody in particular may write to who takes anyone; who names a sender has to prove it, and nothing else is open to nobody.
  const mayBeNobody = column === 'request' && !envelope?.from;
  return mayBeNobody ? { claim: { kind: 'none' } } : unauthenticated(tools.self);
};

/** Does the proof hold? */
export const prove: Gate<Arrived & Claimed, Called> = async (facts, tools) => {
  const { claim, inbound } = facts;
  if (claim.kind === 'none') return { principal: { kind: 'anonymous' }, proof: null };
  if (claim.kind === 'resident') return { principal: { kind: 'node', node: claim.node }, proof: null };
  const called =
    claim.kind === 'token'
      ? await proveToken(claim.token, tools)
      : await proveSignature(inbound.request, claim.signature, tools);
  if (called instanceof Refusal) noteFailure(facts, tools);
  return called;
};

/** Is it the `rsw_` key of a watcher? */
export const proveWatcher: Gate<Arrived & Claimed, Watching> = async (facts, tools) => {
  const { claim } = facts;
  const watcher =
    claim.kind === 'token' && claim.token.startsWith('rsw_') ? await tools.directory.watcherByKey(claim.token) : null;
  if (watcher) {
    tools.flood.proven.set((claim as { name: string }).name, true);
    return { watcher };
  }
  noteFailure(facts, tools);
  return refuse('unauthenticated', 'This call takes the `rsw_` key of a watcher.');
};

/** What is the integrity gate's to say, though it is found out early because it is cheap. */
const ofIntegrity: ReadonlySet<RefusalCode> = new Set(['signature_stale', 'digest_mismatch']);
