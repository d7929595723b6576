import type { Command } from 'commander';
import { fullAddress } from '../client/index.ts';
import { usage } from './errors.ts';
import { openSession, seatOfLogin } from './home.ts';
import { command, type JsonOption, print, printable, table } from './output.ts';
import { callOwnerApi } from './owner-api.ts';

const counts = ['messages', 'bytes', 'tokens'] as const;
type Counts = Record<(typeof counts)[number], number | null>;

interface Row {
  agent: string;
  peer: string | null;
  yours: boolean;
  state: string;
  paused_for?: string;
  used: Counts;
  limits: Counts & { turns: number };
}

interface SetOptions extends JsonOption {
  peer?: string;
  messages?: string;
  bytes?: string;
  tokens?: string;
  turns?: string;
}

/** `gatehouse limits …`: what your agents and their peers may use in a day, and letting them go on. */
export function limitsCommand(): Command {
  return command(
    'limits',
    'What your agents and their peers use in a day and may use; who is paused, and letting them go on',
  )
    .action(async (options: JsonOption) => {
      const answer = await callOwnerApi<{ day: string; limits: Row[] }>('GET', '/limits');
      print(options, answer, lines(answer));
    })
    .addCommand(
      command('set', 'Chooses limits of an agent of yours; `usual` takes one back')
        .argument('<agent>')
        .option('--peer <who>', 'a DID, org/user or anonymous. Default: all peers together')
        .option('--messages <n>', 'a day')
        .option('--bytes <n>', 'a day')
        .option('--tokens <n>', 'a day, of the model that answers')
        .option('--turns <n>', 'requests in a chain of agents that ask one another')
        .action(async (agent: string, options: SetOptions) => {
          const most = Object.fromEntries(
            [...counts, 'turns' as const].flatMap((name) => {
              const value = options[name];
              return value === undefined ? [] : [[name, value === 'usual' ? null : whole(name, value)]];
            }),
          );
          if (Object.keys(most).length === 0) throw usage('say which: --messages, --bytes, --tokens or --turns');
          print(options, await callOwnerApi('PUT', '/limits', { ...(await named(agent, options)), ...most }), 'set');
        }),
    )
    .addCommand(
      command('resume', 'Lets an agent of yours and a peer go on; the count of today begins anew')
        .argument('<agent>')
        .option('--peer <who>', 'a DID, org/user or anonymous. Default: all peers together')
        .action(async (agent: string, options: JsonOption & { peer?: string }) => {
          const body = await named(agent, options);
          const answer = await callOwnerApi<{ resumed: boolean }>('POST', '/limits/resume', body);
          print(options, answer, answer.resumed ? 'they go on' : 'they were not paused');
        }),
    );
}

async function named(agent: string, { peer }: { peer?: string }): Promise<{ agent: string; peer?: string }> {
  const { login } = await openSession();
  return {
    agent: agent.startsWith('did:') ? agent : fullAddress(agent, seatOfLogin(login)),
    ...(peer !== undefined && { peer }),
  };
}

function whole(name: string, text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw usage(`--${name} must be a whole number, or usual`);
  return Number(text);
}

function lines({ day, limits }: { day: string; limits: Row[] }): string[] {
  if (limits.length === 0) return [`${day}: nothing was used, and nothing is paused.`];
  const rows = limits.map(({ agent, peer, state, paused_for, used, limits: most }) => [
    state === 'ok' ? '' : state === 'paused' ? `PAUSED (${paused_for})` : 'near its limit',
    agent,
    peer === null ? 'all peers' : printable(peer),
    ...counts.map((of) => `${used[of] ?? 0}${most[of] === null ? '' : ` of ${most[of]}`} ${of}`),
  ]);
  const isPaused = limits.some(({ state, yours }) => state === 'paused' && yours);
  return [
    `${day}, UTC`,
    ...table(rows),
    ...(isPaused ? ['', 'Let one go on: gatehouse limits resume <agent> [--peer <who>]'] : []),
  ];
}
