import { agentDid } from '../src/directory/dids.ts';
import type { DidFacts } from '../src/directory/facts.ts';
import type { Agent } from '../src/directory/types.ts';
import type { Place } from './did.ts';
import { profileOf } from './profile.ts';

/** How an agent's answers are put into another language (confer.md "Estrategia de traducción"). */
const styles = ['preserve-style', 'localize-style'] as const;
const maxVerifiers = 16;

/**
 * AgentFacts (confer.md "AgentFacts", confer-wire-facts §5): what an agent says about itself, in NANDA's form. `owner`: whose key signs what the agent sends;
 * `publicKey` names it. Who vouches for the agent is what its profile claims: a reader has to ask those.
 */
export function agentFacts(place: Place, agent: Agent, owner: DidFacts | null): object {
  const { name, description, language, capabilities } = profileOf(agent);
  const { org, orgIsPrimary, user, team, handle, profile } = agent;
  const key = owner?.methods.findLast(({ state }) => state === 'active');
  return {
    '@context': 'https://nanda.dev/schemas/agent/v1',
    did: agentDid(place.authority, { org: orgIsPrimary ? null : org, user, team, agent: handle }),
    name,
    description,
    primary_language: language,
    style: styles.find((style) => style === profile.style) ?? styles[0],
    owner: { type: 'Organization', name: org, url: place.base },
    capabilities,
    endpoints: { a2a: `${place.base}/a2a/v1`, stream: `${place.base}/a2a/v1/stream` },
    trust: trustOf(profile.trust, key?.activeFrom ?? null),
    ...(key && { publicKey: { id: key.id, type: 'Ed25519VerificationKey2020' } }),
  };
}

/** `issuedAt` is what the profile says of those who vouch; without, since when the key that `publicKey` names stands for it (milliseconds). */
function trustOf(value: unknown, since: number | null): { verifiedBy: string[]; issuedAt?: string } {
  const { verifiedBy, issuedAt } =
    typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  const who = Array.isArray(verifiedBy) ? verifiedBy.slice(0, maxVerifiers) : [];
  const isDate = typeof issuedAt === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]{8,15}Z$/.test(issuedAt);
  const own = since === null ? undefined : new Date(since).toISOString().replace(/\.\d+Z$/, 'Z');
  const issued = isDate ? issuedAt : own;
  return {
    verifiedBy: who.filter(
      (did): did is string => typeof did === 'string' && did.startsWith('did:') && did.length <= 600,
    ),
    ...(issued !== undefined && { issuedAt: issued }),
  };
}
