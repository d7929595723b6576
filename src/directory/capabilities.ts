import { issueCapability, narrowCapability } from '../identity/capability.ts';
import { isAtOrBelow, parseDid } from '../identity/did.ts';
import type { Clock } from '../lib/clock.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import type { Keyring } from './keyring.ts';
import type { Member } from './types.ts';

export interface NewCapability {
  /** Whom it is shown to: an instance's DID, or one beneath it. */
  aud: string;
  /** Who may show it: the owner (as it is without), or one beneath her; of a narrowed one, anybody. */
  sub?: string;
  scope: readonly string[];
  /** Seconds. */
  expiresIn: number;
  threadId?: string;
}

const longest = 90 * 86_400;

/** Capability tokens that owners here issue, and narrow (confer.md "Token de capacidad", confer-wire-facts §6). */
export class Capabilities {
  readonly #keyring: Keyring;
  readonly #clock: Clock;

  constructor(deps: { keyring: Keyring; clock: Clock }) {
    this.#keyring = deps.keyring;
    this.#clock = deps.clock;
  }

  /** Signed by the owner's key. Refusal: `invalid_field`. */
  async issue(owner: Member, { aud, sub, scope, expiresIn, threadId }: NewCapability): Promise<string | Refusal> {
    const { did, keyId, pair } = await this.#keyring.signer(this.#keyring.owner(owner));
    const wrong = wrongDid('aud', aud) ?? (sub === undefined ? undefined : wrongDid('sub', sub));
    if (wrong) return wrong;
    if (sub !== undefined && !isAtOrBelow(sub, did)) return invalid('sub', 'must be you, or one of your agents');
    const exp = this.#exp(expiresIn);
    if (exp instanceof Refusal) return exp;
    const ctx = { ...(threadId !== undefined && { thread_id: threadId }), delegation_depth: 0 };
    return issueCapability({ iss: did, sub: sub ?? did, aud, scope, exp, ctx }, pair, keyId);
  }

  /** What is left out stays as it was. Refusals: `invalid_field`, `capability_invalid` where it would not be narrower, or is somebody else's. */
  async narrow(
    owner: Member,
    token: string,
    { expiresIn, aud, sub, scope, threadId }: Partial<NewCapability>,
  ): Promise<string | Refusal> {
    const { did, keyId, pair } = await this.#keyring.signer(this.#keyring.owner(owner));
    const exp = expiresIn === undefined ? undefined : this.#exp(expiresIn);
    if (exp instanceof Refusal) return exp;
    const less = {
      ...(aud !== undefined && { aud }),
      ...(sub !== undefined && { sub }),
      ...(scope !== undefined && { scope }),
      ...(exp !== undefined && { exp }),
      ...(threadId !== undefined && { threadId }),
    };
    return narrowCapability(token, did, less, pair, { allowIp: true, keyId });
  }

  #exp(seconds: number): number | Refusal {
    if (!Number.isSafeInteger(seconds) || seconds < 1 || seconds > longest) {
      return invalid('expires_in', `must be whole seconds, 1 to ${longest}`);
    }
    return Math.floor(this.#clock.now() / 1000) + seconds;
  }
}

function wrongDid(field: string, did: string): Refusal | undefined {
  return parseDid(did, { allowIp: true }) instanceof Refusal ? invalid(field, 'must be a DID') : undefined;
}

function invalid(field: string, what: string): Refusal {
  return refuse('invalid_field', `\`${field}\` ${what}.`, { data: { field } });
}
