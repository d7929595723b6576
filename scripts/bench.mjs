// `npm run bench:accept`, `npm run bench:inbox` (`-- --rounds 9`): builds, starts a PostgreSQL with everything that makes a commit durable (or
// takes the server of TEST_DATABASE_URL), and runs the benchmark on it.
import { spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, root } from './build.mjs';

const [name, ...args] = process.argv.slice(2);
if (!(await build())) console.error('The types do not fit (above); what was built runs all the same.');
const temp = mkdtempSync(join(tmpdir(), 'gatehouse-bench-'));
chmodSync(temp, 0o711); // root's PostgreSQL runs as another account, which passes through here
const quiet = { info() {}, warn() {}, error: (fields, words) => console.error(words, fields) };
let server;
let child;
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child?.kill(signal));
try {
  let url = process.env.TEST_DATABASE_URL;
  if (!url) {
    const { startEmbedded } = await import(pathToFileURL(join(root, 'dist/src/db/embedded.js')).href);
    server = await startEmbedded({ data: join(temp, 'data'), log: quiet, settings: { max_connections: '300' } });
    url = server.url;
  }
  const env = { ...process.env, TEST_DATABASE_URL: url, TEST_RUN: `bench${process.pid}`, NODE_ENV: 'production' };
  const file = join(root, `dist/test/bench/${name}.js`);
  child = spawn(process.execPath, ['--enable-source-maps', file, ...args], { env, stdio: 'inherit' });
  process.exitCode = await new Promise((resolve) => child.on('exit', (code) => resolve(code ?? 1)));
} finally {
  await server?.stop();
  rmSync(temp, { recursive: true, force: true });
}
