import { Refusal, refuse } from '../lib/refusal.ts';
import type { Address } from './types.ts';

/** Where a sender stands: short forms are resolved from here (REDSYN "Direcciones"). */
export interface Seat {
  org: string;
  team: string;
  user: string;
}

/** `topic:org/team/name`. */
export interface Topic {
  org: string;
  team: string;
  name: string;
}

export interface ReadOptions {
  /** The field that the text stands in, for the words of a refusal. Default `to`. */
  readonly field?: string;
  readonly seat?: Seat;
}

const NAME = /^[a-z0-9._-]+$/;
const NAME_LENGTH = 100;
// A DNS name has at most 253 characters; a port adds six.
const ORG_LENGTH = 260;
const ADDRESS_LENGTH = 600;
const PORTED = /^([a-z0-9.-]+):([1-9][0-9]{0,4})$/;
const DASHED = /^(localhost|[a-z0-9.-]*\.[a-z0-9.-]*[a-z0-9])-([1-9][0-9]{0,4})$/;
const SESSION = /^s([1-9][0-9]{0,8})$/;

/** A name as it may stand in an address: `[a-z0-9._-]`, at most 100 characters, no dot segment (those steer URLs). */
export function isName(text: string): boolean {
  return text.length <= NAME_LENGTH && NAME.test(text) && text !== '.' && text !== '..';
}

export function readName(text: string, field: string): string | Refusal {
  return isName(text)
    ? text
    : invalid(field, `must be lower-case letters, digits, \`.\`, \`-\` and \`_\`, at most ${NAME_LENGTH} of them`);
}

const reserved: Readonly<Record<'team' | 'user', readonly string[]>> = {
  // `h/agents/u/agent` is the address of a foreign did:web agent that has no team (design §3).
  team: ['agents'],
  // Words of an agent's `allow`.
  user: ['org', 'anyone'],
};

/** A name for something new: besides the grammar, nothing that addresses, policies or public paths give another meaning. */
export function readNewName(text: string, field: string, noun: 'org' | 'team' | 'user' | 'agent'): string | Refusal {
  const name = readName(text, field);
  if (name instanceof Refusal) return name;
  if (name.startsWith('.')) return invalid(field, 'must not begin with a dot');
  if ((noun === 'team' || noun === 'user') && reserved[noun].includes(name)) {
    return invalid(field, `must not be \`${name}\`: that word has a meaning of its own`);
  }
  return name;
}

/**
 * The authority (`acme.com`, `localhost:8081`) that an org segment spells, or null when it is a plain handle. A port may be written with a
 * dash (`localhost-8081`), because `:` has no place in a handle.
 */
export function authorityOf(org: string): string | null {
  const [, host, port] = PORTED.exec(org) ?? DASHED.exec(org) ?? [];
  if (host !== undefined) return Number(port) <= 65_535 ? `${host}:${port}` : null;
  return org === 'localhost' || /^[a-z0-9-]+(\.[a-z0-9-]+)+$/.test(org) ? org : null;
}

/** Whether an org segment is this authority, in either spelling. */
export function namesAuthority(org: string, authority: string): boolean {
  return org === authority || org === authority.replace(':', '-');
}

/** The handle that an org has by default: its domain, a port written with a dash (design §3). */
export function handleOfAuthority(authority: string): string {
  return authority.replace(':', '-');
}

/**
 * Reads `org/team/user/agent`, with `#sN` or `#new`; with a seat also `agent`, `user/agent` and `team/user/agent`.
 * Refused as `invalid_field` that names the field.
 */
export function readAddress(text: string, options: ReadOptions = {}): Address | Refusal {
  const field = options.field ?? 'to';
  if (text.length > ADDRESS_LENGTH) return invalid(field, `is longer than ${ADDRESS_LENGTH} characters`);
  const hash = text.indexOf('#');
  const session = hash < 0 ? null : readSession(text.slice(hash + 1));
  if (session === undefined) return invalid(field, 'has a session that is neither `#new` nor `#s` and a number');
  const names = fromSeat((hash < 0 ? text : text.slice(0, hash)).split('/'), options.seat, ['org', 'team', 'user']);
  if (names?.length !== 4) return invalid(field, 'must be an address: org/team/user/agent');
  const [org, team, user, agent] = names as [string, string, string, string];
  if (!isOrg(org) || ![team, user, agent].every(isName)) {
    return invalid(field, 'holds a name that is not lower-case letters, digits, `.`, `-` and `_`');
  }
  return { org, team, user, agent, session };
}

/** Reads `topic:org/team/name`; with a seat also `topic:name` and `topic:team/name`. */
export function readTopic(text: string, options: ReadOptions = {}): Topic | Refusal {
  const field = options.field ?? 'to';
  if (text.length > ADDRESS_LENGTH || !isTopic(text)) return invalid(field, 'must be a topic: topic:org/team/name');
  const names = fromSeat(text.slice('topic:'.length).split('/'), options.seat, ['org', 'team']);
  if (names?.length !== 3) return invalid(field, 'must be a topic: topic:org/team/name');
  const [org, team, name] = names as [string, string, string];
  if (!isOrg(org) || !isName(team) || !isName(name)) {
    return invalid(field, 'holds a name that is not lower-case letters, digits, `.`, `-` and `_`');
  }
  return { org, team, name };
}

export function isTopic(text: string): boolean {
  return text.startsWith('topic:');
}

export function formatAddress(address: Address): string {
  const { org, team, user, agent, session } = address;
  const suffix = session === null ? '' : session === 'new' ? '#new' : `#s${session}`;
  return `${org}/${team}/${user}/${agent}${suffix}`;
}

export function formatTopic({ org, team, name }: Topic): string {
  return `topic:${org}/${team}/${name}`;
}

/** The address of the agent itself: an address without its session. */
export function withoutSession(address: string): string {
  const hash = address.indexOf('#');
  return hash < 0 ? address : address.slice(0, hash);
}

function readSession(text: string): number | 'new' | undefined {
  if (text === 'new') return 'new';
  const [, n] = SESSION.exec(text) ?? [];
  return n === undefined ? undefined : Number(n);
}

/** Fills in from the left what a short form leaves out. */
function fromSeat(names: string[], seat: Seat | undefined, order: readonly (keyof Seat)[]): string[] | undefined {
  const missing = order.length + 1 - names.length;
  if (missing <= 0) return missing === 0 ? names : undefined;
  return seat && [...order.slice(0, missing).map((key) => seat[key]), ...names];
}

function isOrg(text: string): boolean {
  if (text.includes(':')) return text.length <= ORG_LENGTH && PORTED.test(text) && authorityOf(text) !== null;
  return text.length <= ORG_LENGTH && NAME.test(text) && text !== '.' && text !== '..';
}

function invalid(field: string, why: string): Refusal {
  return refuse('invalid_field', `\`${field}\` ${why}.`, { data: { field } });
}
