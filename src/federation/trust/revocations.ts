import { LRUCache } from 'lru-cache';
import { pythonJson } from '../../identity/canonical.ts';
import { isSignedBy } from '../../identity/introduction.ts';
import type { KeyPair } from '../../identity/keys.ts';
import { numberOf, withRawNumbers } from '../../identity/raw-numbers.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Fetch } from '../../lib/fetch-types.ts';
import { containsNul, readJson } from '../../lib/json.ts';
import { Refusal } from '../../lib/refusal.ts';

const typ = 'revocations';
const windowSeconds = 6 * 3600;
const keptMs = 60_000;
const maxBytes = 256 * 1024;
const timeoutMs = 5_000;

/** What `<issuerEndpoint>/revocations` answers: the ids that no longer hold, in a signed envelope like a card's (muretai-wire-facts §8, §10). */
export function revocationsDocument(revoked: readonly string[], pair: KeyPair, now: number): object {
  const body = { revoked, ts: Math.floor(now / 1000), typ, v: 1 };
  const bytes = pythonJson(body);
  if (bytes instanceof Refusal) throw new TypeError(`revocations without a canonical form: ${bytes.words}`);
  return { ...body, issuer: pair.did, sig: pair.sign(Buffer.from(bytes)).toString('base64') };
}

/** Asks issuers elsewhere what they revoked; an answer is kept a minute. */
export class Revocations {
  readonly #fetch: Fetch;
  readonly #clock: Clock;
  readonly #kept = new LRUCache<string, { ids: Promise<ReadonlySet<string> | null>; until: number }>({ max: 1_000 });

  constructor(deps: { fetch: Fetch; clock: Clock }) {
    this.#fetch = deps.fetch;
    this.#clock = deps.clock;
  }

  /** Null when the issuer names no place to ask, does not answer, or what answers is not signed by it: then nobody knows. */
  async isRevoked(q: { issuer: string; endpoint: string | null; id: string }): Promise<boolean | null> {
    if (q.endpoint === null || !URL.canParse(q.endpoint)) return null;
    const url = `${q.endpoint.replace(/\/+$/, '')}/revocations`;
    const key = `${q.issuer} ${url}`;
    const now = this.#clock.now();
    const known = this.#kept.get(key);
    const ids = known && known.until > now ? known.ids : this.#ask(url, q.issuer);
    if (ids !== known?.ids) this.#kept.set(key, { ids, until: now + keptMs });
    return (await ids)?.has(q.id) ?? null;
  }

  async #ask(url: string, issuer: string): Promise<ReadonlySet<string> | null> {
    try {
      const { status, body } = await this.#fetch(url, { headers: { accept: 'application/json' }, maxBytes, timeoutMs });
      return status === 200 ? this.#read(body, issuer) : null;
    } catch {
      return null;
    }
  }

  #read(body: Buffer, issuer: string): ReadonlySet<string> | null {
    const json = readJson(body);
    if (json instanceof Refusal || containsNul(json.value)) return null;
    const { revoked, ts, typ: kind, v, sig } = withRawNumbers(body.toString()) as Record<string, unknown>;
    const at = numberOf(ts);
    if (kind !== typ || at === undefined || Math.abs(this.#clock.now() / 1000 - at) > windowSeconds) return null;
    if (!Array.isArray(revoked) || !isSignedBy(issuer, { revoked, ts, typ: kind, v }, sig)) return null;
    return new Set(revoked.filter((id): id is string => typeof id === 'string'));
  }
}
