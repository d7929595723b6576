// Builds dist/ when a source is newer than it. Safe when several processes start at once: one builds, the others wait.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';

export const root = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = join(root, 'dist');
const lock = join(dist, '.building');
/** The program alone, for whoever runs it; everything, for whoever tests it. A test that does not compile keeps nobody from starting. */
const builds = {
  program: { sources: ['src', 'wellknown'], project: 'tsconfig.program.json' },
  everything: { sources: ['src', 'wellknown', 'test'], project: 'tsconfig.json' },
};
const compiler = join(root, 'node_modules/typescript/bin/tsc');

/** Answers whether the sources compile. Types that do not fit are written to stderr; the JavaScript is there all the same. */
export async function build(what = 'everything') {
  const { sources, project } = builds[what];
  const stamp = join(dist, `.built-${what}`);
  // An installation without the compiler (an image) runs what it was shipped with.
  if (!existsSync(compiler)) return existsSync(join(dist, 'src/main.js')) || unbuilt();
  if (fresh(stamp, sources, project)) return true;
  mkdirSync(dist, { recursive: true });
  await acquire();
  try {
    if (fresh(stamp, sources, project)) return true;
    const began = Date.now();
    if (process.stderr.isTTY) process.stderr.write('Building, once …\n');
    removeOrphans(sources);
    const { status, stdout } = spawnSync(process.execPath, [compiler, '-p', join(root, project), '--pretty', 'false'], {
      encoding: 'utf8',
    });
    if (status !== 0) {
      process.stderr.write(`The sources do not compile:\n${stdout}`);
      return false;
    }
    writeFileSync(stamp, String(began));
    return true;
  } finally {
    rmSync(lock, { force: true });
  }
}

function unbuilt() {
  process.stderr.write('Gatehouse is not built, and the compiler is not installed: run npm ci, without --omit=dev.\n');
  return false;
}

function fresh(stamp, sources, project) {
  const built = Number(existsSync(stamp) && readFileSync(stamp, 'utf8'));
  if (!built) return false;
  const inputs = [
    ...sources.flatMap(files),
    join(root, 'tsconfig.json'),
    join(root, project),
    join(root, 'package-lock.json'),
  ];
  // A folder's own time tells of a removed or renamed file.
  return inputs.every((path) => statSync(path).mtimeMs < built);
}

/** Every source and every folder of sources. */
function files(folder) {
  const at = join(root, folder);
  if (!existsSync(at)) return [];
  const inside = readdirSync(at, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isDirectory() || /\.(ts|json)$/.test(entry.name))
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name));
  return [at, ...inside];
}

/** What was compiled from a source that is gone would still be found and run. */
function removeOrphans(sources) {
  for (const folder of sources) {
    const at = join(dist, folder);
    if (!existsSync(at)) continue;
    for (const entry of readdirSync(at, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath ?? entry.path, entry.name);
      if (!/\.js(\.map)?$/.test(entry.name)) continue;
      const source = join(root, relative(dist, path).replace(/\.js(\.map)?$/, '.ts'));
      if (!existsSync(source)) rmSync(path);
    }
  }
  // The compiler would take an output that is missing for written.
  if (!existsSync(join(dist, 'src'))) {
    for (const info of ['.tsbuildinfo', '.tsbuildinfo-program']) rmSync(join(dist, info), { force: true });
  }
}

async function acquire() {
  for (let tries = 0; tries < 1200; tries++) {
    try {
      writeFileSync(lock, String(process.pid), { flag: 'wx' });
      return;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    if (abandoned()) rmSync(lock, { force: true });
    else await sleep(50);
  }
  throw new Error(`${lock} is held for too long: remove it when no build is running`);
}

function abandoned() {
  try {
    const text = readFileSync(lock, 'utf8');
    if (text === '') return Date.now() - statSync(lock).mtimeMs > 5_000;
    process.kill(Number(text), 0);
    return false;
  } catch (error) {
    return error.code === 'ESRCH';
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href)
  process.exitCode = (await build()) ? 0 : 1;
