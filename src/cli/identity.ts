import { Command } from 'commander';

export function identityCommand(): Command {
  return new Command('identity')
    .description('The 24 words that bring an identity back')
    .addCommand(
      new Command('phrase')
        .description("Prints the 24 words of the first admin's owner key, or of an agent's key")
        .option('--agent <address>', 'org/team/user/agent')
        .action(async (options: { agent?: string }) => (await words()).phrase(options)),
    )
    .addCommand(
      new Command('restore')
        .description("Reads 24 words from stdin and keeps them as the first admin's owner key, before the first start")
        .action(async () => (await words()).restore()),
    );
}

/** They need the database, which the other commands can do without. */
function words(): Promise<typeof import('./identity-words.ts')> {
  return import('./identity-words.ts');
}
