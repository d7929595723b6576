import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const root = resolve(fileURLToPath(new URL('../../..', import.meta.url)));
const compiler = join(root, 'node_modules/typescript/bin/tsc');

it('`gatehouse/client` drags in none of the server', async () => {
  const packages = new Set<string>();
  const files = new Set<string>();
  const visit = async (file: string): Promise<void> => {
    if (files.has(file)) return;
    files.add(file);
    const text = await readFile(file, 'utf8');
    for (const [, name = ''] of text.matchAll(/^(?:import|export)\s[^;'"]*\bfrom\s+['"]([^'"]+)['"]/gm)) {
      if (name.startsWith('.')) await visit(join(dirname(file), name));
      else if (!name.startsWith('node:'))
        packages.add(
          name
            .split('/')
            .slice(0, name.startsWith('@') ? 2 : 1)
            .join('/'),
        );
    }
  };
  await visit(join(root, 'dist/src/client/index.js'));
  assert.deepEqual([...packages].sort(), [
    '@noble/ed25519',
    'canonicalize',
    'did-resolver',
    'http-message-signatures',
    'lru-cache',
    'multiformats',
  ]);
  assert.ok(files.size > 15);
});

it('another program installs it, with its types', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-consumer-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await run(process.execPath, [compiler, '-p', join(root, 'tsconfig.client.json')]);
  await mkdir(join(folder, 'node_modules'));
  await symlink(root, join(folder, 'node_modules/gatehouse'));
  await symlink(join(root, 'node_modules/@types'), join(folder, 'node_modules/@types'));
  await writeFile(join(folder, 'package.json'), '{"type": "module"}');
  await writeFile(
    join(folder, 'agent.ts'),
    `import { Client, fileKeys, filePins, type Incoming, verifyWebhook } from 'gatehouse/client';

const keys = await fileKeys('agent/keys.json');
const client = new Client({ url: 'http://127.0.0.1:9', token: 'ghn_x', keys, pins: filePins('agent/pins'), retries: { tries: 1 } });
const shout = ({ text }: Incoming): string => text.toUpperCase();
const listening: Promise<void> = client.listen('acme/general/joel/shout', shout, { announce: { allow: ['org'] } });
await listening.catch((fault: Error) => console.log(fault.name, verifyWebhook({}, '', '')));
// @ts-expect-error an address is text
export const wrong = (): unknown => client.send({ to: 1 });
`,
  );
  const options = ['--module', 'nodenext', '--target', 'es2023', '--strict', '--types', 'node', 'agent.ts'];
  await run(process.execPath, [compiler, ...options], { cwd: folder });
  const { stdout } = await run(process.execPath, ['agent.js'], { cwd: folder });
  assert.equal(stdout, 'NoAnswerError false\n');
});
