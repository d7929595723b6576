// `npm run tck [-- options of the runner]`: the official A2A compatibility kit against a gateway that this starts, with a small agent behind REDSYN that
// takes anyone and polls its inbox. The runner's path comes from TCK_RUNNER; it needs the kit's repository in A2A_TCK_REPO.
// `--pure` makes the agent's card one of 1.0 alone, as the kit's strict schema of 1.0 wants it; without it, the card serves 0.3 readers too.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { pathToFileURL } from 'node:url';
import { build, root } from './build.mjs';
import { startKitAgent } from './tck-agent.mjs';

const runner = process.env.TCK_RUNNER;
if (!runner) {
  console.error(
    'Set TCK_RUNNER to the path of run-tck.sh, and A2A_TCK_REPO to a clone of github.com/a2aproject/a2a-tck.',
  );
  process.exit(2);
}
if (!(await build())) process.exit(1);
const load = (file) => import(pathToFileURL(join(root, 'dist', file)).href);
const { loadConfig } = await load('src/config.js');
const { startGateway } = await load('src/gateway.js');
const { createLog } = await load('src/lib/log.js');

const args = process.argv.slice(2);
const pure = args.includes('--pure');
const options = args.filter((arg) => arg !== '--pure');
const data = mkdtempSync(join(tmpdir(), 'gatehouse-tck-'));
const port = await freePort();
const url = `http://localhost:${port}`;
const settings = {
  PORT: String(port),
  GATEHOUSE_URL: url,
  GATEHOUSE_DATA: data,
  GATEHOUSE_ORG: 'kit',
  GATEHOUSE_ADMIN: 'kit',
  GATEHOUSE_RATE_IP: '100000',
};
const level = process.env.LOG_LEVEL ?? 'error';
const gateway = await startGateway(loadConfig(settings), { log: createLog({ level }) });
let exit = 1;
try {
  const agent = await startKitAgent({ url, token: gateway.admin.newToken, org: gateway.org, pure });
  console.log(`The kit's agent is at ${agent.base}`);
  exit = await run(runner, [...options, agent.base]);
  await agent.stop();
} finally {
  await gateway.stop();
  rmSync(data, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
}
process.exit(exit);

function run(command, commandArgs) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, commandArgs, { stdio: 'inherit' });
    child.on('error', reject);
    child.on('exit', (code) => resolve(code ?? 1));
  });
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port: found } = server.address();
      server.close(() => resolve(found));
    });
  });
}
