import type { Notifier } from '../db/types.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { type Refusal, refuse } from '../lib/refusal.ts';
import type { Delivered, Lease, MailboxStore, TakeQuery } from './store.ts';

export interface TakeRequest extends TakeQuery {
  /** Milliseconds to wait for the first message; 0 answers at once. */
  waitMs: number;
  /** Aborted when the caller can no longer be answered. */
  gone?: AbortSignal | undefined;
}

export interface WaitingRoomOptions {
  store: Pick<MailboxStore, 'take'>;
  notifier: Notifier;
  clock: Clock;
  log: Log;
  /** Gives leases back whose taker is gone. */
  release: (leases: readonly Lease[]) => Promise<void>;
  /** Polls that one agent may hold open. */
  maxHeld: number;
}

interface Waiter {
  query: TakeQuery;
  held: boolean;
  /** Its time is over, but a query for it is still under way. */
  late: boolean;
  settled: boolean;
  settle(items: Delivered[]): void;
  fail(error: unknown): void;
}

/** Waiters that would be given the same messages: of one node and one filter. One query at a time, for the one that came first. */
interface Line {
  waiters: Waiter[];
  running: boolean;
  /** Something changed since the query under way began. */
  stale: boolean;
  /** The last look found messages whose session another node holds. */
  blocked: boolean;
}

/** The waiters of one agent in this process. */
interface Box {
  lines: Map<string, Line>;
  held: number;
  unsubscribe: () => void;
  lookAt: number;
  cancelLook: () => void;
}

/** A lost wake-up costs at most this. */
const longestSleep = 30_000;
/** How often to ask whether another node has finished with a session: its ack may come on another replica, which tells nobody. */
const blockedSleep = 1_000;
const faultSleep = 1_000;
const shortestSleep = 20;

/**
 * Long polls: subscribe, query, then wait. A waiter holds no connection and asks nothing while it waits; it is woken by the notifier, by
 * the end of the earliest lease that hides a message of its agent (one timer per agent), or by its own limit.
 */
export class WaitingRoom {
  #options: WaitingRoomOptions;
  #boxes = new Map<string, Box>();
  #draining = false;
  #looking = 0;

  constructor(options: WaitingRoomOptions) {
    this.#options = options;
  }

  /** An empty list when nothing came in time, the caller went away, or the gateway stops; `rate_limited` when too many polls are held. */
  take(request: TakeRequest): Promise<Delivered[] | Refusal> {
    if (this.#draining || request.gone?.aborted) return Promise.resolve([]);
    const box = this.#open(request.agentId);
    const held = request.waitMs > 0;
    if (held && box.held >= this.#options.maxHeld) {
      return Promise.resolve(
        refuse('rate_limited', 'Too many calls wait for messages of this agent already.', { retryAfter: 5 }),
      );
    }
    return new Promise((resolve, reject) => this.#enter(box, request, held, resolve, reject));
  }

  /** Looks again for waiters that another node's lease kept from a session. */
  freed(agentId: string): void {
    const box = this.#boxes.get(agentId);
    if (box && [...box.lines.values()].some((line) => line.blocked)) this.#wake(agentId, box);
  }

  /** Answers whoever waits with an empty list; a query that is under way still answers with what it finds. */
  drain(): void {
    this.#draining = true;
    for (const box of this.#boxes.values()) {
      for (const line of box.lines.values()) {
        for (const waiter of [...line.waiters]) this.#expire(line, waiter);
      }
    }
  }

  /** `looking`: queries under way. */
  stats(): { agents: number; held: number; looking: number } {
    return {
      looking: this.#looking,
      agents: this.#boxes.size,
      held: [...this.#boxes.values()].reduce((sum, box) => sum + box.held, 0),
    };
  }

  #open(agentId: string): Box {
    const there = this.#boxes.get(agentId);
    if (there) return there;
    const box: Box = {
      lines: new Map(),
      held: 0,
      unsubscribe: () => {},
      lookAt: Number.POSITIVE_INFINITY,
      cancelLook: () => {},
    };
    box.unsubscribe = this.#options.notifier.subscribe(`inbox:${agentId}`, () => this.#wake(agentId, box));
    this.#boxes.set(agentId, box);
    return box;
  }

  #enter(
    box: Box,
    request: TakeRequest,
    held: boolean,
    resolve: (items: Delivered[]) => void,
    reject: (error: unknown) => void,
  ): void {
    const { waitMs, gone, ...query } = request;
    const key = JSON.stringify([query.nodeId, query.replyTo]);
    const line = box.lines.get(key) ?? { waiters: [], running: false, stale: false, blocked: false };
    box.lines.set(key, line);
    if (held) box.held += 1;
    const leave = (): void => {
      waiter.settled = true;
      if (held) box.held -= 1;
      cancelLimit();
      gone?.removeEventListener('abort', vanish);
      line.waiters.splice(line.waiters.indexOf(waiter), 1);
      this.#tidy(query.agentId, box, key, line);
    };
    const waiter: Waiter = {
      query,
      held,
      late: false,
      settled: false,
      settle: (items) => {
        if (waiter.settled) return;
        leave();
        resolve(items);
      },
      fail: (error) => {
        if (waiter.settled) return;
        leave();
        reject(error);
      },
    };
    const vanish = (): void => waiter.settle([]);
    gone?.addEventListener('abort', vanish, { once: true });
    const cancelLimit = held ? this.#options.clock.after(waitMs, () => this.#expire(line, waiter)) : () => {};
    line.waiters.push(waiter);
    this.#look(query.agentId, box, key, line);
  }

  #expire(line: Line, waiter: Waiter): void {
    waiter.late = true;
    if (!line.running || line.waiters[0] !== waiter) waiter.settle([]);
  }

