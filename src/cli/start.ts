import { join } from 'node:path';
import { Command } from 'commander';
import { type Config, loadConfig } from '../config.ts';
import type { Gateway } from '../gateway.ts';
import { startFault } from './start-fault.ts';

export function startCommand(): Command {
  return new Command('start').description('Runs the gateway until SIGTERM or SIGINT').action(start);
}

async function start(): Promise<void> {
  const config = loadConfig(process.env);
  // Only here: the other commands need none of the server, and begin sooner without it.
  const { startGateway } = await import('../gateway.ts');
  const gateway = await startGateway(config).catch((fault: unknown) => {
    throw startFault(fault, config);
  });
  console.log(welcome(gateway, config));
  let stopping = 0;
  const stop = (): void => {
    // npm passes on a Ctrl-C that the terminal has sent already: both are one.
    if (stopping !== 0 && Date.now() - stopping < 1_000) return;
    if (stopping !== 0) process.exit(1);
    stopping = Date.now();
    if (process.stderr.isTTY) console.error('\nStopping; Ctrl-C again ends at once.');
    gateway.stop().then(
      () => process.exit(0),
      (error: unknown) => {
        console.error(error);
        process.exit(1);
      },
    );
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
}

function welcome(gateway: Gateway, { data, adminToken }: Config): string {
  const { url, did, org, admin } = gateway;
  const file = join(data, 'admin-token');
  const token = admin.newToken
    ? `  token  ${admin.newToken}   (${admin.user}'s; shown this once, kept in ${file})`
    : `  token  ${admin.user}'s is ${adminToken === undefined ? `in ${file}` : 'the one in GATEHOUSE_ADMIN_TOKEN'}`;
  const given = admin.newToken ?? (adminToken === undefined ? `"$(cat '${file}')"` : '"$GATEHOUSE_ADMIN_TOKEN"');
  return [
    '',
    `Gatehouse is running for ${org}.`,
    '',
    `  URL    ${url}`,
    `  DID    ${did}`,
    `  org    ${org}`,
    token,
    '',
    'Next:',
    '',
    `  export TOKEN=${given} ORG=${org}`,
    `  curl -s ${url}/redsyn/v1/me -H "Authorization: Bearer $TOKEN"`,
    `  curl -s -X PUT ${url}/redsyn/v1/agents/$ORG/general/${admin.user}/helper -H "Authorization: Bearer $TOKEN" --json '{"listening": true, "description": "answers questions"}'`,
    '',
  ].join('\n');
}
