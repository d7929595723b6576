import {
  type AnswerReader,
  Calls,
  type ChatMessage,
  type Completion,
  count,
  type Dialect,
  DialectFault,
  isRecord,
  parsed,
} from './types.ts';

/** Messages (docs.anthropic.com/en/api/messages, …/messages-streaming). */
export const anthropic: Dialect = {
  path: (baseUrl) => (baseUrl.endsWith('/v1') ? '/messages' : '/v1/messages'),
  headers: (key) => ({ 'anthropic-version': '2023-06-01', ...(key !== null && { 'x-api-key': key }) }),
  body: ({ model, system, messages, tools, mayCall, maxTokens, streams }) => ({
    model,
    max_tokens: maxTokens,
    ...(system !== '' && { system }),
    messages: messages.map(written),
    ...(tools.length > 0 && {
      tools: tools.map(({ name, description, parameters }) => ({ name, description, input_schema: parameters })),
    }),
    ...(tools.length > 0 && !mayCall && { tool_choice: { type: 'none' } }),
    ...(streams && { stream: true }),
  }),
  reader: () => new Reader(),
};

function written(message: ChatMessage): object {
  switch (message.role) {
    case 'user':
      return { role: 'user', content: message.text };
    case 'assistant': {
      const calls = (message.calls ?? []).map(({ id, name, argumentsText }) => ({
        type: 'tool_use',
        id,
        name,
        input: inputOf(argumentsText),
      }));
      // An empty text block is refused.
      const content = [...(message.text === '' ? [] : [{ type: 'text', text: message.text }]), ...calls];
      return { role: 'assistant', content };
    }
    case 'tools':
      return {
        role: 'user',
        content: message.results.map(({ id, content, isError }) => ({
          type: 'tool_result',
          tool_use_id: id,
          content,
          ...(isError && { is_error: true }),
        })),
      };
  }
}

/** What is no object was told to the model as an error of its call; here it has to be one. */
function inputOf(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : {};
  } catch {
    return {};
  }
}

class Reader implements AnswerReader {
  readonly #calls = new Calls();
  #text = '';
  #reason: unknown = null;
  #input: number | null = null;
  #output: number | null = null;
  #began = false;

  event(data: string): string {
    const json = parsed(data);
    switch (json.type) {
      case 'message_start':
        this.#began = true;
        this.#usage(isRecord(json.message) ? json.message.usage : undefined);
        return '';
      case 'content_block_start':
        return this.#block(json.index, json.content_block, true);
      case 'content_block_delta':
        return this.#delta(json.index, json.delta);
      case 'message_delta':
        this.#usage(json.usage);
        if (isRecord(json.delta) && typeof json.delta.stop_reason === 'string') this.#reason = json.delta.stop_reason;
        return '';
      case 'error':
        throw new DialectFault('the endpoint says that it failed');
      default:
        // ping, and what later versions add.
        return '';
    }
  }

  whole(json: unknown): void {
    if (!isRecord(json) || !Array.isArray(json.content)) throw new DialectFault('the answer has no content');
    this.#began = true;
    this.#reason = json.stop_reason ?? 'end_turn';
    this.#usage(json.usage);
    for (const [i, block] of json.content.entries()) this.#block(i, block, false);
  }

  finish(): Completion {
    if (!this.#began) throw new DialectFault('the answer has no beginning');
    if (this.#reason === null) throw new DialectFault('the stream broke off');
    const calls = this.#calls.all();
    const stop = this.#reason === 'max_tokens' ? 'length' : calls.length > 0 ? 'calls' : 'end';
    return { ...this.soFar(), calls, stop };
  }

  soFar(): Pick<Completion, 'text' | 'tokens'> {
    const tokens = this.#input === null && this.#output === null ? null : (this.#input ?? 0) + (this.#output ?? 0);
    return { text: this.#text, tokens };
  }

  #block(index: unknown, block: unknown, streamed: boolean): string {
    if (!isRecord(block)) throw new DialectFault('a block of the content is no object');
    if (block.type === 'text') return this.#say(block.text);
    if (block.type === 'tool_use') {
      const argumentsText = streamed ? '' : JSON.stringify(block.input ?? {});
      this.#calls.add(index, { id: block.id, name: block.name, argumentsText });
    }
    return '';
  }

  #delta(index: unknown, delta: unknown): string {
    if (!isRecord(delta)) throw new DialectFault('a delta is no object');
    if (delta.type === 'text_delta') return this.#say(delta.text);
    if (delta.type === 'input_json_delta') this.#calls.add(index, { argumentsText: delta.partial_json });
    return '';
  }

  #say(text: unknown): string {
    if (typeof text !== 'string') return '';
    this.#text += text;
    return text;
  }

  #usage(usage: unknown): void {
    if (!isRecord(usage)) return;
    const parts = [usage.input_tokens, usage.cache_creation_input_tokens, usage.cache_read_input_tokens].map(count);
    if (parts.some((part) => part !== null)) this.#input = parts.reduce<number>((sum, part) => sum + (part ?? 0), 0);
    this.#output = count(usage.output_tokens) ?? this.#output;
  }
}
