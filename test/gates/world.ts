import { createHash } from 'node:crypto';
import type { Address, Agent, Directory, Member, NodeIdentity, Org } from '../../src/directory/types.ts';
import type { ExchangeLookups, ExchangeRef } from '../../src/exchange/lookups.ts';
import type { Envelope } from '../../src/exchange/message.ts';
import type { Contact, Federation, Link } from '../../src/federation/types.ts';
import type { Inbound, Operation } from '../../src/gates/inbound.ts';
import { createGates, type GateDeps, type Gates } from '../../src/gates/index.ts';
import { readPolicy } from '../../src/gates/policies/text.ts';
import type { Policy } from '../../src/gates/policies/types.ts';
import { signRequest } from '../../src/identity/http-signature/sign.ts';
import { type KeyPair, keyPair } from '../../src/identity/keys.ts';
import { signEnvelope } from '../../src/identity/redsyn-seal.ts';
import { DidResolver } from '../../src/identity/resolver.ts';
import { ManualClock } from '../../src/lib/clock.ts';
import { FetchRefused } from '../../src/lib/fetch-types.ts';
import type { HttpRequest } from '../../src/lib/http.ts';
import { Refusal, refuse } from '../../src/lib/refusal.ts';

/** acme.test: orgs `acme` (primary: ana and joel) and `sales` (sue). globex.test: bob, eve; linked with acme, which exposes finance/ana/close. */
export const ACME = 'acme.test';
export const GLOBEX = 'globex.test';
export const bobDid = 'did:web:globex.test:agents:bob';
export const bobsAgent = 'globex/erp/bob/billing';

export const seed = (name: string): KeyPair => keyPair(createHash('sha256').update(name).digest());

const orgs: Record<string, Org> = {
  acme: { id: 'o-acme', handle: 'acme', isPrimary: true, apiVersion: '2026-09-25', plan: 'enterprise' },
  sales: { id: 'o-sales', handle: 'sales', isPrimary: false, apiVersion: '2026-09-25', plan: 'free' },
};

export const member = (org: 'acme' | 'sales', handle: string): Member => ({
  id: `m-${handle}`,
  orgId: orgs[org]!.id,
  org,
  orgIsPrimary: org === 'acme',
  personId: `person-${handle}`,
  handle,
  role: 'member',
});

function agent(org: 'acme' | 'sales', team: string, user: string, handle: string, more: Partial<Agent> = {}): Agent {
  return {
    id: `a-${user}-${handle}`,
    orgId: orgs[org]!.id,
    org,
    orgIsPrimary: org === 'acme',
    teamId: `t-${team}`,
    team,
    memberId: `m-${user}`,
    personId: `person-${user}`,
    user,
    handle,
    name: handle,
    address: `${org}/${team}/${user}/${handle}`,
    description: '',
    adapter: '',
    profile: {},
    isDefault: false,
    isFrontDesk: false,
    isListed: false,
    allow: [],
    trust: 'none',
    signedOnly: false,
    encryptedOnly: false,
    ...more,
  };
}

export const globexLink: Link = {
  id: 'l-globex',
  orgId: 'o-acme',
  peerHandle: 'globex',
  peerDomain: GLOBEX,
  peerOrgId: null,
  peerOrg: 'globex',
  peerIsPrimary: true,
  knownAs: null,
  state: 'active',
  signedOnly: false,
  ips: [],
  ours: [{ kind: 'agent', pattern: 'finance/ana/close' }],
  theirs: [],
  theirRev: 1,
};

