import { randomBytes } from 'node:crypto';
import type { Notifier } from '../db/types.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { every, type Loop } from '../lib/loop.ts';
import { Refusal } from '../lib/refusal.ts';
import type { Delivered, Lease, Mailbox } from '../mailbox/index.ts';

/**
 * What became of a message that was taken. `done`: it was answered, or is of no concern. `back`: as if it had not been taken. `left`: it counts as a try
 * that failed, and comes again when its lease ends. `restMs`: how long to take nothing more for its agent.
 */
export interface Outcome {
  outcome: 'done' | 'back' | 'left';
  restMs?: number | undefined;
}

export interface WorkerOptions {
  mailbox: Pick<Mailbox, 'take' | 'extend' | 'ack' | 'release'>;
  notifier: Pick<Notifier, 'subscribe'>;
  clock: Clock;
  log: Log;
  /** The agents that a model answers for. */
  agents(): Promise<string[]>;
  /** Answers one message. `signal` aborts when the lease was lost or the gateway stops. What it throws leaves the message to its lease. */
  handle(agentId: string, delivered: Delivered, signal: AbortSignal): Promise<Outcome>;
  /** Messages under way in this process: in all, and of one agent. */
  maxInFlight?: number;
  perAgent?: number;
}

/** Short, so that what a killed process had taken is soon taken by another; prolonged while it is worked on. */
export const leaseMs = 60_000;
const renewEvery = 20_000;
const pollMs = 25_000;
const faultSleep = 2_000;
/** An announcement may name the adapter without a word to us. */
const lookEvery = 30_000;

interface Served {
  stop: AbortController;
  running: number;
  /** Its endpoint wants to be left alone until then. */
  restUntil: number;
  slots: Set<number>;
}

/**
 * Takes for the agents that a model answers for, as any node takes: with leases, so that replicas share the work and a crash loses none. Each message under
 * way is taken under a name of its own; that keeps one session in order, also over replicas.
 */
export class Worker {
  readonly #options: WorkerOptions;
  readonly #name = `model:${randomBytes(6).toString('base64url')}`;
  readonly #served = new Map<string, Served>();
  readonly #stopping = new AbortController();
  readonly #work = new Set<Promise<void>>();
  readonly #looking: Loop;
  #inFlight = 0;
  #freed: Array<() => void> = [];
  #unsubscribe = (): void => {};
  #reading: Promise<void> = Promise.resolve();

  constructor(options: WorkerOptions) {
    this.#options = options;
    const { clock, log } = options;
    this.#looking = every(lookEvery, () => this.#read(), { clock, log, name: 'look for agents with a model' });
  }

  start(): void {
    this.#unsubscribe = this.#options.notifier.subscribe('models', () => void this.#read());
    void this.#read();
    this.#looking.start();
  }

