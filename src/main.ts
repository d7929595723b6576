import { Command, CommanderError } from 'commander';
import { identityCommand } from './cli/identity.ts';
import { startCommand } from './cli/start.ts';
import { ConfigError } from './config.ts';

/** The `gatehouse` command. Only this file ends the process. */
const program = new Command('gatehouse')
  .description('The gateway at which a company’s agents are found, trusted and reached.')
  .showHelpAfterError()
  .exitOverride()
  .addCommand(startCommand())
  .addCommand(identityCommand());

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) {
    process.exitCode = error.exitCode;
  } else {
    const known =
      error instanceof ConfigError || (error instanceof Error && error.name.endsWith('Error') && 'wayOut' in error);
    console.error(known || process.env.LOG_LEVEL === undefined ? `gatehouse: ${(error as Error).message}` : error);
    process.exitCode = 1;
  }
}
