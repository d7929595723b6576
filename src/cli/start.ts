import { Command } from 'commander';
import { loadConfig } from '../config.ts';
import type { Gateway } from '../gateway.ts';

export function startCommand(): Command {
  return new Command('start').description('Runs the gateway until SIGTERM or SIGINT').action(start);
}

async function start(): Promise<void> {
  const config = loadConfig(process.env);
  // Only here: the other commands need none of the server, and begin sooner without it.
  const { startGateway } = await import('../gateway.ts');
  const gateway = await startGateway(config);
  console.log(welcome(gateway, config.data));
  let signals = 0;
  const stop = (): void => {
    signals += 1;
    if (signals > 1) process.exit(1);
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

function welcome(gateway: Gateway, data: string): string {
  const { url, did, org, admin } = gateway;
  const token = admin.newToken
    ? `  token  ${admin.newToken}   (${admin.user}'s; shown this once, kept in ${data}/admin-token)`
    : `  token  ${admin.user}'s is in ${data}/admin-token, or where you configured it`;
  return [
    '',
    `Gatehouse is running for ${org}.`,
    '',
    `  URL    ${url}`,
    `  DID    ${did}`,
    token,
    '',
    'Next:',
    '',
    `  export TOKEN=${admin.newToken ?? `$(cat ${data}/admin-token)`}`,
    `  curl -s ${url}/redsyn/v1/me -H "Authorization: Bearer $TOKEN"`,
    `  curl -s -X PUT ${url}/redsyn/v1/agents/${org}/general/${admin.user}/helper -H "Authorization: Bearer $TOKEN" --json '{"listening": true, "description": "answers questions"}'`,
    '',
  ].join('\n');
}
