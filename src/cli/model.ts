import { text } from 'node:stream/consumers';
import { Command } from 'commander';
import { GatehouseError } from '../client/index.ts';
import { usage } from './errors.ts';
import { openSession, ownAddress, type Session } from './home.ts';
import { command, type JsonOption, print, printable, wholeNumber } from './output.ts';
import { callOwnerApi } from './owner-api.ts';

interface SetOptions extends JsonOption {
  provider: string;
  model: string;
  baseUrl?: string;
  key?: string;
  system?: string;
  maxTokens?: number;
  stream: boolean;
  memory: boolean;
  searchKey?: string;
  searchUrl?: string;
  allow?: string[];
}

interface Model {
  agent: string;
  provider: string;
  base_url: string;
  model: string;
  key_last4: string | null;
  system: string;
  max_tokens: number;
  stream: boolean;
  memory: boolean;
  web_search: { url: string; key_last4: string | null } | null;
  last_error: string | null;
  last_error_at: string | null;
  tokens_today: number;
}

/** `gatehouse model …`: agents that a model answers for. */
export function modelCommand(): Command {
  return new Command('model')
    .description('Agents that an endpoint of a model answers for, with your key')
    .addCommand(setCommand())
    .addCommand(
      command('show', 'Which model answers, what went wrong last, the tokens of today')
        .argument('<agent>')
        .action(async (agent: string, options: JsonOption) => {
          const { login } = await openSession();
          const { model } = await callOwnerApi<{ model: Model }>('GET', pathOf(ownAddress(login, agent)));
          print(options, model, lines(model));
        }),
    )
    .addCommand(
      command('off', 'Ends it: requests wait in the inbox again, and the keys are deleted')
        .argument('<agent>')
        .action(async (agent: string, options: JsonOption) => {
          const { login } = await openSession();
          const address = ownAddress(login, agent);
          await callOwnerApi('DELETE', pathOf(address));
          print(options, { agent: address, model: null }, `no model answers for ${address} any more`);
        }),
    );
}

function setCommand(): Command {
  return command('set', 'Lets a model answer for an agent of yours, which is made when it is not there')
    .argument('<agent>')
    .requiredOption('--provider <api>', 'openai or anthropic: whose API the endpoint speaks')
    .requiredOption('--model <name>', 'as the endpoint calls it')
    .option('--base-url <url>', "the endpoint, when it is not the provider's own")
    .option(
      '--key <key>',
      '`-` reads it from stdin, where no list of processes shows it; left out, the one that is set stays',
    )
    .option('--system <text>', 'what the model is told first: who it is, how it answers')
    .option('--max-tokens <n>', 'of one answer', wholeNumber('--max-tokens', 16))
    .option('--no-stream', 'for endpoints that cannot stream')
    .option('--no-memory', 'does not remember its turns (each costs a second, short call)')
    .option('--search-key <key>', 'of Tavily, for web search; `-` reads it from stdin, on the line behind --key')
    .option('--search-url <url>', "what speaks Tavily's API elsewhere")
    .option('--allow <who...>', 'who may ask: a handle, team:<team>, org, org:<linked org>, anyone')
    .action(async (agent: string, of: SetOptions) => {
      const session = await openSession();
      const address = ownAddress(session.login, agent);
      const [key, searchKey] = await secrets([of.key, of.searchKey]);
      if (of.searchUrl !== undefined && searchKey === undefined) throw usage('say --search-key with --search-url');
      await announced(session, address, of.allow);
      const body = {
        provider: of.provider,
        model: of.model,
        ...(of.baseUrl !== undefined && { base_url: of.baseUrl }),
        ...(key !== undefined && { key }),
        ...(of.system !== undefined && { system: of.system }),
        ...(of.maxTokens !== undefined && { max_tokens: of.maxTokens }),
        stream: of.stream,
        memory: of.memory,
        ...(searchKey !== undefined && { web_search: { key: searchKey, ...(of.searchUrl && { url: of.searchUrl }) } }),
      };
      const { model } = await callOwnerApi<{ model: Model }>('PUT', pathOf(address), body);
      print(of, model, lines(model));
    });
}

/** With `--allow` its policy is said anew; without, an agent that is there keeps its own, and a new one takes requests of its team. */
async function announced({ client }: Session, address: string, allow: string[] | undefined): Promise<void> {
  if (allow !== undefined) {
    await client.announce(address, { allow });
    return;
  }
  try {
    await client.call('GET', `/agents/${address}`);
  } catch (error) {
    if (!(error instanceof GatehouseError) || error.code !== 'address_not_found') throw error;
    await client.announce(address, { listening: false });
  }
}

/** Each `-` is the next line of stdin. */
async function secrets(given: ReadonlyArray<string | undefined>): Promise<Array<string | undefined>> {
  const lines = given.includes('-') ? (await text(process.stdin)).split(/\r?\n/).map((line) => line.trim()) : [];
  return given.map((value) => {
    if (value !== '-') return value;
    const line = lines.shift();
    if (!line) throw usage('nothing stands on stdin where a key should');
    return line;
  });
}

function pathOf(address: string): string {
  return `/agents/${address}/model`;
}

function lines(model: Model): string[] {
  const { web_search: search } = model;
  return [
    `${model.agent} is answered for by ${printable(model.model)} at ${model.base_url} (${model.provider})`,
    `  key          ${keyWords(model.key_last4)}`,
    `  answers      ${model.max_tokens} tokens at most, ${model.stream ? 'streamed' : 'whole'}; ${model.memory ? 'remembers' : 'does not remember'} its turns`,
    `  web search   ${search ? `${search.url}, key ${keyWords(search.key_last4)}` : 'none'}`,
    `  today        ${model.tokens_today} tokens`,
    ...(model.system === '' ? [] : [`  system       ${printable(model.system).split('\n')[0]!.slice(0, 100)}`]),
    ...(model.last_error === null ? [] : [`  last error   ${printable(model.last_error)} (${model.last_error_at})`]),
  ];
}

function keyWords(last4: string | null): string {
  return last4 === null ? 'none' : `…${last4}`;
}