  /** Those who wait for one answer look first, so that a poll for everything does not take it from under them. */
  #wake(agentId: string, box: Box): void {
    const lines = [...box.lines].sort(([, a], [, b]) => Number(wantsAll(a)) - Number(wantsAll(b)));
    for (const [key, line] of lines) this.#look(agentId, box, key, line);
  }

  #look(agentId: string, box: Box, key: string, line: Line): void {
    line.stale = true;
    if (!line.running) void this.#run(agentId, box, key, line);
  }

  async #run(agentId: string, box: Box, key: string, line: Line): Promise<void> {
    line.running = true;
    this.#looking += 1;
    while (line.stale && line.waiters.length > 0) {
      line.stale = false;
      await this.#ask(agentId, box, line);
    }
    line.running = false;
    this.#looking -= 1;
    this.#tidy(agentId, box, key, line);
  }

  async #ask(agentId: string, box: Box, line: Line): Promise<void> {
    const { clock, store, log } = this.#options;
    const waiter = line.waiters[0] as Waiter;
    const round = [...line.waiters];
    try {
      const { items, more, wakeAt, blocked } = await store.take(waiter.query);
      line.blocked = blocked;
      if (items.length > 0) {
        line.stale ||= more;
        if (waiter.settled) {
          line.stale = true;
          await this.#options.release(items.map((item) => ({ ...item, nodeId: waiter.query.nodeId })));
        } else {
          waiter.settle(items);
        }
        this.#lookIn(agentId, box, waiter.query.leaseMs);
        return;
      }
      const now = clock.now();
      this.#lookIn(
        agentId,
        box,
        Math.min(wakeAt === null ? longestSleep : wakeAt - now, blocked ? blockedSleep : longestSleep),
      );
      for (const each of round) if (!each.held || each.late) each.settle([]);
    } catch (error) {
      for (const each of round) if (!each.held) each.fail(error);
      log.warn({ err: error, agent: agentId }, 'looking into a mailbox failed; those who wait look again');
      for (const each of round) if (each.late) each.settle([]);
      this.#lookIn(agentId, box, faultSleep);
    }
  }

  /** The box's one timer: looks again after `ms`, or earlier when that was already wanted. */
  #lookIn(agentId: string, box: Box, ms: number): void {
    if (box.lines.size === 0) return;
    const wait = Math.min(Math.max(ms, shortestSleep), longestSleep);
    const at = this.#options.clock.now() + wait;
    if (box.lookAt <= at) return;
    box.cancelLook();
    box.lookAt = at;
    box.cancelLook = this.#options.clock.after(wait, () => {
      box.lookAt = Number.POSITIVE_INFINITY;
      this.#wake(agentId, box);
    });
  }

  #tidy(agentId: string, box: Box, key: string, line: Line): void {
    if (line.waiters.length > 0 || line.running) return;
    if (box.lines.get(key) === line) box.lines.delete(key);
    if (box.lines.size > 0 || this.#boxes.get(agentId) !== box) return;
    this.#boxes.delete(agentId);
    box.unsubscribe();
    box.cancelLook();
  }
}

function wantsAll(line: Line): boolean {
  return line.waiters[0]?.query.replyTo === null;
}
