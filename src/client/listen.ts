import { type Clock, sleep } from '../lib/clock.ts';
import { withoutSession } from './addresses.ts';
import { GatehouseError, mayPass } from './errors.ts';
import type { Announcement, Answer, DeliveredEnvelope, FullAnswer, Handler, Incoming, Received } from './types.ts';

export interface ListenOptions {
  /** Ends the listening: nothing more is taken, what is under way is finished and answered, then `listen` resolves. */
  signal?: AbortSignal;
  /** Requests handled at the same time, those of one session one after the other. Default 1. */
  concurrency?: number;
  /**
   * Seconds, default 300, at most 12 h. A request whose machine dies comes back after that long. It cannot be extended: make it longer than the
   * slowest handler, or another listener of the agent gets the request meanwhile (the asker still sees one answer).
   */
  lease?: number;
  /** Announces the agent as listening first, with this policy; it replaces the policy that was there. */
  announce?: Announcement;
  /**
   * Hands over only requests that were signed with a key pinned for their sender (what an agent with full trust must do). Others are answered
   * with an error that says so.
   */
  verifiedOnly?: boolean;
  /** An answer or progress that nobody in this process waits for. It is confirmed, and stays readable in its thread. */
  onAnswer?: (received: Received) => void;
  /** Trouble that is being coped with: the gateway is away, an answer was refused. */
  onFault?: (fault: unknown) => void;
}

/** What the loop needs of the client. */
export interface Mailbox {
  clock: Clock;
  take(options: { wait: number; lease: number; max: number; signal?: AbortSignal }): Promise<DeliveredEnvelope[]>;
  ack(id: string): Promise<void>;
  /** Tells the gateway that the agent is there, without taking anything. */
  beat(): Promise<void>;
  receive(envelope: DeliveredEnvelope): Promise<Received>;
  reply(request: Received, answer: FullAnswer | Answer): Promise<unknown>;
  progress(request: Received, text: string, data?: unknown): Promise<void>;
  /** Whether somebody in this process waits for this answer, and has it now. */
  claim(envelope: DeliveredEnvelope): Promise<boolean>;
  pause(fault: unknown, attempt: number): number;
}

const remembered = 1_000;
const beatMs = 30_000;

/** Takes, handles, answers and confirms, until it is told to stop. */
export class Listener {
  readonly #mailbox: Mailbox;
  readonly #handler: Handler;
  readonly #options: ListenOptions;
  readonly #concurrency: number;
  readonly #underWay = new Map<string, Promise<void>>();
  /** Of each session, the last request taken: the next waits for it. */
  readonly #lanes = new Map<string, Promise<void>>();
  /** What was handled but perhaps not confirmed, oldest first: it may come again. */
  readonly #handled = new Set<string>();
  #freed: () => void = () => undefined;
  #fatal: unknown;

  constructor(mailbox: Mailbox, handler: Handler, options: ListenOptions) {
    this.#mailbox = mailbox;
    this.#handler = handler;
    this.#options = options;
    this.#concurrency = Math.max(1, Math.trunc(options.concurrency ?? 1));
  }

