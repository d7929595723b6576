import { LRUCache } from 'lru-cache';
import type { Signer } from '../../directory/keyring.ts';
import type { Carried, MessageCarrier } from '../../exchange/carrier.ts';
import { isLoopbackHost } from '../../identity/did.ts';
import { signRequest } from '../../identity/http-signature/sign.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Fetch, FetchRefused, type FetchResult } from '../../lib/fetch-types.ts';
import { readJson } from '../../lib/json.ts';
import { Refusal, refusals } from '../../lib/refusal.ts';
import type { OutboxItem, Sender, SendResult } from '../../outbox/types.ts';
import { pathFor, type WireRequest, wireRequest } from './client-request.ts';
import { otherVersion, readAnswer } from './client-result.ts';
import { isRecord, type Version } from './protocol.ts';

export interface RedsynClientOptions {
  /** Of the outbox items that it sends. Default 'redsyn'. */
  kind?: 'redsyn' | 'event';
  /** What is carried, and what becomes of the exchange once it was. */
  carrier: MessageCarrier;
  /** The key of that owner; of the instance for null (a notice that no agent wrote). */
  signer(ownerId: string | null): Promise<Pick<Signer, 'keyId' | 'pair'>>;
  /** Whether it may still go where it is going: a link may have been revoked while it waited. */
  mayLeave(carried: Carried): Promise<boolean>;
  fetch: Fetch;
  clock: Clock;
  /** This gateway runs on loopback, so peers on loopback are called over http (design §6). */
  loopback: boolean;
}

const timeoutMs = 15_000;
const maxAnswer = 256 * 1024;
const cardMs = 60_000;

/** Carries REDSYN envelopes to linked gateways: A2A SendMessage, or message/send for peers that speak 0.3 alone (design §6). */
export function createRedsynClient(options: RedsynClientOptions): Sender {
  const { carrier, fetch, clock } = options;
  /** By authority: the URL at which a peer speaks 0.3, as its card said. */
  const legacy = new LRUCache<string, { url: string; until: number }>({ max: 1_000 });

  return {
    kind: options.kind ?? 'redsyn',
    async send(item, signal) {
      const carried = item.messageSeq === null ? null : await carrier.load(item.messageSeq, item);
      if (!carried) return gone();
      if (!(await options.mayLeave(carried))) return noLonger();
      const base = baseOf(options, item.destination);
      try {
        const known = legacy.get(item.destination);
        if (known && known.until > clock.now()) return await speakV03(known.url, carried, item, signal);
        const result = readAnswer(await post(`${base}/a2a/v1`, carried, '1.0', signal), item.attempts);
        if (result !== otherVersion) return result;
        const url = await legacyUrl(base, carried, signal);
        if (url === null) return nothingCommon();
        legacy.set(item.destination, { url, until: clock.now() + cardMs });
        return await speakV03(url, carried, item, signal);
      } catch (error) {
        if (!(error instanceof FetchRefused)) throw error;
        return { outcome: 'retry', reason: `${error.reason}: ${error.message}`, destinationDown: true };
      }
    },
    async onDelivered(tx, item, result) {
      const note = result.outcome === 'delivered' && isRecord(result.note) ? result.note : {};
      if (item.messageSeq === null) return;
      await carrier.delivered(tx, item.messageSeq, typeof note.to === 'string' ? note.to : null);
    },
    async onGivenUp(tx, item, why) {
      if (item.messageSeq !== null) await carrier.givenUp(tx, item.id, item.messageSeq, why, item);
    },
  };

  async function speakV03(url: string, carried: Carried, item: OutboxItem, signal: AbortSignal): Promise<SendResult> {
    const result = readAnswer(await post(url, carried, '0.3', signal), item.attempts);
    return result === otherVersion ? nothingCommon() : result;
  }

  function post(url: string, carried: Carried, version: Version, signal: AbortSignal): Promise<FetchResult> {
    return postSigned(options, url, wireRequest(carried, version), carried.ownerId, signal);
  }

  /** Where the peer takes 0.3 for this agent: its own card if it has one, else the front desk's. Only at the peer's own authority. */
  async function legacyUrl(base: string, carried: Carried, signal: AbortSignal): Promise<string | null> {
    const path = pathFor(carried.to);
    const places = [...(path === null ? [] : [path]), ''];
    for (const place of places) {
      const init = { headers: { accept: 'application/json' }, maxBytes: maxAnswer, timeoutMs: 5_000, signal };
      const answer = await fetch(`${base}${place}/.well-known/agent-card.json`, init);
      const json = answer.status === 200 ? readJson(answer.body) : null;
      const url = json === null || json instanceof Refusal ? null : urlInCard(json.value);
      if (url !== null) return url.startsWith(`${base}/`) || url === base ? url : null;
    }
    return null;
  }
}

/** Signed by that owner's key; by the instance's for null. Rejects with `FetchRefused`. */
export async function postSigned(
  { signer, fetch, clock }: Pick<RedsynClientOptions, 'signer' | 'fetch' | 'clock'>,
  url: string,
  { headers, body }: WireRequest,
  ownerId: string | null,
  signal: AbortSignal,
): Promise<FetchResult> {
  const { keyId, pair } = await signer(ownerId);
  const signed = await signRequest({ method: 'POST', url, body }, { keyId, key: pair, now: clock.now() });
  return fetch(url, {
    method: 'POST',
    headers: { ...headers, ...signed },
    body,
    maxBytes: maxAnswer,
    timeoutMs,
    signal,
  });
}

export function baseOf({ loopback }: Pick<RedsynClientOptions, 'loopback'>, authority: string): string {
  const scheme = loopback && isLoopbackHost(authority.replace(/:\d+$/, '')) ? 'http' : 'https';
  return `${scheme}://${authority}`;
}

/** The JSON-RPC address of 0.3: an interface of that version, or the 0.3 card's own fields (a2a-conformance §5). */
function urlInCard(card: unknown): string | null {
  if (!isRecord(card)) return null;
  const interfaces = Array.isArray(card.supportedInterfaces) ? card.supportedInterfaces.filter(isRecord) : [];
  const found = interfaces.find(
    (one) => one.protocolBinding === 'JSONRPC' && String(one.protocolVersion).startsWith('0.3'),
  );
  if (typeof found?.url === 'string') return found.url;
  const isV03 = typeof card.protocolVersion === 'string' && card.protocolVersion.startsWith('0.3');
  const isJsonRpc = card.preferredTransport === undefined || card.preferredTransport === 'JSONRPC';
  return isV03 && isJsonRpc && typeof card.url === 'string' ? card.url : null;
}

function gone(): SendResult {
  return {
    outcome: 'refused',
    code: 'not_found',
    words: 'the message is no longer here',
    status: refusals.not_found.status,
  };
}

function noLonger(): SendResult {
  const words = 'the link with that organisation has ended';
  return { outcome: 'refused', code: 'address_not_found', words, status: refusals.address_not_found.status };
}

function nothingCommon(): SendResult {
  const words = 'the other side speaks neither A2A 1.0 nor 0.3 over JSON-RPC';
  return { outcome: 'refused', code: 'unknown_version', words, status: refusals.unknown_version.status };
}
