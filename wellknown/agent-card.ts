import type { Agent } from '../src/directory/types.ts';
import type { Place } from './did.ts';
import { type Profile, profileOf } from './profile.ts';

export const SIGNATURE_EXTENSION = 'https://www.rfc-editor.org/rfc/rfc9421';
export const REDSYN_EXTENSION = 'https://gatehouse.dev/ext/redsyn/v1';

/** `1.0`: nothing but what A2A 1.0 knows. `hybrid`: the same with the fields that 0.3 and muretai readers look for (a2a-conformance §5). */
export type CardForm = '1.0' | 'hybrid';

/** The agent's own card, reached at its own paths. */
export function agentCard(place: Place, agent: Agent, didKey: string | null, form: CardForm): object {
  const names = [agent.user, agent.team, agent.handle];
  const orgPath = agent.orgIsPrimary ? '' : `/orgs/${agent.org}`;
  const tenant = agent.orgIsPrimary ? names.join(':') : `orgs:${agent.org}:agents:${names.join(':')}`;
  return card(place, form, {
    ...profileOf(agent),
    organization: agent.org,
    address: agent.address,
    didKey,
    takesAnyone: agent.allow.includes('anyone'),
    url: `${place.base}/a2a/v1/${tenant}`,
    legacyUrl: `${place.base}${orgPath}/agents/${names.join('/')}`,
  });
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
  /** Where A2A alone is spoken. */
  url: string;
  /** What 0.3 and muretai readers dial. */
  legacyUrl: string;
}

const modes = ['text/plain', 'application/json'];

function card(place: Place, form: CardForm, facts: Facts): object {
  const hybrid = form === 'hybrid';
  return {
    ...(hybrid && { protocolVersion: '0.3.0' }),
    name: facts.name,
    description: facts.description,
    ...(hybrid && {
      url: facts.legacyUrl,
      preferredTransport: 'JSONRPC',
      additionalInterfaces: [{ url: facts.legacyUrl, transport: 'JSONRPC' }],
      ...(facts.didKey !== null && { did: facts.didKey }),
    }),
    supportedInterfaces: [
      { url: facts.url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      { url: facts.legacyUrl, protocolBinding: 'JSONRPC', protocolVersion: '0.3' },
    ],
    provider: { organization: facts.organization, url: place.base },
    version: facts.version,
    capabilities: {
      streaming: false,
      pushNotifications: false,
      ...(hybrid && { stateTransitionHistory: false }),
      extendedAgentCard: false,
      extensions: extensions(facts),
    },
    securitySchemes: {
      nodeToken: {
        ...(hybrid && { type: 'http', scheme: 'bearer', description: nodeToken }),
        httpAuthSecurityScheme: { scheme: 'Bearer', description: nodeToken },
      },
    },
    defaultInputModes: modes,
    defaultOutputModes: modes,
    skills: facts.skills,
    ...(hybrid && { supportsAuthenticatedExtendedCard: false }),
  };
}

const nodeToken =
  'For people of this instance: the token of one of their nodes. Everybody else signs (see the extensions).';

/** A request signature is none of A2A's security schemes, so the need for one is told as a required extension (confer.md "Protocolo A2A"). */
function extensions({ takesAnyone, address }: Facts): object[] {
  return [
    {
      uri: SIGNATURE_EXTENSION,
      description: 'Requests are signed with HTTP Message Signatures by a key of the did:web document of the sender.',
      required: !takesAnyone,
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
      required: false,
      ...(address !== null && { params: { address } }),
    },
  ];
}
