import { readDid } from '../src/directory/dids.ts';
import type { DidFacts, Facts } from '../src/directory/facts.ts';
import type { Agent } from '../src/directory/types.ts';
import { agentCard, type CardForm, frontDeskCard } from './agent-card.ts';
import { agentFacts } from './agent-facts.ts';
import { agentsDocument } from './agents.ts';
import { aiCatalog } from './ai-catalog.ts';
import { didDocument, type Place } from './did.ts';
import { keyDirectory } from './key-directory.ts';

/** What the documents are made of. */
export interface Sources {
  readonly place: Place;
  /** The handle of the primary org. */
  readonly org: string;
  readonly facts: Pick<Facts, 'instance' | 'owner' | 'defaultAgent' | 'agent'>;
  /** The agent at the bare URL, public or not; null when there is none. */
  frontDesk(): Promise<Agent | null>;
  publicAgents(): Promise<readonly Agent[]>;
  /** Signs a card that is served; `plain` is the same in the form of A2A 1.0 alone. Without it cards go unsigned. */
  sign?(card: object, plain: object): Promise<object>;
}

/** What a request may choose. */
export interface Asked {
  /** Values of the path's `{name}` segments. */
  readonly params: Readonly<Record<string, string>>;
  readonly form: CardForm;
}

/** One public document. Null: there is nothing of that name that a stranger may know of. */
export interface PublicDocument {
  readonly paths: readonly string[];
  readonly mediaType: string;
  /** Seconds. What is no longer true is believed that long. */
  readonly maxAge: number;
  /** It depends on the `A2A-Version` that was asked for. */
  readonly versioned: boolean;
  readonly about: string;
  build(sources: Sources, asked: Asked): Promise<object | null>;
}

const did = { mediaType: 'application/did+json', maxAge: 60, versioned: false };
const card = { mediaType: 'application/json', maxAge: 60, versioned: true };
const keys: Pick<PublicDocument, 'maxAge' | 'versioned' | 'about' | 'build'> = {
  maxAge: 60,
  versioned: false,
  about: 'The keys with which this instance signs.',
  build: async ({ facts }) => keyDirectory(await facts.instance()),
};
const facts = { mediaType: 'application/json', maxAge: 60, versioned: false };
const agents = ['/agents/{user}', '/orgs/{org}/agents/{user}'];

/**
 * An owner's DID document is there for every owner, since her key signs what her agents send. An agent's document and card are there only for
 * agents that strangers may know of (listed, or open to `anyone`): of any other, a linked company learns through the link alone, and
 * hidden and missing look the same (FED-06).
 */
