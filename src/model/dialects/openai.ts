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

/** Chat Completions (platform.openai.com/docs/api-reference/chat), as vLLM, Ollama, llama.cpp, LiteLLM and many hosts speak it too. */
export const openai: Dialect = {
  path: () => '/chat/completions',
  headers: (key) => (key === null ? {} : { authorization: `Bearer ${key}` }),
  body: ({ model, system, messages, tools, mayCall, maxTokens, streams }, baseUrl) => ({
    model,
    messages: [...(system === '' ? [] : [{ role: 'system', content: system }]), ...messages.flatMap(written)],
    // The newest models of OpenAI refuse the older name, which is the only one that other servers know.
    [new URL(baseUrl).hostname === 'api.openai.com' ? 'max_completion_tokens' : 'max_tokens']: maxTokens,
    ...(tools.length > 0 && { tools: tools.map((tool) => ({ type: 'function', function: tool })) }),
    ...(tools.length > 0 && !mayCall && { tool_choice: 'none' }),
    ...(streams && { stream: true, stream_options: { include_usage: true } }),
  }),
  reader: () => new Reader(),
};

function written(message: ChatMessage): object[] {
  switch (message.role) {
    case 'user':
      return [{ role: 'user', content: message.text }];
    case 'assistant': {
      const calls = message.calls ?? [];
      const tool_calls = calls.map(({ id, name, argumentsText }) => ({
        id,
        type: 'function',
        function: { name, arguments: argumentsText },
      }));
      return [{ role: 'assistant', content: message.text || null, ...(calls.length > 0 && { tool_calls }) }];
    }
    case 'tools':
      return message.results.map(({ id, content }) => ({ role: 'tool', tool_call_id: id, content }));
  }
}

class Reader implements AnswerReader {
  readonly #calls = new Calls();
  #text = '';
  #reason: unknown = null;
  #tokens: number | null = null;
  #began = false;
  #done = false;

  event(data: string): string {
    if (data.trim() === '[DONE]') {
      this.#done = true;
      return '';
    }
    return this.#take(parsed(data), 'delta');
  }

  whole(json: unknown): void {
    if (!isRecord(json)) throw new DialectFault('the answer is no JSON object');
    this.#take(json, 'message');
    this.#done = true;
  }

  finish(): Completion {
    if (!this.#began) throw new DialectFault('the answer has no choice');
    if (!this.#done && this.#reason === null) throw new DialectFault('the stream broke off');
    const calls = this.#calls.all();
    const stop = this.#reason === 'length' ? 'length' : calls.length > 0 ? 'calls' : 'end';
    return { text: this.#text, calls, stop, tokens: this.#tokens };
  }

  soFar(): Pick<Completion, 'text' | 'tokens'> {
    return { text: this.#text, tokens: this.#tokens };
  }

  #take(json: Record<string, unknown>, where: 'delta' | 'message'): string {
    if (json.error !== undefined && json.error !== null) throw new DialectFault('the endpoint says that it failed');
    if (isRecord(json.usage)) this.#tokens = count(json.usage.total_tokens) ?? this.#tokens;
    const choice: unknown = Array.isArray(json.choices) ? json.choices[0] : undefined;
    if (!isRecord(choice)) return '';
    this.#began = true;
    if (typeof choice.finish_reason === 'string') this.#reason = choice.finish_reason;
    const said = choice[where];
    if (!isRecord(said)) return '';
    if (Array.isArray(said.tool_calls)) {
      for (const [i, call] of said.tool_calls.entries()) {
        if (!isRecord(call)) throw new DialectFault('a call of a tool is no object');
        const named = isRecord(call.function) ? call.function : {};
        this.#calls.add(call.index ?? i, { id: call.id, name: named.name, argumentsText: named.arguments });
      }
    }
    const text = typeof said.content === 'string' ? said.content : '';
    this.#text += text;
    return text;
  }
}