  /** Ends what is under way; it goes back at once, for another replica or the next start. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#unsubscribe();
    await Promise.all([this.#looking.stop(), this.#reading]);
    for (const served of this.#served.values()) served.stop.abort();
    this.#free();
    await Promise.all(this.#work);
  }

  stats(): { agents: number; inFlight: number } {
    return { agents: this.#served.size, inFlight: this.#inFlight };
  }

  #read(): Promise<void> {
    this.#reading = this.#reading.then(async () => {
      if (this.#stopping.signal.aborted) return;
      try {
        const wanted = new Set(await this.#options.agents());
        for (const [agentId, served] of this.#served) {
          if (wanted.has(agentId)) continue;
          this.#served.delete(agentId);
          served.stop.abort();
        }
        for (const agentId of wanted) if (!this.#served.has(agentId)) this.#serve(agentId);
      } catch (error) {
        this.#options.log.warn({ err: error }, 'the agents with a model could not be read; they are read again');
      }
    });
    return this.#reading;
  }

  #serve(agentId: string): void {
    const served: Served = { stop: new AbortController(), running: 0, restUntil: 0, slots: new Set() };
    this.#served.set(agentId, served);
    this.#track(this.#loop(agentId, served));
  }

  async #loop(agentId: string, served: Served): Promise<void> {
    const { mailbox, clock, log } = this.#options;
    const { signal } = served.stop;
    while (!signal.aborted && !this.#stopping.signal.aborted) {
      if (!this.#hasRoom(served)) {
        await new Promise<void>((resolve) => this.#freed.push(resolve));
        continue;
      }
      const rest = served.restUntil - clock.now();
      if (rest > 0) {
        await sleep(clock, rest, signal);
        continue;
      }
      const slot = firstFree(served.slots);
      const nodeId = `${this.#name}:${slot}`;
      try {
        const taken = await mailbox.take({ agentId, nodeId, leaseMs, max: 1, waitMs: pollMs, gone: signal });
        if (taken instanceof Refusal) await sleep(clock, faultSleep, signal);
        // A poll that was held since before its endpoint asked for a rest.
        else if (served.restUntil > clock.now())
          await mailbox.release(taken.map((delivered) => ({ ...delivered, nodeId })));
        else for (const delivered of taken) this.#begin(agentId, served, slot, { delivered, nodeId });
      } catch (error) {
        log.warn({ err: error, agent: agentId }, 'what waits for a model could not be taken; it is taken again');
        await sleep(clock, faultSleep, signal);
      }
    }
  }

  /** While a poll is held another agent may take the last place: then there is one more under way than is meant, for each poll that was held. */
  #hasRoom({ running }: Served): boolean {
    const { maxInFlight = 32, perAgent = 4 } = this.#options;
    return running < perAgent && this.#inFlight < maxInFlight;
  }

  #begin(agentId: string, served: Served, slot: number, taken: { delivered: Delivered; nodeId: string }): void {
    served.running += 1;
    served.slots.add(slot);
    this.#inFlight += 1;
    this.#track(
      this.#one(agentId, served, taken).finally(() => {
        served.running -= 1;
        served.slots.delete(slot);
        this.#inFlight -= 1;
        this.#free();
      }),
    );
  }

  async #one(
    agentId: string,
    served: Served,
    { delivered, nodeId }: { delivered: Delivered; nodeId: string },
  ): Promise<void> {
    const { mailbox, clock, log } = this.#options;
    const ended = new AbortController();
    const end = (): void => ended.abort();
    served.stop.signal.addEventListener('abort', end, { once: true });
    if (served.stop.signal.aborted) end();
    const lease = { ...delivered, nodeId };
    const renewing = this.#renew(lease, ended);
    try {
      const { outcome, restMs } = await this.#options.handle(agentId, delivered, ended.signal);
      if (restMs) served.restUntil = clock.now() + restMs;
      await renewing.stop();
      if (outcome === 'done') await mailbox.ack({ agentId, nodeId, ids: [delivered.id] });
      if (outcome === 'back') await mailbox.release([lease]);
    } catch (error) {
      // Not given back: a message that fails every time must wear out, and not be taken for ever.
      log.error(
        { err: error, agent: agentId, message: delivered.seq },
        'a model could not answer; it is tried again when the lease ends',
      );
    } finally {
      await renewing.stop();
      served.stop.signal.removeEventListener('abort', end);
    }
  }

  #renew(lease: Lease & { leaseUntil: number }, ended: AbortController): Loop {
    const { mailbox, clock, log } = this.#options;
    const renewing = every(
      renewEvery,
      async () => {
        const until = await mailbox.extend(lease, leaseMs);
        if (until === false) ended.abort();
        else lease.leaseUntil = until;
      },
      { clock, log, name: 'renewal of the lease of a turn' },
    );
    renewing.start();
    return renewing;
  }

  #free(): void {
    const freed = this.#freed;
    this.#freed = [];
    for (const go of freed) go();
  }

  #track(work: Promise<void>): void {
    const tracked = work.finally(() => this.#work.delete(tracked));
    this.#work.add(tracked);
  }
}

function firstFree(slots: ReadonlySet<number>): number {
  let slot = 0;
  while (slots.has(slot)) slot += 1;
  return slot;
}
