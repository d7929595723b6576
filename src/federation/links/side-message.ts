import { isName } from '../../directory/names.ts';
import { containsNul } from '../../lib/json.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { readExposure } from '../exposure.ts';
import type { Exposure } from '../types.ts';
import { type Half, halfOf } from './moves.ts';
import { readIps } from './rules.ts';
import type { LinkRow, LogRow } from './store.ts';

/** Exposures of one side of a link; entries of the log that travel. */
export const maxExposures = 500;
export const maxLogTold = 50;

/** The whole side of one org for one link, as it travels in `POST /federation/v1/links` and in its answer. */
export interface SideMessage extends Half {
  v: 1;
  from: { org: string; primary: boolean };
  /** `org` null: the primary org of the instance that is written to. */
  to: { org: string | null };
  /** The newest revision of the receiver's side that the teller has. */
  seen: number;
  /** How the teller writes the receiver's org. */
  calls_you: string;
  exposes: Exposure[];
  rules: { signed_only: boolean; ips: string[] } | null;
  /** The teller's own changes, oldest first. `at`: milliseconds since 1970. */
  log: Array<{ id: string; at: number; by: string; what: string; detail: Record<string, unknown> }>;
}

/** Our side. What we expose and ask is told only while we want the link. */
export function sideOf(row: LinkRow, log: readonly LogRow[]): SideMessage {
  const wanted = row.ourWant > 0;
  return {
    v: 1,
    from: { org: row.org, primary: row.orgIsPrimary },
    to: { org: row.peerAlias === null ? row.peerOrg : null },
    ...halfOf(row),
    seen: row.theirRev,
    calls_you: row.peerHandle,
    exposes: wanted ? row.ours : [],
    rules: wanted ? { signed_only: row.signedOnly, ips: row.ips } : null,
    log: log.map(({ id, at, by, what, detail }) => ({
      id,
      at,
      by,
      what,
      detail: JSON.parse(detail) as Record<string, unknown>,
    })),
  };
}

/** Reads a side that a peer told. Unknown fields are passed over. */
export function readSide(value: unknown): SideMessage | Refusal {
  if (!isObject(value)) return refuse('malformed_request', 'The body must be a JSON object.');
  if (value.v !== 1) return refuse('unknown_version', undefined, { data: { known: [1] } });
  if (containsNul(value)) return refuse('malformed_request', 'The body holds a NUL.');
  const { from, to } = value;
  if (!isObject(from) || typeof from.org !== 'string' || !isName(from.org)) return invalid('from.org');
  if (!isObject(to) || !(to.org === null || (typeof to.org === 'string' && isName(to.org)))) return invalid('to.org');
  const { rev, want, voids, seen } = value;
  for (const [field, number] of Object.entries({ rev, want, voids, seen }))
    if (!isRevision(number)) return invalid(field);
  if ((rev as number) < 1 || (want as number) > (rev as number)) return invalid('want');
  if (typeof value.calls_you !== 'string' || !/^[a-z0-9._-]{1,260}$/.test(value.calls_you)) return invalid('calls_you');
  const exposes = readExposures(value.exposes);
  if (exposes instanceof Refusal) return exposes;
  const rules = readRules(value.rules);
  if (rules instanceof Refusal) return rules;
  const log = readLog(value.log);
  if (log instanceof Refusal) return log;
  return {
    v: 1,
    from: { org: from.org, primary: from.primary === true },
    to: { org: to.org },
    rev: rev as number,
    want: want as number,
    voids: voids as number,
    seen: seen as number,
    calls_you: value.calls_you,
    exposes,
    rules,
    log,
  };
}

function readExposures(value: unknown): Exposure[] | Refusal {
  if (!Array.isArray(value) || value.length > maxExposures) return invalid('exposes');
  const exposures: Exposure[] = [];
  for (const item of value as unknown[]) {
    const exposure = isObject(item) ? readExposure(item.kind, item.pattern) : invalid('exposes');
    if (exposure instanceof Refusal) return invalid('exposes');
    exposures.push(exposure);
  }
  return exposures;
}

function readRules(value: unknown): SideMessage['rules'] | Refusal {
  if (value === null || value === undefined) return null;
  if (!isObject(value) || typeof value.signed_only !== 'boolean') return invalid('rules');
  const ips = readIps(value.ips);
  return ips instanceof Refusal ? invalid('rules') : { signed_only: value.signed_only, ips };
}

function readLog(value: unknown): SideMessage['log'] | Refusal {
  if (!Array.isArray(value) || value.length > maxLogTold) return invalid('log');
  const log: SideMessage['log'] = [];
  for (const item of value as unknown[]) {
    if (!isObject(item)) return invalid('log');
    const { id, at, by, what, detail } = item;
    if (typeof id !== 'string' || !/^[A-Za-z0-9._-]{1,64}$/.test(id) || !isRevision(at)) return invalid('log');
    if (typeof by !== 'string' || !isName(by) || typeof what !== 'string' || !/^[a-z_]{1,40}$/.test(what))
      return invalid('log');
    if (!isObject(detail) || JSON.stringify(detail).length > 2000) return invalid('log');
    log.push({ id, at, by, what, detail });
  }
  return log;
}

// Far below 2^53, so that counting on never leaves what a double can hold.
function isRevision(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 50;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

function invalid(field: string): Refusal {
  return refuse('invalid_field', `\`${field}\` is not valid.`, { data: { field } });
}
