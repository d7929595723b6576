// `npm test [-- FOLDER | FILE …]`: builds, starts one PostgreSQL (or takes the server of TEST_DATABASE_URL), runs the tests on it.
// `--dist DIR` runs what was built there instead. The last line is `N passed, N failed`.
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, root } from './build.mjs';

const args = process.argv.slice(2);
const at = args.indexOf('--dist');
const dist = at < 0 ? join(root, 'dist') : resolve(args.splice(at, 2)[1] ?? '');
const longest = 15 * 60_000;

const typed = at >= 0 || (await build());
const temp = mkdtempSync(join(tmpdir(), 'gatehouse-test-'));
chmodSync(temp, 0o711); // root's PostgreSQL runs as another account, which passes through here
const counts = join(temp, 'counts.json');
const run = randomBytes(4).toString('hex');
const quiet = { info() {}, warn() {}, error: (fields, words) => console.error(words, fields) };
let server;
let runner;
let signalled;
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    signalled = signal;
    runner?.kill(signal);
  });
}

let exit = 1;
let result = { passed: 0, failed: 0, skipped: 0 };
try {
  const files = testFiles(args);
  let url = process.env.TEST_DATABASE_URL;
  if (!url) {
    const { startEmbedded } = await load('src/db/embedded.js');
    // Nothing of this outlives the run: no need to wait for the disk.
    const settings = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off', max_connections: '300' };
    server = await startEmbedded({ data: join(temp, 'data'), log: quiet, settings });
    url = server.url;
  }
  exit = files.length === 0 ? 1 : await runTests(files, url);
  if (existsSync(counts)) result = JSON.parse(readFileSync(counts, 'utf8'));
  if (!server) await dropDatabases(url);
} catch (error) {
  console.error(error);
} finally {
  await server?.stop();
  // A server that a test's process left behind ends by itself in a moment, and writes until then.
  rmSync(temp, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
}

if (!typed) {
  console.error('The sources do not compile (above): that is a failure too.');
  result.failed += 1;
}
if (result.passed + result.failed === 0) console.error('No test was run.');
if (exit !== 0 && result.failed === 0) result.failed = 1;
console.log(
  `${result.passed} passed, ${result.failed} failed${result.skipped > 0 ? `, ${result.skipped} skipped` : ''}`,
);
process.exitCode = exit === 0 && result.failed === 0 && result.passed > 0 && !signalled ? 0 : 1;

function runTests(files, url) {
  const options = ['--enable-source-maps', '--test', '--test-concurrency=2', '--test-timeout=300000'];
  const reporter = [
    '--test-reporter',
    pathToFileURL(join(root, 'scripts/reporter.mjs')).href,
    '--test-reporter-destination=stdout',
  ];
  const env = {
    ...process.env,
    TEST_DATABASE_URL: url,
    TEST_RUN: run,
    TEST_COUNTS: counts,
    TMPDIR: temp,
    NODE_ENV: 'test',
  };
  return new Promise((done) => {
    runner = spawn(process.execPath, [...options, ...reporter, ...files], {
      cwd: root,
      env,
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    const late = setTimeout(() => runner.kill('SIGKILL'), longest);
    runner.on('error', (error) => {
      console.error(error);
      done(1);
    });
    runner.on('exit', (code) => {
      clearTimeout(late);
      done(code ?? 1);
    });
  });
}

/** `test/db`, `db`, `test/db/pool.test.ts`; nothing means everything. */
function testFiles(wanted) {
  const home = join(dist, 'test');
  const places = wanted.length === 0 ? [home] : wanted.map((each) => place(each.replace(/\.ts$/, '.js')));
  const all = places.flatMap((path) =>
    statSync(path).isFile()
      ? [path]
      : readdirSync(path, { recursive: true })
          .filter((name) => name.endsWith('.test.js'))
          .map((name) => join(path, name)),
  );
  return [...new Set(all)].sort();
}

function place(name) {
  const tries = [join(dist, name), join(dist, 'test', name), join(dist, relative(dist, resolve(name)))];
  const found = tries.find((path) => existsSync(path));
  if (!found) throw new Error(`there is no test at ${name}`);
  return found;
}

function load(file) {
  return import(pathToFileURL(join(dist, file)).href);
}

/** On a server that goes on after us: what this run made, whatever became of its tests. */
async function dropDatabases(url) {
  const { openPool } = await load('src/db/pool.js');
  const { systemClock } = await load('src/lib/clock.js');
  const pool = await openPool({ url, clock: systemClock, log: quiet, max: 1 });
  const { rows } = await pool.query('select datname from pg_database where starts_with(datname, $1)', [`ght_${run}_`]);
  for (const { datname } of rows) await pool.query(`drop database if exists "${datname}" with (force)`);
  await pool.close();
}
