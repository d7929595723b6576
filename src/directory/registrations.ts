import type { Db, Tx } from '../db/types.ts';
import type { Clock } from '../lib/clock.ts';
import { sha256 } from '../lib/ids.ts';
import { neighbourhood } from '../lib/ip.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import { Windows } from '../lib/windows.ts';
import type { AgentKeys } from './agent-keys.ts';
import type { Agents } from './agents.ts';
import { attempt } from './attempt.ts';
import type { Deliveries, DeliveryOrder } from './delivery.ts';
import * as store from './join-codes/store.ts';
import { membersById } from './people/store.ts';
import type { Agent } from './types.ts';

export interface RegistrationsDeps {
  db: Db;
  clock: Clock;
  agents: Agents;
  agentKeys: AgentKeys;
  deliveries: Deliveries;
}

export interface Registered {
  agent: Agent;
  /** Told once. */
  apiKey: string;
}

/** A minute and address: design §10 has 60 valid ones pass, and wrong codes stop far sooner than 1,000. */
const mostAttempts = 120;
const mostWrong = 20;

/** `POST /api/v1/agents/register`: a join code for an agent with a key of its own. */
export class Registrations {
  readonly #deps: RegistrationsDeps;
  readonly #windows: Windows;

  constructor(deps: RegistrationsDeps) {
    this.#deps = deps;
    this.#windows = new Windows(deps.clock);
  }

  /** Counts one attempt of an address: 429 when there were too many, whether they were good or not. */
  knock(ip: string): Refusal | undefined {
    const at = neighbourhood(ip);
    if (this.#windows.count(`wrong ${at}`) < mostWrong && this.#windows.count(at) < mostAttempts) {
      this.#windows.add(at);
      return undefined;
    }
    return refuse('rate_limited', 'Too many registration attempts from this IP.', {
      retryAfter: this.#windows.secondsLeft,
    });
  }

  /**
   * The database decides, in one transaction: of two who bring one code at the same instant one gets the agent, and whatever is refused leaves the
   * code unused. Refusals in the document's words: `unauthenticated` (four of them), `conflict`; `invalid_field`, `quota_exceeded`.
   */
  async register(
    code: string | null,
    q: { name: string; description: string; delivery: DeliveryOrder },
    ip: string,
  ): Promise<Registered | Refusal> {
    const { db, clock, agents, agentKeys, deliveries } = this.#deps;
    const fault = await deliveries.fault(q.delivery);
    const done = await attempt(db, async (tx): Promise<Registered | Refusal> => {
      const row = await open(tx, code, clock.now());
      if (row instanceof Refusal || fault) return row instanceof Refusal ? row : fault!;
      const [owner] = await membersById(tx, [row.memberId]);
      if (!owner) return refuse('unauthenticated', 'Invalid join code');
      const agent = await agents.insertNamed(tx, owner, { id: row.teamId, handle: row.team }, q);
      if (agent instanceof Refusal) return agent;
      await store.spendCode(tx, row.id, agent.id, clock.now());
      await deliveries.put(tx, agent, q.delivery);
      const { key } = await agentKeys.insert(tx, agent.id);
      return { agent, apiKey: key };
    });
    if (done instanceof Refusal && done.code === 'unauthenticated') this.#windows.add(`wrong ${neighbourhood(ip)}`);
    return done;
  }

  /** What a code that is not good is told, before anything else of the request is judged. */
  async check(code: string | null, ip: string): Promise<Refusal | undefined> {
    const { db, clock } = this.#deps;
    const row = await db.tx((tx) => open(tx, code, clock.now()));
    if (!(row instanceof Refusal)) return undefined;
    this.#windows.add(`wrong ${neighbourhood(ip)}`);
    return row;
  }
}

/** replyslip.md, the table of responses. */
async function open(tx: Tx, code: string | null, now: number): Promise<store.CodeRow | Refusal> {
  const row = code === null ? undefined : await store.lockCode(tx, sha256(code));
  if (!row) return refuse('unauthenticated', 'Invalid join code');
  if (row.revokedAt !== null) return refuse('unauthenticated', 'This join code has been revoked');
  if (row.usedAt !== null) return refuse('unauthenticated', 'This join code has already been used');
  if (row.expiresAt <= now) return refuse('unauthenticated', 'This join code has expired');
  return row;
}
