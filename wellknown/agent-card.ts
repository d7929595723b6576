import type { Agent } from '../src/directory/types.ts';
import type { Place } from './did.ts';
import { type Profile, profileOf } from './profile.ts';

export const SIGNATURE_EXTENSION = 'https://www.rfc-editor.org/rfc/rfc9421';
export const REDSYN_EXTENSION = 'https://gatehouse.dev/ext/redsyn/v1';

/** `1.0`: nothing but what A2A 1.0 knows. `hybrid`: the same with the fields that 0.3 and muretai readers look for (a2a-conformance §5). */
export type CardForm = '1.0' | 'hybrid';

/** The agent's own card, reached at its own paths. */
export function agentCard(place: Place, agent: Agent, didKey: string | null, form: CardForm): object {
  return card(place, form, agentFacts(place, agent, didKey));
}

/** What a caller that has proved who it is gets beside: whom the agent takes requests from, and in which form. */
export function extendedAgentCard(place: Place, agent: Agent, didKey: string | null, form: CardForm): object {
  const { allow, signedOnly, encryptedOnly, trust } = agent;
  const policy = { accepts: allow, trust, signed_only: signedOnly, encrypted_only: encryptedOnly };
  return card(place, form, { ...agentFacts(place, agent, didKey), policy });
}

function agentFacts(place: Place, agent: Agent, didKey: string | null): Facts {
  const names = [agent.user, agent.team, agent.handle];
  const tenant = agent.orgIsPrimary ? names.join(':') : `orgs:${agent.org}:agents:${names.join(':')}`;
  return {
    ...profileOf(agent),
    organization: agent.org,
    address: agent.address,
    didKey,
    takesAnyone: agent.allow.includes('anyone'),
    isPure: agent.profile.card === '1.0',
    url: `${place.base}/a2a/v1/${tenant}`,
    legacyUrl: place.base + pathOf(agent),
  };
}

/** Where the agent's card stands. */
export function cardPathOf(agent: Agent): string {
  return `${pathOf(agent)}/.well-known/agent-card.json`;
}

function pathOf({ org, orgIsPrimary, user, team, handle }: Agent): string {
  return `${orgIsPrimary ? '' : `/orgs/${org}`}/agents/${user}/${team}/${handle}`;
}

/**
 * The card of the front desk at the instance's root. `agent`: who sits there. Where strangers must not know her (she is not public), or nobody
 * sits there, the card speaks for the company alone.
 */
export function frontDeskCard(
  place: Place,
  org: string,
  agent: Agent | null,
  didKey: string | null,
  form: CardForm,
): object {
  const urls = { url: `${place.base}/a2a/v1`, legacyUrl: `${place.base}/` };
  if (agent) {
    const takesAnyone = agent.allow.includes('anyone');
    return card(place, form, {
      ...profileOf(agent),
      organization: agent.org,
      address: agent.address,
      didKey,
      takesAnyone,
      ...urls,
    });
  }
  const description = `The gateway of ${org}. Its agents are listed in ${place.base}/.well-known/agents.json.`;
  return card(place, form, {
    name: org,
    description,
    version: '1.0.0',
    language: 'und',
    skills: [{ id: 'ask', name: 'Ask', description: `Asks ${org}.`, tags: ['ask'] }],
    capabilities: [],
    organization: org,
    address: null,
    didKey,
    takesAnyone: false,
    ...urls,
  });
}

interface Facts extends Profile {
  organization: string;
  address: string | null;
  didKey: string | null;
  takesAnyone: boolean;
  /** The agent wants its card to hold what A2A 1.0 knows and nothing else, whoever asks (`"card": "1.0"` in its profile). */
  isPure?: boolean;
  /** In extended cards. */
  policy?: object;
  /** Where A2A alone is spoken. */
  url: string;
  /** What 0.3 and muretai readers dial. */
  legacyUrl: string;
}

const modes = ['text/plain', 'application/json'];
/** Files of any kind go along with a message. */
const inputModes = [...modes, '*/*'];

function card(place: Place, form: CardForm, facts: Facts): object {
  const hybrid = form === 'hybrid' && !facts.isPure;
  // Where every caller proves itself anyway: clients fetch it by themselves, and anonymous ones would run into a 401.
  const extended = !facts.takesAnyone && facts.address !== null;
  return {
    ...(hybrid && { protocolVersion: '0.3.0' }),
    name: facts.name,
    description: facts.description,
    ...(hybrid && {
      url: facts.legacyUrl,
      preferredTransport: 'JSONRPC',
      additionalInterfaces: [
        { url: facts.legacyUrl, transport: 'JSONRPC' },
        { url: facts.legacyUrl, transport: 'HTTP+JSON' },
      ],
      ...(facts.didKey !== null && { did: facts.didKey }),
    }),
    supportedInterfaces: [
      { url: facts.url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      { url: facts.url, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' },
      { url: facts.legacyUrl, protocolBinding: 'JSONRPC', protocolVersion: '0.3' },
      { url: facts.legacyUrl, protocolBinding: 'HTTP+JSON', protocolVersion: '0.3' },
    ],
    provider: { organization: facts.organization, url: place.base },
    version: facts.version,
    capabilities: {
      streaming: true,
      pushNotifications: true,
      ...(hybrid && { stateTransitionHistory: false }),
      extendedAgentCard: extended,
      extensions: extensions(facts, hybrid),
    },
    securitySchemes: {
      nodeToken: {
        ...(hybrid && { type: 'http', scheme: 'bearer', description: nodeToken }),
        httpAuthSecurityScheme: { scheme: 'Bearer', description: nodeToken },
      },
    },
    defaultInputModes: inputModes,
    defaultOutputModes: modes,
    skills: facts.skills,
    ...(hybrid && { supportsAuthenticatedExtendedCard: extended }),
  };
}

const nodeToken =
  'For people of this instance: the token of one of their nodes. Everybody else signs (see the extensions).';

/** A request signature is none of A2A's security schemes, so the need for one is told as a required extension (confer.md "Protocolo A2A"). */
function extensions({ takesAnyone, address, policy }: Facts, hybrid: boolean): object[] {
  // ProtoJSON leaves a false out, and so does the form of the card that is signed (A2A §8.4.1).
  const required = (is: boolean): object => (is || hybrid ? { required: is } : {});
  return [
    {
      uri: SIGNATURE_EXTENSION,
      description: 'Requests are signed with HTTP Message Signatures by a key of the did:web document of the sender.',
      ...required(!takesAnyone),
      params: {
        signatureAlgorithm: 'ed25519',
        keyDiscovery: 'did:web',
        senderDidDocument: 'keyid is a verification method of the DID document of the sender, resolved by its did:web',
      },
    },
    {
      uri: REDSYN_EXTENSION,
      description:
        'message.metadata may hold a REDSYN envelope under this URI; it is taken byte for byte, and its id makes a repeat safe.',
      ...required(false),
      ...(address !== null && { params: { address, ...policy } }),
    },
  ];
}
