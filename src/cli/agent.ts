import { Command } from 'commander';
import { fullTopic, type Reference } from '../client/index.ts';
import { listenCommand } from './agent-listen.ts';
import { cancelCommand, filesCommand, getCommand, progressCommand, sendCommand } from './agent-send.ts';
import { usage } from './errors.ts';
import { openSession, ownAddress, seatOfLogin, senderFor } from './home.ts';
import { keysListCommand } from './keys.ts';
import { collect, command, type JsonOption, print, printable, table } from './output.ts';

/** `gatehouse agent …`: REDSYN "Desde la CLI". */
export function agentCommand(): Command {
  return new Command('agent')
    .description('Agents: listening, sending, topics, webhooks')
    .addCommand(listenCommand())
    .addCommand(sendCommand())
    .addCommand(getCommand())
    .addCommand(progressCommand())
    .addCommand(cancelCommand())
    .addCommand(filesCommand())
    .addCommand(lsCommand())
    .addCommand(pubCommand())
    .addCommand(subCommand())
    .addCommand(unsubCommand())
    .addCommand(topicsCommand())
    .addCommand(webhookCommand())
    .addCommand(keysListCommand('keys'));
}

interface Entry {
  address: string;
  description: string | null;
  online: boolean;
  accepts: string[];
  sessions?: Array<{ id: string; state: string; title?: string; thread?: string }>;
}

function lsCommand(): Command {
  return command('ls', 'The agents that you reach')
    .option('--online', 'only those that listen')
    .option('--sessions', 'with their conversations')
    .action(async (options: JsonOption & { online?: boolean; sessions?: boolean }) => {
      const { client } = await openSession();
      const { online = false, sessions = false } = options;
      const agents = await client.directory<Entry>({ online, sessions });
      const lines = agents.flatMap((agent) => [
        [agent.address, agent.online ? 'online' : 'offline', printable(agent.description ?? '')],
        ...(agent.sessions ?? []).map(({ id, state, title, thread }) => [
          `  #${id}`,
          state,
          printable(title ?? thread ?? ''),
        ]),
      ]);
      print(options, { agents }, lines.length > 0 ? table(lines) : 'none yet: gatehouse agent listen <name> --run …');
    });
}

interface PubOptions extends JsonOption {
  from?: string;
  ref?: string[];
  data?: string;
}

function pubCommand(): Command {
  return command('pub', 'Publishes an event to a topic; signed, never sealed')
    .argument('<topic>', 'name, team/name or org/team/name')
    .argument('[text]')
    .option('--from <agent>', 'which of your agents publishes. Default: cli')
    .option('--data <json>', 'a body of application/json instead of text')
    .option('--ref <url>', 'context that does not travel; repeat it', collect)
    .action(async (topic: string, text: string | undefined, options: PubOptions) => {
      if ((text === undefined) === (options.data === undefined)) throw usage('say either a text or --data');
      const session = await openSession();
      const from = await senderFor(session, options.from);
      const to = fullTopic(topic, seatOfLogin(session.login));
      const refs: Reference[] | undefined = options.ref?.map((url) => ({ url }));
      const sent = await session.client.publish(to, {
        from,
        ...(text === undefined ? { data: JSON.parse(options.data ?? '') as unknown } : { text }),
        ...(refs && { refs }),
      });
      print(options, sent, `published ${sent.id} to ${to}`);
    });
}

interface AgentOption extends JsonOption {
  agent: string;
}

function subCommand(): Command {
  return command('sub', 'Lets an agent of yours get the events of a topic')
    .argument('<topic>', 'name, team/name or org/team/name')
    .requiredOption('--agent <name>', 'which of your agents')
    .action((topic: string, options: AgentOption) => subscription(topic, options, true));
}

function unsubCommand(): Command {
  return command('unsub', 'Ends that')
    .argument('<topic>')
    .requiredOption('--agent <name>', 'which of your agents')
    .action((topic: string, options: AgentOption) => subscription(topic, options, false));
}

async function subscription(name: string, options: AgentOption, on: boolean): Promise<void> {
  const { client, login } = await openSession();
  const topic = fullTopic(name, seatOfLogin(login));
  const agent = ownAddress(login, options.agent);
  const pending = on ? (await client.subscribe(topic, agent)).pending : await client.unsubscribe(topic, agent);
  const words = on ? `gets ${pending ? '(once its gateway can be asked) ' : ''}` : 'no longer gets ';
  print(options, { topic, agent, subscribed: on, ...(pending ? { pending } : {}) }, `${agent} ${words}${topic}`);
}

function topicsCommand(): Command {
  return command('topics', 'The topics of your orgs, and who listens to them').action(async (options: JsonOption) => {
    const { client } = await openSession();
    const topics = await client.topics();
    const rows = topics.map(({ topic, agents, orgs = [] }) => [
      topic,
      [...agents, ...orgs.map((org) => `org ${org}`)].join(', '),
    ]);
    print(options, { topics }, rows.length > 0 ? table(rows) : 'none yet: the first event or subscription makes one');
  });
}

function webhookCommand(): Command {
  return command('webhook', 'Has the messages of an agent pushed to a URL instead of taking them')
    .argument('<name>')
    .argument('[url]', 'https, a public host name')
    .option('--off', 'back to the inbox')
    .action(async (name: string, url: string | undefined, options: JsonOption & { off?: boolean }) => {
      if ((url === undefined) === (options.off !== true)) throw usage('say either a URL or --off');
      const { client, login } = await openSession();
      const agent = ownAddress(login, name);
      if (url === undefined) {
        await client.removeWebhook(agent);
        print(options, { agent, url: null }, `${agent} takes from its inbox again`);
        return;
      }
      const secret = await client.setWebhook(agent, url);
      print(options, { agent, url, secret }, [
        `${agent} is pushed to ${url}`,
        `secret  ${secret}   (shown this once: check Redsyn-Signature with it)`,
      ]);
    });
}
