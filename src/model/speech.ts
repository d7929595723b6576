import type { Clock } from '../lib/clock.ts';
import type { Say } from './answer.ts';
import { plainText } from './types.ts';

const firstPause = 300;
/** Each pause is so much longer than the one before: a long answer is told in fewer pieces. */
const longerBy = 20;
const mostPieces = 150;

/**
 * Tells an answer while it is written, to whom follows the task: pieces as `progress` (the convention that Confer's stream reads as `token`), a few a second,
 * since each one is stored. What was not told when the answer is there comes with it.
 */
export class Speech {
  readonly #say: Say;
  readonly #clock: Clock;
  readonly #closed: () => void;
  #text = '';
  #pieces = 0;
  #cancel: (() => void) | null = null;
  #telling: Promise<void> = Promise.resolve();

  /** `closed`: nobody waits for the answer any more. */
  constructor(options: { say: Say; clock: Clock; closed: () => void }) {
    this.#say = options.say;
    this.#clock = options.clock;
    this.#closed = options.closed;
  }

  add(text: string): void {
    this.#text += text;
    if (this.#cancel !== null || this.#pieces >= mostPieces) return;
    this.#cancel = this.#clock.after(firstPause + this.#pieces * longerBy, () => {
      this.#telling = this.#tell();
    });
  }

  /** Nothing is told after this. */
  async end(): Promise<void> {
    this.#cancel?.();
    await this.#telling;
    this.#cancel?.();
    this.#pieces = mostPieces;
  }

  async #tell(): Promise<void> {
    // Half of a pair may be on its way still.
    const [, whole = '', half = ''] = /^([\s\S]*?)([\ud800-\udbff]?)$/.exec(this.#text) ?? [];
    this.#text = half;
    this.#pieces += 1;
    try {
      if (whole !== '' && (await this.#say('progress', { type: 'text/plain', text: plainText(whole) })) === 'closed')
        this.#closed();
    } catch {
      // The answer itself will tell, or fail, and is logged then.
    }
    this.#cancel = null;
    if (this.#text.length > half.length) this.add('');
  }
}
