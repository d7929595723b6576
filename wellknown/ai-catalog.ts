import { instanceDid } from '../src/directory/dids.ts';
import { isPublic } from '../src/directory/entries.ts';
import type { Agent } from '../src/directory/types.ts';
import { cardPathOf } from './agent-card.ts';
import type { Place } from './did.ts';

/**
 * `/.well-known/ai-catalog.json` (AI Catalog, github.com/Agent-Card/ai-catalog, specification/ai-catalog.md: "Catalog Entry", "Well-Known URI"): the same
 * agents as agents.json, each by the URL of its card. Names and descriptions stand in the cards alone, as the specification asks.
 */
export function aiCatalog(place: Place, org: string, agents: readonly Agent[]): object {
  const rows = agents.filter(isPublic).sort((a, b) => (a.address < b.address ? -1 : 1));
  return {
    specVersion: '1.0',
    host: { displayName: org, identifier: instanceDid(place.authority) },
    entries: rows.map((agent) => ({
      identifier: airName(place, agent),
      type: 'application/a2a-agent-card+json',
      url: place.base + cardPathOf(agent),
    })),
  };
}

/** `urn:air:{publisher}:{namespace}:{name}`; a port is written as in a did:web. */
function airName({ authority }: Place, { org, orgIsPrimary, user, team, handle }: Agent): string {
  const names = [...(orgIsPrimary ? [] : ['orgs', org]), 'agents', user, team, handle];
  return ['urn', 'air', authority.replace(':', '%3A'), ...names].join(':');
}
