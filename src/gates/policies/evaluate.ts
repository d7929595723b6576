import { isAtOrBelow } from '../../identity/did.ts';
import { levelOf } from '../actions.ts';
import { matches } from './glob.ts';
import type { DecidedRule, Policy, Rule, Section, Verdict } from './types.ts';

/** Who asks, as an owner may have written it. */
export interface Asker {
  /** Every DID that it goes by. */
  readonly names: readonly string[];
  /** The authority of its did:web; '' when it has none. */
  readonly domain: string;
  readonly contact: { readonly alias: string | null } | null;
  /** The handle of the linked org that it comes from. */
  readonly org: string | null;
}

export interface Standing {
  readonly decided: readonly DecidedRule[];
  /** The contact's own policy and the owner's; null where there is none. */
  readonly contact: Policy | null;
  readonly owner: Policy | null;
}

export interface Judgement {
  readonly verdict: Verdict;
  /** What decided, for the owner: `your policy, line 4: deny ask:personal:*`. */
  readonly rule: string;
}

/**
 * What an owner's standing rules say of an action. The order, here and nowhere else:
 *
 * 1. A `deny` that matches, wherever it stands (a decision "always", the contact's policy, the owner's policy), denies. Of any level.
 * 2. L1 is allowed. L3 is asked, whatever else the rules say.
 * 3. `require_human_in_loop` of a section for this peer: asked.
 * 4. The most specific rule: a decision "always" for this peer and action, for this peer, for the action; then the contact's policy; then the owner's
 *    sections, a DID before an alias before a domain or org before `unknown` before `*`; within a section the longest pattern.
 * 5. `default`: the contact's, then the owner's in that same order. Without one: allowed, since connecting was consent (confer.md).
 *
 * A policy in the JSON form counts with its first rule that matches alone (confer-wire-facts §10).
 */
export function judge(action: string, asker: Asker, standing: Standing): Judgement {
  const level = levelOf(action);
  const sections = sectionsFor(asker, standing);
  const decided = standing.decided.filter(
    ({ action: of, peerDid }) =>
      (of === '*' || action === of || action.startsWith(`${of}:`)) && (peerDid === '' || asker.names.includes(peerDid)),
  );

  const denied = decided.find(({ decision }) => decision === 'deny');
  if (denied) return { verdict: 'deny', rule: wordsOf(denied) };
  for (const section of sections) {
    const rule = matching(section, action, asker).find(({ verdict }) => verdict === 'deny');
    if (rule) return { verdict: 'deny', rule: wordsFor(section, rule) };
  }

  if (level === 'L1') return { verdict: 'allow', rule: `level L1: ${action} needs no question` };
  if (level === 'L3') return { verdict: 'ask_user', rule: `level L3: ${action} is asked every time` };

  const watched = sections.find(({ humanInLoop }) => humanInLoop);
  if (watched) {
    return { verdict: 'ask_user', rule: `${whereOf(watched)}, ${watched.humanInLoop!.at}: require_human_in_loop` };
  }
  const allowed = decided.toSorted((a, b) => specific(b) - specific(a))[0];
  if (allowed) return { verdict: 'allow', rule: wordsOf(allowed) };
  for (const section of sections) {
    const rule = matching(section, action, asker)[0];
    if (rule) return { verdict: rule.verdict, rule: wordsFor(section, rule) };
  }
  for (const section of sections) {
    const { fallback } = section;
    if (fallback)
      return { verdict: fallback.verdict, rule: `${whereOf(section)}, ${fallback.at}: default ${fallback.verdict}` };
  }
  return { verdict: 'allow', rule: 'no rule and no default: connecting was consent' };
}

const order: readonly Verdict[] = ['deny', 'ask_user', 'allow'];

/** Of several actions the strictest counts. */
export function strictest(
  actions: readonly string[],
  asker: Asker,
  standing: Standing,
): Judgement & { readonly action: string } {
  return actions
    .map((action) => ({ ...judge(action, asker, standing), action }))
    .toSorted((a, b) => order.indexOf(a.verdict) - order.indexOf(b.verdict))[0]!;
}

interface Placed extends Section {
  readonly of: 'contact' | 'owner';
}

function sectionsFor(asker: Asker, { contact, owner }: Standing): Placed[] {
  const own = (owner?.sections ?? [])
    .map((section) => ({ section, rank: rankOf(section, asker) }))
    .filter(({ rank }) => rank > 0)
    .sort((a, b) => b.rank - a.rank)
    .map(({ section }) => ({ ...section, of: 'owner' as const }));
  return [...(contact?.sections ?? []).map((section) => ({ ...section, of: 'contact' as const })), ...own];
}

/** How narrowly a section names this peer; 0: not at all. */
function rankOf({ peer }: Section, { names, domain, contact, org }: Asker): number {
  if (peer === null || peer === '*') return 1;
  if (peer.startsWith('did:')) return names.some((name) => isAtOrBelow(name, peer)) ? 6 : 0;
  const alias = contact?.alias ?? null;
  if (alias !== null && (peer === alias || slug(peer) === slug(alias))) return 5;
  if (domain !== '' && (peer === domain || peer === domain.replace(':', '-'))) return 4;
  if (org !== null && peer === org) return 4;
  return peer === 'unknown' && contact === null && org === null ? 2 : 0;
}

/** Most specific first; of a JSON policy the first alone. */
function matching({ rules, order }: Section, action: string, { names }: Asker): Rule[] {
  const found = rules.filter(
    ({ pattern, peerDid }) =>
      (peerDid === null || names.includes(peerDid)) &&
      (pattern.kind === 'glob' ? matches(pattern.text, action) : action.startsWith(pattern.text)),
  );
  if (order === 'first_match') return found.slice(0, 1);
  return found.toSorted((a, b) => literal(b) - literal(a));
}

/** Characters that are no wildcard. */
function literal({ pattern }: Rule): number {
  return pattern.text.replace(/[*?]/g, '').length;
}

function specific({ action, peerDid }: DecidedRule): number {
  return (peerDid === '' ? 0 : 2) + (action === '*' ? 0 : 1);
}

/** `ACME Industries` is `acme-industries`. */
function slug(text: string): string {
  return text
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, '-')
    .replace(/^-|-$/g, '');
}

function whereOf({ of, peer }: Placed): string {
  return of === 'contact' ? "the contact's policy" : `your policy${peer === null ? '' : `, peer.${peer}`}`;
}

function wordsFor(section: Placed, { at, verdict, pattern }: Rule): string {
  return `${whereOf(section)}, ${at}: ${verdict} ${pattern.text || '*'}`;
}

function wordsOf({ decision, action, peerDid, createdAt }: DecidedRule): string {
  const when = new Date(createdAt).toISOString().slice(0, 10);
  return `your decision of ${when}: ${decision} ${action} ${peerDid === '' ? 'for anybody' : `for ${peerDid}`}, always`;
}
