import type { Db, Notifier } from '../db/types.ts';
import type { Directory } from '../directory/types.ts';
import type { Limits } from '../exchange/limits/index.ts';
import type { Envelope } from '../exchange/message.ts';
import type { TurnFailure } from '../exchange/state.ts';
import type { Clock } from '../lib/clock.ts';
import type { Fetch } from '../lib/fetch-types.ts';
import type { Log } from '../lib/log.ts';
import { Refusal } from '../lib/refusal.ts';
import type { Delivered, Mailbox } from '../mailbox/index.ts';
import { type AnswererDeps, answerer, type Say } from './answer.ts';
import type { Knowledge } from './knowledge/index.ts';
import type { Memory } from './memory/index.ts';
import type { Endpoint, ModelSettings } from './settings/index.ts';
import { Speech } from './speech.ts';
import type { Sources } from './tools.ts';
import { historyMessages, historyOf, textOf } from './turn/history.ts';
import { type Answered, factsOf, runTurn } from './turn/index.ts';
import * as store from './turn/store.ts';
import { type Audience, type Failure, failure } from './types.ts';
import { type Outcome, Worker } from './worker.ts';

export interface ModelAgentsDeps extends Pick<AnswererDeps, 'admit' | 'exchange' | 'signer' | 'authority'> {
  db: Db;
  notifier: Notifier;
  clock: Clock;
  log: Log;
  fetch: Fetch;
  directory: Pick<Directory, 'agentById' | 'member'>;
  mailbox: Pick<Mailbox, 'take' | 'extend' | 'ack' | 'release'>;
  settings: ModelSettings;
  knowledge: Knowledge;
  memory: Memory;
  limits: Pick<Limits, 'budget' | 'spend'>;
  metrics: {
    /** `answered`, or the code of the failure. */
    turn(outcome: string): void;
    spent(tokens: number): void;
  };
}

/** What the asker is told; confer.md: an English sentence for people, the code for programs. */
const sentences: Record<TurnFailure, string> = {
  no_model_configured: 'This agent has no model configured, so it cannot answer.',
  unknown_provider: 'This agent is configured with a provider that is not known here, so it cannot answer.',
  no_key_for_provider: 'This agent has no key for its provider, so it cannot answer.',
  invalid_base_url: 'This agent is configured with a base URL that cannot be used, so it cannot answer.',
  agent_error: 'This agent could not answer: its model failed.',
};
const contactsShown = 200;
const mostRemembering = 8;
/** The answer may not leave: the day of its org is used up, or the like. To ask the model again at once would cost for nothing. */
const refusedRest = 300_000;

/** The adapter `model`: agents that an endpoint of a model answers for, with their owners' keys (confer.md "La capacidad de responder por A2A"). */
export class ModelAgents {
  readonly #deps: ModelAgentsDeps;
  readonly #worker: Worker;
  readonly #stopping = new AbortController();
  readonly #remembering = new Set<Promise<void>>();

