/** A tool as the model is told of it. `parameters`: JSON Schema. */
export interface ToolOffer {
  name: string;
  description: string;
  parameters: Readonly<Record<string, unknown>>;
}

export interface ToolCall {
  id: string;
  name: string;
  /** JSON, as the model wrote it. */
  argumentsText: string;
}

export interface ToolResult {
  id: string;
  content: string;
  isError: boolean;
}

export type ChatMessage =
  | { role: 'user'; text: string }
  | { role: 'assistant'; text: string; calls?: readonly ToolCall[] }
  | { role: 'tools'; results: readonly ToolResult[] };

export interface ChatRequest {
  model: string;
  system: string;
  messages: readonly ChatMessage[];
  tools: readonly ToolOffer[];
  /** False: it has to answer now. The tools stay offered, since a conversation that used them must name them (Anthropic). */
  mayCall: boolean;
  maxTokens: number;
  streams: boolean;
}

export interface Completion {
  text: string;
  calls: ToolCall[];
  /** `length`: cut at the limit of tokens. */
  stop: 'end' | 'calls' | 'length';
  /** As the endpoint says; null when it says nothing. */
  tokens: number | null;
}

/** Reads one answer as it comes. Methods throw `DialectFault` on what is not of the dialect. */
export interface AnswerReader {
  /** The data of one event of a stream; answers the text that it brought. */
  event(data: string): string;
  /** The whole answer, where it was not streamed. */
  whole(json: unknown): void;
  /** Once, at the end. */
  finish(): Completion;
  /** Of an answer that is not waited for any longer. */
  soFar(): Pick<Completion, 'text' | 'tokens'>;
}

export interface Dialect {
  /** What comes behind the base URL. */
  path(baseUrl: string): string;
  headers(key: string | null): Record<string, string>;
  body(request: ChatRequest, baseUrl: string): unknown;
  reader(): AnswerReader;
}

/** The endpoint answered with what is not of its dialect. The message holds nothing that it said. */
export class DialectFault extends Error {
  override name = 'DialectFault';
}

const mostCalls = 16;
const mostArguments = 64 * 1024;

/** Calls of tools, which streams bring piece by piece under an index of theirs. */
export class Calls {
  readonly #calls = new Map<number, ToolCall>();
  #size = 0;

  add(index: unknown, piece: { id?: unknown; name?: unknown; argumentsText?: unknown }): void {
    if (!Number.isSafeInteger(index)) throw new DialectFault('a call of a tool has no index');
    const call = this.#calls.get(index as number) ?? { id: '', name: '', argumentsText: '' };
    this.#calls.set(index as number, call);
    if (typeof piece.id === 'string' && piece.id !== '') call.id = piece.id.slice(0, 256);
    if (typeof piece.name === 'string' && piece.name !== '') call.name = piece.name.slice(0, 128);
    if (typeof piece.argumentsText === 'string') {
      this.#size += piece.argumentsText.length;
      call.argumentsText += piece.argumentsText;
    }
    if (this.#calls.size > mostCalls || this.#size > mostArguments)
      throw new DialectFault('too many or too long calls of tools');
  }

  all(): ToolCall[] {
    return [...this.#calls].sort(([a], [b]) => a - b).map(([, call]) => call);
  }
}

export function parsed(data: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(data);
    if (isRecord(value)) return value;
  } catch {
    // Said below.
  }
  throw new DialectFault('an event of the stream is no JSON object');
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function count(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value < 1e9 ? value : null;
}
