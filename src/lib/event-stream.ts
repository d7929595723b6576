/** More than this without the end of an event is no stream of events. */
const maxEvent = 8 * 1024 * 1024;

/** Reads `text/event-stream` (WHATWG HTML §9.2.6) as it comes, as far as A2A and the APIs of models use it: the data of each event. */
export class EventStream {
  readonly #onData: (data: string) => void;
  readonly #decoder = new TextDecoder();
  #text = '';
  #data: string[] = [];
  #size = 0;

  constructor(onData: (data: string) => void) {
    this.#onData = onData;
  }

  /** Throws `RangeError` on an event that does not end. */
  push(chunk: Buffer): void {
    this.#text += this.#decoder.decode(chunk, { stream: true });
    let from = 0;
    for (;;) {
      const at = this.#text.indexOf('\n', from);
      if (at < 0) break;
      this.#line(this.#text.slice(from, this.#text[at - 1] === '\r' && at > from ? at - 1 : at));
      from = at + 1;
    }
    this.#text = this.#text.slice(from);
    if (this.#text.length + this.#size > maxEvent) throw new RangeError('an event of the stream does not end');
  }

  #line(line: string): void {
    if (line === '') {
      if (this.#data.length > 0) this.#onData(this.#data.join('\n'));
      this.#data = [];
      this.#size = 0;
    } else if (line.startsWith('data:')) {
      const data = line.slice(line[5] === ' ' ? 6 : 5);
      this.#size += data.length;
      this.#data.push(data);
    }
  }
}
