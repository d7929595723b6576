import type { Watcher } from '../directory/types.ts';
import { type Admitted, markAdmitted } from '../exchange/admitted.ts';
import type { Principal } from '../exchange/sender.ts';
import { Refusal } from '../lib/refusal.ts';
import { address } from './address.ts';
import { claim, prove, proveWatcher } from './authenticate.ts';
import { capability } from './capability.ts';
import { consent } from './consent.ts';
import { createFlood } from './counters.ts';
import { type Explanation, explain, type Question } from './explain.ts';
import type { Arrived, Column, GateDeps, Tools } from './facts.ts';
import { floodByAddress, floodByClaim, floodByDomain } from './flood.ts';
import type { Inbound } from './inbound.ts';
import { integrity } from './integrity.ts';
import { limits } from './limits.ts';
import { link } from './link.ts';
import { isSealed, policy } from './policy.ts';
import { quota } from './quota.ts';
import { type Row, table, walk } from './run.ts';
import { thread } from './thread.ts';

export type { Explanation, GateAnswer } from './explain.ts';
export type { GateDeps } from './facts.ts';
export type { HandedOn, Inbound, Operation } from './inbound.ts';
export { bearerToken } from './proofs/token.ts';
export type { Row } from './run.ts';
export { createGateStore, type GateStore } from './store.ts';

const everybody = ['request', 'answer', 'event', 'read', 'instance', 'watch', 'knock'] as const;
/** A watcher's key proves nothing anywhere else, and no other proof does there. */
const people = ['request', 'answer', 'event', 'read', 'instance', 'knock'] as const;
const all = ['request', 'answer', 'event', 'read', 'instance'] as const;
const messages = ['request', 'answer', 'event'] as const;
/** An answer that nobody here asked for is told to its addressee, so it is asked as a request is. */
const taken = ['request', 'answer'] as const;

/**
 * THE table: every gate, in order (design §4). A column is what is asked, never a wire, so no wire can have weaker gates. A row may stand
 * twice where one question is asked at two costs.
 */
// biome-ignore format: a table
export const gates = table()
  .row('flood',        everybody, 'too much from this address?',                                floodByAddress)
  .row('authenticate', everybody, 'which proof does it say it has, and is its form right?',     claim)
  .row('flood',        everybody, 'too much in this name? (before any DID is fetched)',         floodByClaim)
  .row('authenticate', people,    'does the proof hold?',                                       prove)
  .row('authenticate', ['watch'], 'is it the key of a watcher?',                                proveWatcher)
  .row('flood',        people,    'too much from this domain, now that it is known?',           floodByDomain)
  .row('integrity',    all,      'is it what was sent, in time, and only once?',               integrity)
  .row('capability',   all,      'if a capability token is there: does it allow this?',        capability)
  .row('address',      messages, 'who of the caller\'s own speaks, and to whom?',              address)
  .row('link',         messages, 'another org: is the link active, the agent exposed, the rules kept?', link)
  .row('consent',      messages, 'may this principal reach this owner at all?',                consent)
  .row('policy',       taken,    'does the agent\'s own policy take it?',                      policy)
  .row('quota',        messages, 'may the sender\'s org send more today, and how long may it wait?', quota)
  .row('thread',       messages, 'which thread and session may it be part of?',                thread)
  .row('limits',       messages, 'does the chain that it stands in end, and is the pair of agents not paused?', limits);

export interface Gates {
  /** For the operation `message`. Whoever holds the result has been through every row of its column; the exchange takes nothing else. */
  admit(inbound: Inbound): Promise<Admitted | Refusal>;
  /** For `read`, `instance` and `knock`: who is calling. The caller's right to the thing itself is the core's to judge. */
  identify(inbound: Inbound): Promise<Principal | Refusal>;
  /** For `watch`: the org whose wakes the key of a watcher may poll and ack. */
  watcher(inbound: Inbound): Promise<Watcher | Refusal>;
  /** What would become of a request, gate by gate, without one. For the owner of the agent, and admins: it shows rules. */
  explain(question: Question): Promise<Explanation | Refusal>;
  /** The table, to be shown and tested. */
  readonly rows: readonly Row[];
}

export function createGates(deps: GateDeps): Gates {
  const tools: Tools = { ...deps, flood: createFlood(deps.clock) };
  return {
    rows: gates.rows,
    async admit(inbound) {
      const facts = await walk(gates, arrived(inbound), tools);
      return facts instanceof Refusal ? facts : markAdmitted(admission(facts as AllFacts));
    },
    async watcher(inbound) {
      const facts = await walk(gates, arrived(inbound), tools);
      return facts instanceof Refusal ? facts : facts.watcher!;
    },
    explain: (question) => explain(gates.rows, question, tools),
    async identify(inbound) {
      const facts = await walk(gates, arrived(inbound), tools);
      return facts instanceof Refusal ? facts : facts.principal!;
    },
  };
}

type AllFacts = NonNullable<(typeof gates)['proved']>;

function arrived(inbound: Inbound): Arrived {
  return { inbound, column: columnOf(inbound) };
}

function columnOf({ operation, envelope }: Inbound): Column {
  if (operation !== 'message') return operation;
  switch (envelope?.kind) {
    case 'event':
      return 'event';
    case 'progress':
    case 'reply':
      return 'answer';
    default:
      return 'request';
  }
}

function admission(facts: AllFacts) {
  const { inbound, sender } = facts;
  const envelope = { ...facts.envelope, thread: facts.thread };
  const hasInbox = inbound.answers === 'inbox';
  return {
    wire: inbound.wire,
    envelope,
    envelopeText: inbound.envelopeText ?? JSON.stringify(envelope),
    a2aText: inbound.a2aText ?? null,
    sender,
    senderKey: facts.senderKey,
    target: facts.target,
    signature: facts.signature,
    proof: facts.replay,
    idempotent: inbound.idempotent,
    askerHasInbox: sender.kind === 'local' && sender.agent !== null && hasInbox,
    askerVia: sender.kind === 'peer' && hasInbox ? sender.domain || null : null,
    askerBy: inbound.answersBy ?? null,
    expiresAt: facts.expiresAt,
    reservedFor: facts.reservedFor,
    sealed: isSealed(envelope.body),
    senderNode: facts.principal.kind === 'node' ? facts.principal.node.nodeId : null,
    quota: facts.quota,
    files: facts.files,
    budget: facts.budget,
    // Only a request is judged.
    held: facts.held ?? null,
  };
}
