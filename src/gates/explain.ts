import { ownerDid, ownerOfDid } from '../directory/dids.ts';
import { readAddress } from '../directory/names.ts';
import type { Agent } from '../directory/types.ts';
import type { Envelope } from '../exchange/message.ts';
import type { Principal } from '../exchange/sender.ts';
import { didWebParts, isDidWeb, parseDid } from '../identity/did.ts';
import { Refusal, type RefusalCode, refuse } from '../lib/refusal.ts';
import type { Column, Gate, GateDeps, Judged, Tools } from './facts.ts';
import type { Row } from './run.ts';

export interface Question {
  /** Who would ask: a DID (somebody's own door), an address (through its org's link, or an agent here), or `anyone`. */
  from: string;
  to: Agent;
  /** `ask` unless it says otherwise. */
  action: string;
}

export interface GateAnswer {
  gate: string;
  asks: string;
  /**
   * `assumed`: about the proof itself, which only a real request has. `waits`: for the owner. `not_reached`: what it needs is not known. A gate behind
   * the first that refuses is asked as if that one had passed.
   */
  result: 'passes' | 'waits' | 'refuses' | 'assumed' | 'not_reached';
  code?: RefusalCode;
  words?: string;
  /** What decided: a line of a policy, a contact, an entry of `allow`, a link, an exposure. */
  rules: string[];
}

export interface Explanation {
  from: string;
  to: string;
  action: string;
  outcome: 'delivered' | 'pending_approval' | 'pending_connection' | 'refused';
  /** The first gate that does not let it pass, and its code; null when all do. */
  stopped_by: string | null;
  code: RefusalCode | null;
  gates: GateAnswer[];
}

type AnyRow = Row & { readonly gate: Gate<never, object> };

const aboutTheProof: ReadonlySet<string> = new Set(['flood', 'authenticate', 'integrity', 'capability']);
const column: Column = 'request';

/**
 * What would become of a request, gate by gate, with the very gates that judge one (design §4). Nothing is sent, counted or written, and no DID
 * document is fetched: whoever asks is taken to be who it says, with a node's signature, in the form that the agent takes. Refusal: `invalid_field`.
 */
export async function explain(
  rows: readonly AnyRow[],
  question: Question,
  tools: Tools,
): Promise<Explanation | Refusal> {
  const { from, to, action } = question;
  const who = await principalOf(from, to, tools);
  if (who instanceof Refusal) return who;
  const notes: string[] = [];
  const dry: Tools = { ...withoutTraces(tools), note: (rule) => void notes.push(rule) };
  const envelope: Envelope = {
    v: 1,
    id: 'explain',
    kind: 'request',
    from: who.from,
    to: to.address,
    action,
    body: to.encryptedOnly ? { type: 'application/redsyn+encrypted', enc: {} } : { type: 'text/plain', text: '' },
  };
  let facts: Record<string, unknown> = {
    column,
    inbound: { wire: 'redsyn', operation: 'message', request: nothing, envelope, answers: 'inbox', idempotent: true },
    principal: who.principal,
    proof: null,
    signature: { payload: '', nodeId: null, fingerprint: '' },
    replay: null,
    actions: [action],
  };

  const gates: GateAnswer[] = [];
  let first: GateAnswer | undefined;
  let isLost = false;
  for (const { name, asks, columns, gate } of rows) {
    if (!columns.has(column)) continue;
    if (aboutTheProof.has(name)) {
      gates.push({ gate: name, asks, result: 'assumed', rules: [] });
      continue;
    }
    if (isLost) {
      gates.push({ gate: name, asks, result: 'not_reached', rules: [] });
      continue;
    }
    notes.length = 0;
    const proved = await gate(facts as never, dry);
    if (!(proved instanceof Refusal)) {
      facts = { ...facts, ...proved };
      const { held } = proved as Partial<Judged>;
      const waits = held !== undefined && held !== null;
      const answer: GateAnswer = { gate: name, asks, result: waits ? 'waits' : 'passes', rules: [...notes] };
      gates.push(waits ? { ...answer, code: 'pending_approval' } : answer);
      if (waits) first ??= gates.at(-1)!;
      continue;
    }
    const { code, words } = proved;
    gates.push({ gate: name, asks, result: 'refuses', code, words, rules: [...notes] });
    first ??= gates.at(-1)!;
    const passed = asIfPassed[name];
    if (passed) facts = { ...facts, ...passed };
    else isLost = true;
  }
  return {
    from,
    to: to.address,
    action,
    outcome: outcomeOf(first?.code),
    stopped_by: first?.gate ?? null,
    code: first?.code ?? null,
    gates,
  };
}

