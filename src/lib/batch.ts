export interface BatcherOptions<In, Out> {
  /**
   * Does the work of many items at once and answers in their order. All or nothing: when it throws, nothing of it may have happened,
   * because the items are then tried again one by one, so that one poisoned item does not fail its neighbours.
   */
  readonly run: (items: In[]) => Promise<Out[]>;
  /** Items in one run. */
  readonly max: number;
  /** Runs under way at the same time. */
  readonly inFlight?: number;
  /** Items of the same key run in the order they came, never two in one run nor in two runs at once. */
  readonly key?: (item: In) => string;
}

interface Entry<In, Out> {
  readonly item: In;
  readonly key: string | undefined;
  readonly resolve: (out: Out) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Natural batching (design §5): whatever arrives while the runs in flight are busy shares the next one. There is no timer: an idle
 * batcher starts at once, a busy one grows its batches by itself.
 */
export class Batcher<In, Out> {
  readonly #options: BatcherOptions<In, Out>;
  readonly #inFlight: number;
  /** What may run now: at most one entry of each key. */
  #ready: Entry<In, Out>[] = [];
  /** By key: what waits for the entry of that key that is ready or running. */
  readonly #behind = new Map<string, Entry<In, Out>[]>();
  #running = 0;
  #woken = false;
  #idle: Array<() => void> = [];

  constructor(options: BatcherOptions<In, Out>) {
    this.#options = options;
    this.#inFlight = options.inFlight ?? 2;
  }

  /** Resolves with the item's own result, or rejects with the error of the run that held it alone. */
  submit(item: In): Promise<Out> {
    return new Promise((resolve, reject) => {
      this.#enter({ item, key: this.#options.key?.(item), resolve, reject });
    });
  }

  /** Resolves when nothing waits and nothing runs. For a graceful stop: the caller has stopped submitting. */
  drain(): Promise<void> {
    if (this.#running === 0 && this.#ready.length === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  #enter(entry: Entry<In, Out>): void {
    if (entry.key !== undefined) {
      const queue = this.#behind.get(entry.key);
      if (queue) {
        queue.push(entry);
        return;
      }
      this.#behind.set(entry.key, []);
    }
    this.#ready.push(entry);
    this.#wake();
  }

  // A microtask later, so that what one tick submits together runs together.
  #wake(): void {
    if (this.#woken) return;
    this.#woken = true;
    queueMicrotask(() => {
      this.#woken = false;
      while (this.#running < this.#inFlight && this.#ready.length > 0) {
        this.#running++;
        void this.#work(this.#ready.splice(0, this.#options.max));
      }
    });
  }

  async #work(batch: Entry<In, Out>[]): Promise<void> {
    if (!(await this.#attempt(batch))) {
      for (const entry of batch) await this.#attempt([entry]);
    }
    this.#running--;
    for (const entry of batch) this.#release(entry);
    if (this.#ready.length > 0) this.#wake();
    else if (this.#running === 0) for (const done of this.#idle.splice(0)) done();
  }

  /** False when the batch failed and its items deserve a try each. */
  async #attempt(batch: Entry<In, Out>[]): Promise<boolean> {
    try {
      const outs = await this.#options.run(batch.map((entry) => entry.item));
      if (outs.length !== batch.length) throw new Error(`a run of ${batch.length} items gave ${outs.length} results`);
      for (const [i, entry] of batch.entries()) entry.resolve(outs[i] as Out);
    } catch (error) {
      if (batch.length > 1) return false;
      batch[0]?.reject(error);
    }
    return true;
  }

  #release({ key }: Entry<In, Out>): void {
    if (key === undefined) return;
    const next = this.#behind.get(key)?.shift();
    if (next) this.#ready.push(next);
    else this.#behind.delete(key);
  }
}

export interface QuestionsOptions<In, Out> {
  /** Answers many at once, in their order. */
  readonly run: (items: In[]) => Promise<Out[]>;
  /** The same name: the same question. */
  readonly name: (item: In) => string;
}

/**
 * Look-ups on the way of every message: what is asked while an answer is under way shares the next query, and what many ask is asked once. One
 * query at a time, since a second one beside it would halve what each can share. An answer is never older than its question.
 */
export class Questions<In, Out> {
  readonly #batcher: Batcher<In, Out>;
  readonly #name: (item: In) => string;
  /** What no query has taken up yet. */
  readonly #asked = new Map<string, Promise<Out>>();

  constructor({ run, name }: QuestionsOptions<In, Out>) {
    this.#name = name;
    this.#batcher = new Batcher({
      max: 500,
      inFlight: 1,
      run: (items) => {
        for (const item of items) this.#asked.delete(name(item));
        return run(items);
      },
    });
  }

  submit(item: In): Promise<Out> {
    const name = this.#name(item);
    const asked = this.#asked.get(name);
    if (asked) return asked;
    const answer = this.#batcher.submit(item);
    this.#asked.set(name, answer);
    return answer;
  }
}
