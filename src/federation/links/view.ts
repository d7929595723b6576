import type { Link, LinkView } from '../types.ts';
import { stateOf } from './moves.ts';
import type { LinkRow, LogRow } from './store.ts';

export function toLink(row: LinkRow): Link {
  return {
    id: row.id,
    orgId: row.orgId,
    peerHandle: row.peerHandle,
    peerDomain: row.peerDomain,
    peerOrgId: row.peerOrgId,
    peerOrg: row.peerOrg,
    peerIsPrimary: row.peerAlias !== null,
    knownAs: row.knownAs,
    state: stateOf(row),
    signedOnly: row.signedOnly,
    ips: row.ips,
    ours: row.ours,
    theirs: row.theirs,
    theirRev: row.theirRev,
  };
}

export function viewOf(row: LinkRow, log: readonly LogRow[]): LinkView {
  const state = stateOf(row);
  const theirs = JSON.parse(row.theirRules) as { signed_only?: boolean; ips?: string[] };
  return {
    org: row.org,
    other: row.peerHandle,
    domain: row.peerDomain,
    state,
    proposed_by: state === 'proposed' ? (row.ourWant > 0 ? row.org : row.peerHandle) : null,
    exposes: row.ours,
    exposed: row.theirs,
    rules: { signed_only: row.signedOnly, ips: row.ips.join(',') },
    their_rules: theirs.ips ? { signed_only: theirs.signed_only === true, ips: theirs.ips.join(',') } : null,
    known_as: row.knownAs !== null && row.knownAs !== row.org ? row.knownAs : null,
    problem: row.peerDomain !== null && row.toldRev < row.ourRev ? row.problem : null,
    log: log.map((entry) => ({
      at: Math.floor(entry.at / 1000),
      by: `${entry.side === 'ours' ? row.org : row.peerHandle}/${entry.by}`,
      what: entry.what,
      detail: JSON.parse(entry.detail) as Record<string, unknown>,
    })),
  };
}
