import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import { base58btc } from 'multiformats/bases/base58';
import { machine } from '../cli/support.ts';
import { eventually } from '../support/gateway.ts';
import { billing, linkedPair, reviewer } from '../support/pair.ts';
import { standIn } from './stand-in.ts';
import { key } from './support.ts';

const { acme, globex } = await linkedPair({ after });
const model = await standIn({ after });
const bob = await machine({ after });

before(async () => {
  const { json: node } = await globex.call('POST', '/redsyn/v1/nodes', { body: { name: 'laptop' } });
  await bob.ok(['login', globex.url, '--token', node.token, '--org', 'globex', '--team', 'erp']);
});

it('from the command line: a model answers, looks into what is shared, and the other company verifies who answered', async () => {
  const set = await bob.ok(
    [
      'model',
      'set',
      'billing',
      '--provider',
      'anthropic',
      '--model',
      'stand-in',
      '--base-url',
      model.url,
      '--key',
      '-',
      '--no-memory',
      '--json',
    ],
    { input: `${key}\n` },
  );
  assert.deepEqual([set.json.agent, set.json.key_last4, set.json.memory], [billing, 'WXYZ', false]);
  assert.doesNotMatch(set.stdout, /secret/);
  const folder = join(bob.home, 'manuals');
  await mkdir(join(folder, 'deep'), { recursive: true });
  await writeFile(join(folder, 'deep', 'invoices.md'), '# Invoices\n\nInvoice 123 was paid on 12 September.\n');
  await writeFile(join(folder, 'logo.png'), 'no text');
  await bob.ok(['knowledge', 'add', 'ledger', folder]);
  assert.deepEqual((await bob.ok(['knowledge', 'search', 'invoice', '--peer', '--json'])).json.found, []);
  await bob.ok(['knowledge', 'share', 'ledger']);
  assert.match((await bob.ok(['knowledge', 'list'])).stdout, /^ledger {2}shared with peers {2}1 documents/);
  assert.match((await bob.ok(['knowledge', 'list', 'ledger'])).stdout, /^deep\/invoices\.md/);

  model.next(
    { calls: [{ name: 'search_knowledge_base', args: { query: 'invoice 123' } }] },
    { text: 'Paid on 12 September.' },
  );
  const answer = await acme.admin.sendAndWait(
    { from: reviewer, to: billing, text: 'Is invoice 123 paid?' },
    { timeout: 20_000 },
  );
  assert.equal(answer.text, 'Paid on 12 September.');
  assert.equal(answer.verified, true, 'the link takes only what is signed');
  assert.equal(answer.signer?.person, 'globex/bob');
  assert.deepEqual((answer.envelope.body.data as { citations: unknown }).citations, [
    { source: 'deep/invoices.md § Invoices' },
  ]);
  const { rows } = await globex.database.db.query<{ key: string }>(
    `select k.public_multibase as key from keys k join agents a on k.holder = 'agent:' || a.id where a.handle = 'billing'`,
  );
  const own = Buffer.from(base58btc.decode(rows[0]!.key).subarray(2)).toString('base64url');
  assert.equal(answer.signer?.key, own, "the key of the agent's did:key");

  const show = await bob.ok(['model', 'show', 'billing']);
  assert.match(show.stdout, /answered for by stand-in at http:\/\/localhost:\d+ \(anthropic\)/);
  await bob.ok(['knowledge', 'remove', 'ledger', 'deep/invoices.md']);
  await Promise.all([bob.ok(['knowledge', 'remove', 'ledger']), bob.ok(['model', 'off', 'billing'])]);
  const gone = await bob.run(['model', 'show', 'billing']);
  assert.deepEqual([gone.code, /No model answers for/.test(gone.stderr)], [1, true]);
});

it('what the command line does not understand, and a new agent that it makes', async () => {
  const codes = await Promise.all([
    bob.run(['model', 'set', 'x', '--provider', 'openai']),
    bob.run(['model', 'set', 'x', '--provider', 'openai', '--model', 'm', '--key', '-'], { input: '\n' }),
    bob.run(['memory', 'forget']),
    bob.run(['knowledge', 'add', 'k', join(bob.home, 'nowhere')]),
  ]);
  assert.deepEqual(
    codes.map(({ code }) => code),
    [2, 2, 2, 1],
  );
  const made = await bob.ok([
    'model',
    'set',
    'fresh',
    '--provider',
    'openai',
    '--model',
    'm',
    '--base-url',
    model.url,
    '--json',
  ]);
  assert.equal(made.json.agent, 'globex/erp/bob/fresh');
  model.facts = ['Bob prefers mornings'];
  const said = await bob.ok(['agent', 'send', 'fresh', 'When?', '--wait']);
  assert.equal(said.stdout, 'You asked: When?\n');
  const listed = await eventually('a fact', async () => {
    const { stdout } = await bob.ok(['memory', 'list']);
    return stdout.includes('Bob prefers mornings') && stdout;
  });
  const [id] = listed.split(/\s/);
  assert.match((await bob.ok(['memory', 'forget', id!])).stdout, /forgotten: 1/);
});