export class World {
  readonly clock = new ManualClock();
  readonly agents: Agent[] = [
    agent('acme', 'finance', 'ana', 'close', { allow: ['org', 'org:globex'], isDefault: true }),
    agent('acme', 'finance', 'ana', 'hidden', { allow: ['org', 'org:globex'] }),
    agent('acme', 'dev', 'joel', 'reviewer', { isDefault: true }),
    agent('sales', 'field', 'sue', 'pitch', { isDefault: true }),
  ];
  readonly teams: Record<string, string[]> = { 'm-ana': ['finance'], 'm-joel': ['dev'], 'm-sue': ['field'] };
  readonly nodes = new Map<string, NodeIdentity>();
  readonly plans: Record<string, Org['plan']> = {};
  links: Link[] = [{ ...globexLink }];
  contacts: Contact[] = [];
  blockedDomains = new Set<string>();
  /** By the credential's text, and `<agent id> <did>` of who showed one before. */
  introductions = new Map<string, object>();
  introduced = new Set<string>();
  /** `<room id> <did or agent id>`. */
  roomMembers = new Set<string>();
  /** Of every owner. */
  policy: string | null = null;
  exchanges: (ExchangeRef & { domain?: string })[] = [];
  sessions = new Map<string, 'open' | 'closed'>();
  /** DIDs of documents that were fetched. */
  readonly fetched: string[] = [];
  documents = new Map<string, unknown>();
  /** Everything that anything wrote. A refused message leaves it empty, unless the gate says otherwise. */
  readonly writes: string[] = [];
  /** What was asked of the directory, federation and exchange, to see which gates were reached. */
  readonly asked: string[] = [];
  readonly nodeKey = seed('node of joel');
  readonly rates = { ip: 600, peer: 100 };
  readonly gates: Gates;

  constructor() {
    for (const [handle, org] of [
      ['ana', 'acme'],
      ['joel', 'acme'],
      ['sue', 'sales'],
    ] as const) {
      this.nodes.set(`ghn_${handle}`, {
        nodeId: `n-${handle}`,
        nodeName: 'laptop',
        personId: `person-${handle}`,
        isOperator: false,
        email: null,
        members: [member(org, handle)],
        publicKey: handle === 'joel' ? this.nodeKey.publicKey.raw.toString('base64url') : null,
        encKey: null,
        encSig: null,
      });
    }
    for (const did of [
      bobDid,
      'did:web:globex.test:agents:eve',
      'did:web:globex.test',
      'did:web:stranger.test:agents:mal',
    ]) {
      this.publish(did);
    }
    this.gates = createGates(this.deps());
  }

  agent(handle: string): Agent {
    return this.agents.find((found) => found.handle === handle)!;
  }

  publish(did: string, key = seed(did)): void {
    const id = `${did}#key-1`;
    this.documents.set(did, {
      id: did,
      verificationMethod: [
        { id, type: 'Ed25519VerificationKey2020', controller: did, publicKeyMultibase: key.publicKeyMultibase },
      ],
      authentication: [id],
    });
  }

  deps(): GateDeps {
    return {
      clock: this.clock,
      directory: this.#directory(),
      federation: this.#federation(),
      lookups: this.#lookups(),
      resolver: new DidResolver({
        clock: this.clock,
        fetch: async (url) => {
          const { hostname, pathname } = new URL(url);
          const segments = pathname
            .replace(/\/did\.json$/, '')
            .split('/')
            .filter((part) => part && part !== '.well-known');
          const did = ['did:web', hostname, ...segments].join(':');
          this.fetched.push(did);
          const document = this.documents.get(did);
          if (!document) throw new FetchRefused('connect', 'no such host');
          return {
            status: 200,
            headers: { get: (name) => (name === 'content-type' ? 'application/json' : undefined) },
            body: Buffer.from(JSON.stringify(document)),
          };
        },
      }),
      store: {
        insertProof: async (key) => {
          const entry = `proof ${key.toString('hex')}`;
          if (this.writes.includes(entry)) return false;
          this.writes.push(entry);
          return true;
        },
        countRate: async () => 0,
        purge: async () => 0,
      },
      limits: { budget: async () => ({ pausedFor: null, tokensLeft: null }) },
      policies: {
        standing: async () => ({
          decided: [],
          contact: null,
          owner: this.policy === null ? null : (readPolicy(this.policy, 'owner') as Policy),
        }),
      },
      self: { domain: ACME, authorities: [ACME, 'www.acme.test'] },
      rates: this.rates,
    };
  }