  /** Rejects when the gateway refuses for good (the token was revoked, the agent is not yours); what is under way is finished first. */
  async run(): Promise<void> {
    const { signal } = this.#options;
    let failures = 0;
    while (!signal?.aborted && this.#fatal === undefined) {
      try {
        await this.#round();
        failures = 0;
      } catch (fault) {
        if (signal?.aborted) break;
        failures += 1;
        if (!mayPass(fault)) {
          this.#fatal = fault;
          break;
        }
        this.#options.onFault?.(fault);
        await sleep(this.#mailbox.clock, this.#mailbox.pause(fault, failures), signal);
      }
    }
    await Promise.all(this.#underWay.values());
    if (this.#fatal !== undefined) throw this.#fatal;
  }

  async #round(): Promise<void> {
    const { clock } = this.#mailbox;
    const { signal, lease = 300 } = this.#options;
    const free = this.#concurrency - this.#underWay.size;
    if (free <= 0) return this.#slot();
    const began = clock.now();
    const items = await this.#mailbox.take({ wait: 25, lease, max: free, ...(signal && { signal }) });
    for (const item of items) this.#start(item);
    // A gateway that is going down answers held polls at once.
    if (items.length === 0 && clock.now() - began < 1_000)
      await sleep(clock, this.#mailbox.pause(undefined, 1), signal);
  }

  /** A place becomes free. Until then nothing is taken, and the agent would be shown as away after a minute. */
  async #slot(): Promise<void> {
    const { clock, beat } = this.#mailbox;
    const freed = new Promise<void>((resolve) => {
      this.#freed = resolve;
    });
    while (this.#underWay.size >= this.#concurrency) {
      const woken = new AbortController();
      await Promise.race([freed, sleep(clock, beatMs, woken.signal)]);
      woken.abort();
      if (this.#underWay.size >= this.#concurrency) await beat().catch((fault) => this.#options.onFault?.(fault));
    }
  }

  #start(raw: DeliveredEnvelope): void {
    const key = `${raw.kind} ${withoutSession(raw.from)} ${raw.id}`;
    // Its lease ended while the handler still works: the answer that is coming closes it.
    if (this.#underWay.has(key)) return;
    const before = this.#lanes.get(raw.to);
    const work = (before ?? Promise.resolve())
      .then(() => this.#handle(key, raw))
      .catch((fault: unknown) => this.#options.onFault?.(fault))
      .then(() => {
        this.#underWay.delete(key);
        if (this.#lanes.get(raw.to) === work) this.#lanes.delete(raw.to);
        this.#freed();
      });
    this.#underWay.set(key, work);
    this.#lanes.set(raw.to, work);
  }

  async #handle(key: string, raw: DeliveredEnvelope): Promise<void> {
    if (!this.#handled.has(key)) {
      if (raw.kind === 'request') await this.#request(raw);
      else await this.#other(raw);
      this.#handled.add(key);
      if (this.#handled.size > remembered) this.#handled.delete(this.#handled.values().next().value!);
    }
    await this.#persist(() => this.#mailbox.ack(raw.id));
  }

  async #request(raw: DeliveredEnvelope): Promise<void> {
    const received = await this.#mailbox.receive(raw);
    const answer = this.#objection(received) ?? (await this.#ask(received));
    if (answer === undefined) return;
    await this.#persist(() => this.#answer(received, answer));
  }

  async #ask(received: Received): Promise<Answer> {
    try {
      return await this.#handler(this.#incoming(received));
    } catch (fault) {
      return failed(fault instanceof Error ? fault.message : String(fault));
    }
  }

  async #other(raw: DeliveredEnvelope): Promise<void> {
    if (raw.kind !== 'event') {
      if (!(await this.#mailbox.claim(raw))) this.#options.onAnswer?.(await this.#mailbox.receive(raw));
      return;
    }
    const received = await this.#mailbox.receive(raw);
    // Nobody answers an event; what goes wrong with it is for our side to know.
    if (this.#objection(received)) return;
    await this.#handler(this.#incoming(received));
  }

  #incoming(received: Received): Incoming {
    return { ...received, progress: (text, data) => this.#mailbox.progress(received, text, data) };
  }

  /** Why a request is not handed over. */
  #objection({ envelope, sealed, verified, trouble }: Received): FullAnswer | undefined {
    if (sealed && envelope.body.type === 'application/redsyn+encrypted') {
      return failed('not taken: it was sealed for a key that this machine does not have. Send it again.');
    }
    if (this.#options.verifiedOnly !== true || verified) return undefined;
    this.#options.onFault?.(new Error(`not taken: ${envelope.id} from ${envelope.from}: ${trouble ?? 'not signed'}`));
    return failed(
      `not taken: this agent takes only requests that are signed with a key that its owner accepted. ${trouble ?? 'This one is not signed.'}`,
    );
  }

  async #answer(received: Received, answer: Answer): Promise<void> {
    try {
      await this.#mailbox.reply(received, answer);
    } catch (fault) {
      if (mayPass(fault)) throw fault;
      // Closed meanwhile: cancelled, expired, answered before a restart.
      if (fault instanceof GatehouseError && fault.status === 409) return;
      this.#options.onFault?.(fault);
      // The asker must not wait for an answer that cannot be sent (too large, not canonical).
      const words = fault instanceof Error ? fault.message : String(fault);
      await this.#mailbox.reply(received, failed(`the answer could not be sent: ${words}`)).catch((again: unknown) => {
        if (mayPass(again)) throw again;
      });
    }
  }

  /** An answer that was made is not made again: it is sent until the gateway has it. While stopping, only as often as a call is repeated. */
  async #persist(send: () => Promise<void>): Promise<void> {
    for (let failures = 1; ; failures++) {
      try {
        return await send();
      } catch (fault) {
        if (!mayPass(fault) || this.#options.signal?.aborted) throw fault;
        this.#options.onFault?.(fault);
        await sleep(this.#mailbox.clock, this.#mailbox.pause(fault, failures), this.#options.signal);
      }
    }
  }
}

function failed(words: string): FullAnswer {
  return { body: { type: 'text/plain', text: words }, error: true };
}
