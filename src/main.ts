#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { agentCommand } from './cli/agent.ts';
import { capabilityCommand } from './cli/capability.ts';
import { explained } from './cli/errors.ts';
import { explainCommand } from './cli/explain.ts';
import { identityCommand } from './cli/identity.ts';
import { keysCommand } from './cli/keys.ts';
import { knowledgeCommand, memoryCommand } from './cli/knowledge.ts';
import { limitsCommand } from './cli/limits.ts';
import { linkCommand } from './cli/link.ts';
import { loginCommand, meCommand } from './cli/login.ts';
import { modelCommand } from './cli/model.ts';
import { orgCommand, teamCommand } from './cli/org.ts';
import { roomCommand } from './cli/room.ts';
import { startCommand } from './cli/start.ts';
import { trustCommand } from './cli/trust.ts';
import { ConfigError } from './config.ts';

const program = new Command('gatehouse')
  .description('The gateway at which a company’s agents are found, trusted and reached.')
  .version(versionHere())
  .addHelpText('after', '\nExit codes: 0 done; 1 refused or failed; 2 the command was not understood.')
  .addCommand(startCommand())
  .addCommand(identityCommand())
  .addCommand(loginCommand())
  .addCommand(meCommand())
  .addCommand(agentCommand())
  .addCommand(keysCommand())
  .addCommand(orgCommand())
  .addCommand(teamCommand())
  .addCommand(linkCommand())
  .addCommand(trustCommand())
  .addCommand(roomCommand())
  .addCommand(modelCommand())
  .addCommand(knowledgeCommand())
  .addCommand(memoryCommand())
  .addCommand(explainCommand())
  .addCommand(limitsCommand())
  .addCommand(capabilityCommand());
// Commander hands these down only to commands that it makes itself.
settle(program);

function settle(command: Command): void {
  command.exitOverride().showHelpAfterError('(--help tells more)').showSuggestionAfterError();
  for (const each of command.commands) settle(each);
}

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = tell(error);
}

function versionHere(): string {
  return (JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string })
    .version;
}

function tell(error: unknown): number {
  // Commander has said it already.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  const told = explained(error);
  if (told) {
    const { exitCode, next, message, code, data } = told;
    if (process.argv.includes('--json')) console.error(JSON.stringify({ ...data, error: message, code, next }));
    else console.error(`gatehouse: ${message}${next === undefined ? '' : `\n  → ${next}`}`);
    return exitCode;
  }
  const known =
    error instanceof ConfigError || (error instanceof Error && error.name.endsWith('Error') && 'wayOut' in error);
  console.error(known || process.env.LOG_LEVEL === undefined ? `gatehouse: ${(error as Error).message}` : error);
  return 1;
}