  #directory(): Directory {
    const find = (q: Address): Agent | null =>
      this.agents.find(
        (a) =>
          `${a.team}/${a.user}/${a.handle}` === `${q.team}/${q.user}/${q.agent}` &&
          (a.org === q.org || (a.orgIsPrimary && q.org === ACME)),
      ) ?? null;
    const directory: Partial<Directory> = {
      nodeByToken: async (token) => {
        this.asked.push('nodeByToken');
        return this.nodes.get(token) ?? null;
      },
      agentByKey: async (key) => {
        this.asked.push('agentByKey');
        const found = this.agents.find(({ handle }) => key === `rsk_${handle}`);
        return found
          ? { keyId: `k-${found.handle}`, agent: found, member: member(found.org as 'acme', found.user) }
          : null;
      },
      watcherByKey: async (key) => (key === 'rsw_acme' ? { keyId: 'w-acme', orgId: 'o-acme' } : null),
      agentAt: async (address) => {
        this.asked.push('agentAt');
        return find(address);
      },
      agentByDid: async (did) => {
        const [user, team, handle] = did.replace(`did:web:${ACME}:agents:`, '').split(':');
        return (
          this.agents.find(
            (a) => a.user === user && (team === undefined ? a.isDefault : a.team === team && a.handle === handle),
          ) ?? null
        );
      },
      agentById: async (id) => this.agents.find((a) => a.id === id) ?? null,
      defaultAgent: async (id) => this.agents.find((a) => a.memberId === id && a.isDefault) ?? null,
      memberNamed: async (org, user) =>
        org === null || org === ACME || org === 'acme'
          ? ['ana', 'joel'].includes(user)
            ? member('acme', user)
            : null
          : org === 'sales' && user === 'sue'
            ? member('sales', 'sue')
            : null,
      teamsOf: async (id) => {
        this.asked.push('teamsOf');
        return this.teams[id] ?? [];
      },
      org: async (handle) => orgs[handle === ACME ? 'acme' : handle] ?? null,
      sealedFor: async (agentId, reader) => {
        this.asked.push(`sealedFor ${reader}`);
        return `listener of ${agentId}`;
      },
      orgById: async (id) => {
        const org = Object.values(orgs).find((found) => found.id === id);
        return org ? { ...org, plan: this.plans[org.handle] ?? org.plan } : null;
      },
    };
    return directory as Directory;
  }

  #federation(): Federation {
    const federation: Partial<Federation> = {
      link: async (orgId, peer) => {
        this.asked.push('link');
        return this.links.find((l) => l.orgId === orgId && [l.peerHandle, l.peerDomain].includes(peer)) ?? null;
      },
      linksWithDomain: async (domain) => {
        this.asked.push('link');
        return this.links.filter((l) => l.peerDomain === domain);
      },
      contact: async (owner, dids) => {
        this.asked.push('contact');
        const found = this.contacts.filter((c) => c.owner === owner && dids.includes(c.peerDid));
        return found.find((c) => c.blocked) ?? found[0] ?? null;
      },
      isDomainBlocked: async (orgId, domain) => this.blockedDomains.has(`${orgId} ${domain}`),
      peerId: async (did) => {
        if (!this.writes.includes(`peer ${did}`)) this.writes.push(`peer ${did}`);
        return `peer-${did}`;
      },
      presentIntroduction: async (_agent, _sender, credential) => {
        this.asked.push('presentIntroduction');
        return this.introductions.get(credential) ?? refuse('introduction_invalid');
      },
      isRoomMember: async (room, { dids, localAgent }) => {
        this.asked.push('isRoomMember');
        return [...dids, localAgent].some((who) => this.roomMembers.has(`${room.id} ${who}`));
      },
      isIntroduced: async (agent, sender) => {
        this.asked.push('isIntroduced');
        return this.introduced.has(`${agent.id} ${sender}`);
      },
      requestConnection: async ({ owner, peerDid }) => {
        const entry = `request ${owner} ${peerDid}`;
        if (!this.writes.includes(entry)) this.writes.push(entry);
      },
    };
    return federation as Federation;
  }

  #lookups(): ExchangeLookups {
    const theOne = (found: ExchangeRef | undefined): ExchangeRef | Refusal => found ?? refuse('not_found');
    return {
      answerableByAgent: async ({ agentId, replyTo }) =>
        theOne(this.exchanges.find((e) => e.requestId === replyTo && e.askedAgent === agentId)),
      anonymousIn: async () => null,
      openInThread: async () => null,
      answerableByPeer: async ({ domain, from, replyTo }) =>
        theOne(this.exchanges.find((e) => e.requestId === replyTo && e.domain === domain && e.askedAddr === from)),
      session: async ({ agentId, n, participant }) => {
        const state = this.sessions.get(`${agentId} ${n} ${participant}`);
        if (state === undefined) return refuse('address_not_found');
        return state === 'closed' ? refuse('session_closed') : { conversation: 'c' };
      },
    };
  }

  /** The exchange of a request that joel's reviewer asked of bob's agent on globex. */
  askedOfBob(more: Partial<ExchangeRef> = {}): void {
    this.exchanges.push({
      id: 'e1',
      requestId: 'q1',
      asker: 'm:m-joel',
      askerAgent: 'a-joel-reviewer',
      askerOwner: 'm-joel',
      askerAddr: 'acme/dev/joel/reviewer',
      askerVia: null,
      asked: 'p:1',
      askedAgent: null,
      askedAddr: bobsAgent,
      ended: false,
      domain: GLOBEX,
      ...more,
    });
  }
}

