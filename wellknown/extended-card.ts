import type { DidFacts, Facts } from '../src/directory/facts.ts';
import type { Agent } from '../src/directory/types.ts';
import { type CardForm, extendedAgentCard } from './agent-card.ts';
import type { Place } from './did.ts';

/** Who asks for an extended card, and has proved to be somebody: the orgs here that they are in. */
export interface Audience {
  readonly orgIds: readonly string[];
}

/** Signed like the public ones. Null: the agent is none that this caller may know of. Colleagues may of any, everybody else of those that the instance names to strangers. */
export async function extendedCard(
  {
    place,
    facts,
    sign,
  }: { place: Place; facts: Pick<Facts, 'agent'>; sign(card: object, plain: object): Promise<object> },
  agent: Agent,
  { orgIds }: Audience,
  form: CardForm,
): Promise<object | null> {
  const { org, orgIsPrimary, user, team, handle } = agent;
  const known: DidFacts | null = await facts.agent(orgIsPrimary ? null : org, { user, team, agent: handle });
  if (!known || !(known.isPublic || orgIds.includes(agent.orgId))) return null;
  const didKey = known.alsoKnownAs.find((name) => name.startsWith('did:key:')) ?? null;
  const build = (as: CardForm): object => extendedAgentCard(place, agent, didKey, as);
  return sign(build(form), build('1.0'));
}