  constructor(deps: ModelAgentsDeps) {
    this.#deps = deps;
    const { mailbox, notifier, clock, log, settings } = deps;
    this.#worker = new Worker({
      mailbox,
      notifier,
      clock,
      log,
      agents: () => settings.agents(),
      handle: (agentId, delivered, signal) => this.#handle(agentId, delivered, signal),
    });
  }

  start(): void {
    this.#worker.start();
  }

  /** Before the mailbox stops: what is under way goes back to it. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#worker.stop();
    await Promise.all(this.#remembering);
  }

  stats(): { agents: number; inFlight: number } {
    return this.#worker.stats();
  }

  async #handle(agentId: string, delivered: Delivered, signal: AbortSignal): Promise<Outcome> {
    const { db, directory, clock } = this.#deps;
    // Only a request asks for an answer: notifications, error replies and progress start none (design §4 "Loops").
    if (delivered.kind !== 'request') return { outcome: 'done' };
    const [agent, asked] = await Promise.all([directory.agentById(agentId), store.askedBy(db, delivered.seq, agentId)]);
    if (!agent || !asked || asked.ended) return { outcome: 'done' };

    const say = await answerer(this.#deps, agent, delivered, asked);
    const audience: Audience = asked.byPerson && asked.sender === `m:${agent.memberId}` ? 'owner' : 'peer';
    const cut = new AbortController();
    const both = AbortSignal.any([signal, cut.signal]);
    // One that is taken again was partly told before: its asker is told the end alone.
    const speech =
      asked.followsTask && delivered.attempts === 1 ? new Speech({ say, clock, closed: () => cut.abort() }) : null;
    const endpoint = await this.#deps.settings.endpoint(agentId);
    const question = textOf(JSON.parse(delivered.envelope) as Envelope);
    const turn =
      question === null
        ? failure('agent_error', 'the request is sealed for somebody else')
        : 'failure' in endpoint
          ? endpoint
          : await this.#turn({ audience, agent, delivered, asked, question, endpoint, signal: both, speech });
    await speech?.end();
    if (signal.aborted) return { outcome: 'back' };
    if (cut.signal.aborted) return { outcome: 'done' };
    return 'failure' in turn
      ? this.#fail(agentId, turn.failure, say)
      : this.#reply(agentId, turn, say, () => {
          // Nobody in particular is not remembered: nobody answers for what it said.
          if (question === null || 'failure' in endpoint || !endpoint.remembers || isAnonymous(asked)) return;
          const said = { owner: agent.memberId, source: delivered.from, question, answer: turn.text };
          this.#remember(audience, said, endpoint, spenderOf(agentId, asked));
        });
  }

  async #turn(q: {
    audience: Audience;
    agent: { id: string; address: string; description: string; memberId: string };
    delivered: Delivered;
    asked: store.AskedRow;
    question: string;
    endpoint: Endpoint;
    signal: AbortSignal;
    speech: Speech | null;
  }): Promise<Answered | { failure: Failure }> {
    const { db, limits, metrics, fetch, clock, log } = this.#deps;
    const { agent, asked, delivered, endpoint, speech } = q;
    const spender = spenderOf(agent.id, asked);
    const { pausedFor, tokensLeft } = await limits.budget(spender);
    if (pausedFor !== null || (tokensLeft !== null && tokensLeft <= 0)) {
      return failure('agent_error', `the limit of ${pausedFor ?? 'tokens'} is used up: gatehouse limits`);
    }
    const rows = await store.saidBefore(db, q.audience, {
      agentId: agent.id,
      conversation: asked.conversation,
      sender: asked.sender,
      from: delivered.from,
      before: delivered.seq,
      limit: historyMessages,
    });
    return runTurn(
      q.audience,
      {
        agent: { address: agent.address, description: agent.description, owner: agent.memberId },
        from: delivered.from,
        text: q.question,
        history: historyOf(rows),
      },
      endpoint,
      {
        fetch,
        clock,
        log,
        sources: this.#sources(),
        signal: q.signal,
        spent: async (tokens) => {
          metrics.spent(tokens);
          await limits.spend({ ...spender, tokens });
        },
        ...(speech && { onText: (text: string) => speech.add(text) }),
      },
    );
  }

  #sources(): Sources {
    const { db, knowledge, memory, fetch } = this.#deps;
    return {
      knowledge,
      memory,
      fetch,
      contacts: async (audience, owner) => (audience === 'owner' ? store.contactNames(db, owner, contactsShown) : []),
    };
  }

  async #reply(
    agentId: string,
    { text, citations, truncated }: Answered,
    say: Say,
    accepted: () => void,
  ): Promise<Outcome> {
    const data = { ...(citations.length > 0 && { citations }), ...(truncated && { truncated }) };
    const said = await say('reply', { type: 'text/plain', text, ...(Object.keys(data).length > 0 && { data }) });
    if (said instanceof Refusal) {
      // The form of the answer is not what was asked for: that it failed can be said.
      if (said.code === 'quota_exceeded') return this.#unsaid(agentId, said);
      return this.#fail(agentId, { code: 'agent_error', detail: `the answer is not taken: ${said.code}` }, say);
    }
    if (said === 'accepted') {
      this.#deps.metrics.turn('answered');
      await this.#deps.settings.noteError(agentId, null);
      accepted();
    }
    return { outcome: 'done' };
  }

  async #fail(agentId: string, { code, detail, restMs }: Failure, say: Say): Promise<Outcome> {
    this.#deps.metrics.turn(code);
    this.#deps.log.warn({ agent: agentId, code, detail }, 'a model gave no answer');
    await this.#deps.settings.noteError(agentId, `${code}: ${detail}`);
    const said = await say('reply', { type: 'text/plain', text: sentences[code], data: { error: code } }, true);
    return said instanceof Refusal ? this.#unsaid(agentId, said) : { outcome: 'done', restMs };
  }

  async #unsaid(agentId: string, refusal: Refusal): Promise<Outcome> {
    const { log, settings } = this.#deps;
    log.warn({ agent: agentId, code: refusal.code, gate: refusal.gate }, 'the answer of a model may not leave');
    await settings.noteError(agentId, `the answer may not leave: ${refusal.code}`);
    return { outcome: 'left', restMs: refusedRest };
  }

  /** After the answer, which does not wait for it; what the gateway's stop cuts off is not remembered. */
  #remember(
    audience: Audience,
    turn: { owner: string; source: string; question: string; answer: string },
    endpoint: Endpoint,
    spender: Spender,
  ): void {
    if (this.#remembering.size >= mostRemembering || this.#stopping.signal.aborted) return;
    const { fetch, clock, log, memory, limits, metrics } = this.#deps;
    const work = (async () => {
      try {
        const facts = await factsOf(turn, endpoint, {
          fetch,
          clock,
          signal: this.#stopping.signal,
          spent: async (tokens) => {
            metrics.spent(tokens);
            await limits.spend({ ...spender, tokens });
          },
        });
        await memory.keep(audience, { owner: turn.owner, source: turn.source, facts });
      } catch (error) {
        log.warn({ err: error, agent: spender.agentId }, 'the facts of a turn could not be kept');
      }
    })();
    const tracked = work.finally(() => this.#remembering.delete(tracked));
    this.#remembering.add(tracked);
  }
}

/** Whose tokens of the day a turn uses. */
type Spender = Parameters<Limits['budget']>[0];

function spenderOf(agentId: string, { sender, abroad }: store.AskedRow): Spender {
  return { agentId, senderKey: sender, abroad };
}

function isAnonymous({ sender }: store.AskedRow): boolean {
  return sender.startsWith('anonymous:');
}