export function envelope(more: Partial<Envelope> = {}): Envelope {
  return {
    v: 1,
    id: 'm1',
    kind: 'request',
    from: 'acme/dev/joel/reviewer',
    to: 'acme/finance/ana/close',
    body: { type: 'text/plain', text: 'Is invoice 123 paid?' },
    ...more,
  };
}

export const fromBob = (more: Partial<Envelope> = {}): Envelope => envelope({ from: bobsAgent, ...more });

export interface RequestOptions {
  method?: string;
  target?: string;
  authority?: string;
  ip?: string;
  headers?: Record<string, string>;
  body?: string;
}

export function request(options: RequestOptions = {}): HttpRequest {
  const {
    target = '/a2a/v1',
    method = 'POST',
    authority = ACME,
    ip = '198.51.100.7',
    headers = {},
    body = '',
  } = options;
  const raw = Object.entries(headers);
  const all = (name: string): string[] =>
    raw.filter(([field]) => field.toLowerCase() === name).map(([, value]) => value);
  const query = target.indexOf('?');
  return {
    method,
    target,
    path: query < 0 ? target : target.slice(0, query),
    search: query < 0 ? '' : target.slice(query),
    params: {},
    headers: { raw, all, get: (name) => (all(name).length > 0 ? all(name).join(', ') : undefined) },
    authority,
    scheme: 'https',
    ip,
    body: Buffer.from(body),
    gone: new AbortController().signal,
  };
}

export interface SignOptions extends RequestOptions {
  did?: string;
  key?: KeyPair;
  keyId?: string;
  now?: number;
  /** The authority that is signed for. */
  signedFor?: string;
}

export async function signed(world: World, options: SignOptions = {}): Promise<HttpRequest> {
  const { did = bobDid, now = world.clock.now(), target = '/a2a/v1', method = 'POST', body = '{"x":1}' } = options;
  const bytes = method === 'GET' ? '' : body;
  const headers = await signRequest(
    {
      method,
      url: `https://${options.signedFor ?? options.authority ?? ACME}${target}`,
      ...(bytes && { body: Buffer.from(bytes) }),
    },
    { keyId: options.keyId ?? `${did}#key-1`, key: options.key ?? seed(did), now },
  );
  return request({ ...options, target, method, body: bytes, headers: { ...headers, ...options.headers } });
}

export function bearer(token: string, options: RequestOptions = {}): HttpRequest {
  return request({ ...options, headers: { authorization: `Bearer ${token}`, ...options.headers } });
}

export function message(http: HttpRequest, sent: Envelope, more: Partial<Inbound> = {}): Inbound {
  return {
    wire: 'a2a',
    operation: 'message',
    request: http,
    envelope: sent,
    envelopeText: JSON.stringify(sent),
    idempotent: true,
    answers: 'inbox',
    ...more,
  };
}

export function call(http: HttpRequest, operation: Operation = 'read'): Inbound {
  return { wire: 'a2a', operation, request: http, idempotent: false, answers: 'poll' };
}

export function seal(sent: Envelope, key: KeyPair, ts: number): Envelope {
  const whole = { ...sent, ts };
  const sig = signEnvelope(whole as Parameters<typeof signEnvelope>[0], key);
  if (sig instanceof Refusal) throw new Error(sig.words);
  return { ...whole, sig };
}

/** `gate code status`, or `passed`. */
export function said(outcome: unknown): string {
  return outcome instanceof Refusal ? `${outcome.gate} ${outcome.code} ${outcome.status}` : 'passed';
}
