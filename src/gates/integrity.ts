import type { Principal } from '../exchange/sender.ts';
import { importKey, type PublicKey } from '../identity/algorithms.ts';
import { fromBase64url } from '../identity/encoding.ts';
import { checkContentDigest } from '../identity/http-signature/digest.ts';
import { type SealedEnvelope, verifyEnvelope } from '../identity/redsyn-seal.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import type { Arrived, Called, Gate, Intact, Tools } from './facts.ts';

/** A Date may lie one window ahead and is taken until it lies one behind: a signature is remembered for both. */
const REPLAY_MS = 600_000;
const ENVELOPE_WINDOW_SECONDS = 600;
// With the u flag only halves that have no partner are of the category Surrogate.
const UNKEEPABLE = /[\0\p{Surrogate}]/u;

/**
 * Is it what was sent, and only once? The digest of a covered body and the age were judged with the signature's form, before its key; here the
 * rest: a digest that nothing covered, text that cannot be kept, the node's signature, replays.
 */
export const integrity: Gate<Arrived & Called, Intact> = async ({ inbound, column, principal, proof }, tools) => {
  const { request, envelope, thread } = inbound;
  const digest = request.headers.get('content-digest');
  if (proof && !proof.coversBody && digest !== undefined) {
    const mismatch = checkContentDigest(digest, request.body);
    if (mismatch) return mismatch;
  }
  const field = unkeepable({ ...envelope, ...(thread !== undefined && { thread }) });
  if (field !== null) {
    return refuse('invalid_field', `\`${field}\` holds a NUL or half of a surrogate pair, which cannot be kept.`, {
      data: { field },
    });
  }
  const signature = envelope?.sig ? checkSeal(envelope as SealedEnvelope, principal, tools) : null;
  if (signature instanceof Refusal) return signature;

  const replay = proof && { key: proof.fingerprint, expiresAt: tools.clock.now() + REPLAY_MS };
  // A message brings its proof into the transaction that keeps it, so that a refused one may be sent again; all else is recorded at once.
  if (column !== 'read' && column !== 'instance') return { signature, replay };
  if (replay && !(await tools.store.insertProof(replay.key, replay.expiresAt))) return refuse('signature_replayed');
  return { signature, replay: null };
};

/**
 * From a node of this instance: only by the key that it registered, and of the last ten minutes (REDSYN "Firmas"). From elsewhere the relay
 * that took it has judged both, and it may have waited there; here it must hold by the key that it names, and the receiver pins whose that is.
 */
function checkSeal(envelope: SealedEnvelope, principal: Principal, { clock }: Tools): Intact['signature'] | Refusal {
  const now = clock.now();
  if (principal.kind === 'node') {
    const { publicKey, nodeId } = principal.node;
    const key = publicKey === null ? undefined : readKey(publicKey);
    if (!key) return refuse('envelope_signature_invalid', 'This node has registered no key: PUT /nodes/key first.');
    const verified = verifyEnvelope(envelope, key, { now, windowSeconds: ENVELOPE_WINDOW_SECONDS });
    return verified instanceof Refusal ? verified : { ...verified, nodeId };
  }
  const key = typeof envelope.sig?.key === 'string' ? readKey(envelope.sig.key) : undefined;
  if (!key) return refuse('envelope_signature_invalid', '`sig.key` is no usable Ed25519 key in base64url.');
  const verified = verifyEnvelope(envelope, key, { now, windowSeconds: Number.POSITIVE_INFINITY });
  return verified instanceof Refusal ? verified : { ...verified, nodeId: null };
}

function readKey(text: string): PublicKey | undefined {
  const raw = fromBase64url(text);
  const key = raw && importKey('ed25519', raw);
  return typeof key === 'object' ? key : undefined;
}

/** The top-level field that holds, at any depth, a text that PostgreSQL or UTF-8 has no place for (CAN-06); null when there is none. */
function unkeepable(message: Record<string, unknown>): string | null {
  return Object.keys(message).find((field) => holdsBadText(field) || holdsBadText(message[field])) ?? null;
}

function holdsBadText(value: unknown): boolean {
  // Without recursion: the depth was bounded by whoever parsed it, and need not be known here.
  const rest: unknown[] = [value];
  while (rest.length > 0) {
    const next = rest.pop();
    if (typeof next === 'string') {
      if (UNKEEPABLE.test(next)) return true;
    } else if (Array.isArray(next)) {
      for (const item of next) rest.push(item);
    } else if (typeof next === 'object' && next !== null) {
      for (const [name, item] of Object.entries(next)) rest.push(name, item);
    }
  }
  return false;
}
