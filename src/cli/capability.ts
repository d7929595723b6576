import { Command } from 'commander';
import { usage } from './errors.ts';
import { command, type JsonOption, print } from './output.ts';
import { callOwnerApi } from './owner-api.ts';

interface Options extends JsonOption {
  to?: string;
  scope?: string[];
  expires?: string;
  thread?: string;
  sub?: string;
  org?: string;
}

/** `gatehouse capability …`: confer.md "Token de capacidad". */
export function capabilityCommand(): Command {
  return new Command('capability')
    .description('Tokens that say what your agent comes to ask, and let it ask no more')
    .addCommand(
      options(command('issue', 'Issues a token, signed by your key'))
        .requiredOption('--to <did>', 'whom it is shown to: an instance, an owner or an agent')
        .action(async (of: Options) =>
          show(of, await call('', { aud: of.to, scope: of.scope ?? ['ask'], ...common(of) })),
        ),
    )
    .addCommand(
      options(command('narrow', 'Makes a narrower token of one that you hold'))
        .argument('<token>')
        .option('--to <did>', 'somebody beneath whom it is for')
        .action(async (token: string, of: Options) =>
          show(
            of,
            await call('/narrow', {
              token,
              ...(of.to && { aud: of.to }),
              ...(of.scope && { scope: of.scope }),
              ...common(of),
            }),
          ),
        ),
    );
}

function options(of: Command): Command {
  return of
    .option('--scope <scope...>', 'ask, ask:technical, ask:product:X100 …')
    .option('--expires <time>', '90s, 15m, 12h or 30d')
    .option('--thread <id>', 'good in that thread alone')
    .option('--sub <did>', 'who may show it: you, or one of your agents')
    .option('--org <handle>', 'as which of your memberships');
}

function common({ expires, thread, sub, org }: Options): object {
  return {
    ...(expires !== undefined && { expires_in: secondsOf(expires) }),
    ...(thread !== undefined && { thread_id: thread }),
    ...(sub !== undefined && { sub }),
    ...(org !== undefined && { org }),
  };
}

function secondsOf(text: string): number {
  const [, count, unit] = /^(\d{1,8})([smhd])$/.exec(text) ?? [];
  if (count === undefined) throw usage('write --expires as 90s, 15m, 12h or 30d');
  return Number(count) * { s: 1, m: 60, h: 3_600, d: 86_400 }[unit as 's' | 'm' | 'h' | 'd'];
}

function call(path: string, body: object): Promise<{ token: string }> {
  return callOwnerApi('POST', `/capabilities${path}`, body);
}

function show(of: JsonOption, { token }: { token: string }): void {
  print(of, { token }, token);
}
