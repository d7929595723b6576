import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Column } from '../../src/gates/facts.ts';
import { gates } from '../../src/gates/index.ts';
import { table, walk } from '../../src/gates/run.ts';
import { refuse } from '../../src/lib/refusal.ts';
import { envelope, message, request, World } from './world.ts';

const names = (column?: Column): string[] =>
  gates.rows.filter(({ columns }) => !column || columns.has(column)).map(({ name }) => name);
const once = (list: string[]): string[] => list.filter((name, i) => list.indexOf(name) === i);

test('the table has the ten gates of the design in its order, and the one against loops', () => {
  assert.deepEqual(once(names()), [
    'flood',
    'authenticate',
    'integrity',
    'capability',
    'address',
    'link',
    'consent',
    'policy',
    'quota',
    'thread',
    'limits',
  ]);
});

test('every column begins with flood, authenticate, integrity and capability; who knocks has nothing yet to be judged', () => {
  const head = ['flood', 'authenticate', 'flood', 'authenticate', 'flood', 'integrity', 'capability'];
  const rest: Record<Exclude<Column, 'knock' | 'watch'>, string[]> = {
    request: ['address', 'link', 'consent', 'policy', 'quota', 'thread', 'limits'],
    answer: ['address', 'link', 'consent', 'policy', 'quota', 'thread', 'limits'],
    event: ['address', 'link', 'consent', 'quota', 'thread', 'limits'],
    read: [],
    instance: [],
  };
  for (const column of Object.keys(rest) as Array<keyof typeof rest>)
    assert.deepEqual(names(column), [...head, ...rest[column]], column);
  assert.deepEqual(names('knock'), head.slice(0, 5));
  // A watcher asks for wakes, and there is nothing else to be judged of it.
  assert.deepEqual(names('watch'), head.slice(0, 4));
});

test('no wire is a column, and every row says what it asks', () => {
  const columns = new Set(gates.rows.flatMap((row) => [...row.columns]));
  assert.deepEqual([...columns].sort(), ['answer', 'event', 'instance', 'knock', 'read', 'request', 'watch']);
  for (const { name, asks } of gates.rows) assert.match(asks, /\?/, name);
});

test('the runner stops at the first refusal, names the gate, and hands on only what was proved', async () => {
  const reached: string[] = [];
  const rows = table()
    .row('one', ['request'], '?', async () => ({ first: 1 }))
    .row('skipped', ['read'], '?', async () => refuse('internal'))
    .row('two', ['request'], '?', async ({ first }) => {
      reached.push(`two ${first}`);
      return refuse('forbidden');
    })
    .row('three', ['request'], '?', async () => {
      reached.push('three');
      return {};
    });
  const arrived = { inbound: message(request(), envelope()), column: 'request' as const };
  const world = new World();
  const outcome = await walk(rows, arrived, { ...world.deps(), flood: undefined as never });
  assert.deepEqual(reached, ['two 1']);
  assert.equal('gate' in outcome && outcome.gate, 'two');
  assert.deepEqual(Object.keys(arrived), ['inbound', 'column']);
});