/** What a gate would have proved had it not refused. */
const asIfPassed: Readonly<Record<string, object>> = {
  link: { link: null },
  consent: { senderKey: 'explain', contact: null },
  policy: { held: null },
};

function outcomeOf(code: RefusalCode | undefined): Explanation['outcome'] {
  if (code === undefined) return 'delivered';
  return code === 'pending_approval' || code === 'pending_connection' ? code : 'refused';
}

/** What gates write is left out; what they read is read. */
function withoutTraces(tools: Tools): Tools {
  const federation: GateDeps['federation'] = Object.assign(Object.create(tools.federation) as GateDeps['federation'], {
    requestConnection: async () => {},
    peerId: async () => 'explain',
  });
  return { ...tools, federation };
}

async function principalOf(
  from: string,
  to: Agent,
  { directory, federation, self }: Tools,
): Promise<{ principal: Principal; from: string } | Refusal> {
  if (from === 'anyone') return { principal: { kind: 'anonymous' }, from: '' };
  if (from.startsWith('did:')) {
    const agent = await directory.agentByDid(from);
    if (agent) return here(agent, directory);
    const did = parseDid(from, { allowIp: true });
    if (did instanceof Refusal) return refuse('invalid_field', '`from` is no DID.', { data: { field: 'from' } });
    if (!isDidWeb(did)) return { principal: { kind: 'did-key', did }, from: did };
    return { principal: signer(ownerOfDid(did) ?? did, didWebParts(did).authority), from: did };
  }
  const address = readAddress(from, { field: 'from' });
  if (address instanceof Refusal) return address;
  const agent = await directory.agentAt({ ...address, session: null });
  if (agent) return here(agent, directory);
  const link = await federation.link(to.orgId, address.org);
  const domain = link?.peerDomain ?? null;
  if (!link || domain === null || domain === self.domain) {
    const words = `\`from\` names no agent here, and no link of ${to.org} leads to ${address.org}: write its DID.`;
    return refuse('invalid_field', words, { data: { field: 'from' } });
  }
  const org = link.peerIsPrimary ? null : (link.peerOrg ?? link.peerHandle);
  return { principal: signer(ownerDid(domain, { org, user: address.user }), domain), from };
}

function signer(did: string, domain: string): Principal {
  return { kind: 'signer', did, domain, keyId: `${did}#key-1`, isInstance: false };
}

async function here(
  agent: Agent,
  directory: Tools['directory'],
): Promise<{ principal: Principal; from: string } | Refusal> {
  const member = await directory.member(agent.memberId);
  if (!member) return refuse('not_found');
  const node = {
    nodeId: 'explain',
    nodeName: 'explain',
    personId: member.personId,
    isOperator: false,
    email: null,
    members: [member],
    publicKey: null,
    encKey: null,
    encSig: null,
  };
  return { principal: { kind: 'node', node }, from: agent.address };
}

/** No request: what depends on one is assumed. */
const nothing = {
  method: 'POST',
  target: '/',
  path: '/',
  search: '',
  params: {},
  headers: { get: () => undefined, all: () => [], raw: [] },
  authority: '',
  scheme: 'https' as const,
  ip: '0.0.0.0',
  body: Buffer.alloc(0),
  gone: new AbortController().signal,
};
