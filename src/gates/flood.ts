import { neighbourhood } from '../lib/ip.ts';
import { type Refusal, refuse } from '../lib/refusal.ts';
import type { Arrived, Called, Claimed, Gate, Tools } from './facts.ts';

/**
 * Too much from this address? Asked before anything is parsed. A caller with a bearer token is not counted here: while its token is good
 * it is no stranger, and a bad one counts when it failed (`noteFailure`).
 */
export const floodByAddress: Gate<Arrived, object> = async ({ inbound }, { flood, rates }) => {
  if (inbound.resident) return {};
  if (/^bearer /i.test(inbound.request.headers.get('authorization') ?? '')) return {};
  const key = `address ${neighbourhood(inbound.request.ip)}`;
  flood.windows.add(key);
  return flood.windows.count(key) > rates.ip ? tooMuch(flood) : {};
};

/**
 * Too much in this name? Asked before a token is looked up or a DID document fetched. A domain is refused by what it *proved* to have sent;
 * what was only claimed and failed counts per address and domain, so a stranger cannot use up somebody else's budget, and a key that
 * proved itself lately passes even beside a stranger at the same address.
 */
export const floodByClaim: Gate<Arrived & Claimed, object> = async ({ inbound, column, claim }, { flood, rates }) => {
  if (claim.kind === 'none' || claim.kind === 'resident') return {};
  if (claim.kind === 'signature' && flood.windows.count(domainKey(column, claim.domain)) >= rates.peer)
    return tooMuch(flood);
  const limit = claim.kind === 'token' ? rates.ip : rates.peer;
  const failed = flood.windows.count(failureKey(inbound.request.ip, claim));
  return failed >= limit && !flood.proven.has(claim.name) ? tooMuch(flood) : {};
};

/**
 * Too much from this domain, now that it is known to be it? Messages, reads and calls between instances have a budget each, which all replicas
 * share. What is refused by this process's own count asks the database no more.
 */
export const floodByDomain: Gate<Arrived & Claimed & Called, object> = async (facts, tools) => {
  const { flood, rates } = tools;
  const { claim, principal, column } = facts;
  if (claim.kind === 'token' || claim.kind === 'signature') flood.proven.set(claim.name, true);
  if (principal.kind !== 'signer') return {};
  return (await countDomain(domainKey(column, principal.domain), rates.peer, tools)) ?? {};
};

/**
 * Peers that nobody here lists, neither as contact nor by a link nor in `allow`, come after those that somebody does: what they send also counts
 * against half of the domain's budget, so the other half is always left for the listed ones.
 */
export function floodByStranger(domain: string, tools: Tools): Promise<Refusal | null> {
  return countDomain(`stranger ${domain}`, Math.max(1, Math.floor(tools.rates.peer / 2)), tools);
}

async function countDomain(key: string, limit: number, { flood, store }: Tools): Promise<Refusal | null> {
  flood.windows.add(key);
  if (flood.windows.count(key) > limit) return tooMuch(flood);
  const place = await store.countRate(key);
  flood.windows.raise(key, place);
  return place > limit ? tooMuch(flood) : null;
}

/** A proof did not hold: it counts against the address that sent it. */
export function noteFailure({ inbound, claim }: Arrived & Claimed, { flood }: Tools): void {
  if (claim.kind === 'none' || claim.kind === 'resident') return;
  flood.windows.add(failureKey(inbound.request.ip, claim));
  if (claim.kind === 'token') flood.windows.add(`address ${neighbourhood(inbound.request.ip)}`);
}

function tooMuch(flood: Tools['flood']): Refusal {
  return refuse('rate_limited', undefined, { retryAfter: flood.windows.secondsLeft });
}

function domainKey(column: Arrived['column'], domain: string): string {
  return `domain ${column === 'read' || column === 'instance' ? column : 'message'} ${domain}`;
}

function failureKey(ip: string, claim: Exclude<Claimed['claim'], { kind: 'none' | 'resident' }>): string {
  return `failed ${neighbourhood(ip)} ${claim.kind === 'token' ? '' : claim.domain}`;
}