export const publicDocuments: readonly PublicDocument[] = [
  {
    ...did,
    paths: ['/.well-known/did.json'],
    about: 'The DID document of this instance.',
    build: async ({ place, facts }) => didDocument(place, await facts.instance()),
  },
  {
    ...did,
    paths: agents.map((path) => `${path}/did.json`),
    about: 'The DID document of a person.',
    build: async ({ place, facts }, { params }) => {
      const owner = await facts.owner(orgOf(params), params.user ?? '');
      return owner && didDocument(place, owner);
    },
  },
  {
    ...did,
    paths: agents.map((path) => `${path}/agent/did.json`),
    about: "The DID document of a person's default agent.",
    build: async ({ place, facts }, { params }) => {
      const agent = await facts.defaultAgent(orgOf(params), params.user ?? '');
      return agent?.isPublic ? didDocument(place, agent) : null;
    },
  },
  {
    ...did,
    paths: agents.map((path) => `${path}/{team}/{agent}/did.json`),
    about: 'The DID document of an agent.',
    build: async (sources, { params }) => {
      const agent = await agentAt(sources, params);
      return agent?.isPublic ? didDocument(sources.place, agent) : null;
    },
  },
  {
    mediaType: 'application/json',
    maxAge: 60,
    versioned: false,
    paths: ['/.well-known/agents.json'],
    about: 'The agents that this instance names to everybody.',
    build: async (sources) => {
      const listed = await sources.publicAgents();
      return agentsDocument(sources.place, listed, await ownersOf(sources, listed));
    },
  },
  {
    ...facts,
    paths: agents.map((path) => `${path}/agent.json`),
    about: "AgentFacts of a person's default agent.",
    build: async (sources, { params }) => {
      const { agent } = (await sources.facts.owner(orgOf(params), params.user ?? '')) ?? {};
      return agent ? factsDocument(sources, await factsOf(sources, agent)) : null;
    },
  },
  {
    ...facts,
    paths: agents.map((path) => `${path}/{team}/{agent}/agent.json`),
    about: 'AgentFacts of an agent.',
    build: async (sources, { params }) => factsDocument(sources, await agentAt(sources, params)),
  },
  {
    ...facts,
    paths: ['/a2a/v1/agent-facts/{did}'],
    about: 'AgentFacts of the agent or owner that a DID of this instance names.',
    build: async (sources, { params }) => {
      const name = readDid(params.did ?? '');
      if (!name || name.kind === 'instance' || name.authority !== sources.place.authority) return null;
      if (name.kind === 'agent') {
        const { org, user, team, agent } = name;
        return factsDocument(sources, await sources.facts.agent(org, { user, team, agent }));
      }
      const { agent } = (await sources.facts.owner(name.org, name.user)) ?? {};
      return agent ? factsDocument(sources, await factsOf(sources, agent)) : null;
    },
  },
  {
    mediaType: 'application/ai-catalog+json',
    maxAge: 60,
    versioned: false,
    paths: ['/.well-known/ai-catalog.json'],
    about: 'The same agents as an AI Catalog.',
    build: async ({ place, org, publicAgents }) => aiCatalog(place, org, await publicAgents()),
  },
  {
    ...keys,
    mediaType: 'application/jwk-set+json',
    paths: ['/.well-known/jwks.json'],
  },
  {
    ...keys,
    mediaType: 'application/http-message-signatures-directory+json',
    paths: ['/.well-known/http-message-signatures-directory'],
  },
  {
    ...card,
    paths: ['/.well-known/agent-card.json', '/.well-known/agent.json'],
    about: 'The A2A card of the front desk.',
    build: async (sources, { form }) => {
      const agent = await sources.frontDesk();
      const known = agent && (await factsOf(sources, agent));
      const seen = known?.isPublic ? known : null;
      return signed(sources, form, (as) =>
        frontDeskCard(sources.place, sources.org, seen?.agent ?? null, didKeyOf(seen), as),
      );
    },
  },
  {
    ...card,
    paths: cardPaths(agents),
    about: "The A2A card of a person's default agent.",
    build: async (sources, { params, form }) => {
      const { agent } = (await sources.facts.owner(orgOf(params), params.user ?? '')) ?? {};
      const known = agent ? await factsOf(sources, agent) : null;
      return known && cardOf(sources, known, form);
    },
  },
  {
    ...card,
    paths: cardPaths(agents.map((path) => `${path}/{team}/{agent}`)),
    about: 'The A2A card of an agent.',
    build: async (sources, { params, form }) => {
      const known = await agentAt(sources, params);
      return known && cardOf(sources, known, form);
    },
  },
];

async function factsDocument({ place, facts: known }: Sources, found: DidFacts | null): Promise<object | null> {
  if (!found?.isPublic || !found.agent) return null;
  const { org, orgIsPrimary, user } = found.agent;
  return agentFacts(place, found.agent, await known.owner(orgIsPrimary ? null : org, user));
}

/** By member: one look-up for an owner, however many of her agents are listed. */
async function ownersOf({ facts: known }: Sources, listed: readonly Agent[]): Promise<Map<string, DidFacts>> {
  const owners = new Map<string, DidFacts>();
  for (const { memberId, org, orgIsPrimary, user } of listed) {
    if (owners.has(memberId)) continue;
    const owner = await known.owner(orgIsPrimary ? null : org, user);
    if (owner) owners.set(memberId, owner);
  }
  return owners;
}

function cardPaths(bases: readonly string[]): string[] {
  return bases.flatMap((base) => [`${base}/.well-known/agent-card.json`, `${base}/agent-card.json`]);
}

async function cardOf(sources: Sources, known: DidFacts, form: CardForm): Promise<object | null> {
  const { agent, isPublic } = known;
  if (!isPublic || !agent) return null;
  return signed(sources, form, (as) => agentCard(sources.place, agent, didKeyOf(known), as));
}

/** A signature covers one form (A2A §8.4), so that each that is served is signed. */
async function signed({ sign }: Sources, form: CardForm, build: (form: CardForm) => object): Promise<object> {
  const card = build(form);
  return sign ? sign(card, form === '1.0' ? card : build('1.0')) : card;
}

function didKeyOf(known: DidFacts | null): string | null {
  return known?.alsoKnownAs.find((name) => name.startsWith('did:key:')) ?? null;
}

function agentAt({ facts }: Sources, params: Asked['params']): Promise<DidFacts | null> {
  const { user = '', team = '', agent = '' } = params;
  return facts.agent(orgOf(params), { user, team, agent });
}

function factsOf({ facts }: Sources, { org, orgIsPrimary, user, team, handle }: Agent): Promise<DidFacts | null> {
  return facts.agent(orgIsPrimary ? null : org, { user, team, agent: handle });
}

/** DIDs and paths leave the primary org out: there is one spelling. */
function orgOf(params: Asked['params']): string | null {
  return params.org ?? null;
}
