import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { Batcher, Questions } from '../../src/lib/batch.ts';

/** A run that ends when the test says so. */
function gated() {
  const runs: Array<{ items: number[]; end: () => void }> = [];
  const run = (items: number[]): Promise<number[]> =>
    new Promise((resolve) => runs.push({ items, end: () => resolve(items.map((n) => n * 10)) }));
  return { runs, run };
}

test('an idle batcher starts at once; what comes while two runs are busy shares the next', async () => {
  const { runs, run } = gated();
  const batcher = new Batcher({ run, max: 3 });
  const results = [];
  for (const n of [1, 2]) {
    results.push(batcher.submit(n));
    await turn();
  }
  for (const n of [3, 4, 5, 6]) results.push(batcher.submit(n));
  await turn();
  assert.deepEqual(
    runs.map((r) => r.items),
    [[1], [2]],
  );

  runs[1]!.end();
  await turn();
  assert.deepEqual(runs[2]!.items, [3, 4, 5]);
  runs[0]!.end();
  await turn();
  assert.deepEqual(runs[3]!.items, [6]);
  runs[2]!.end();
  runs[3]!.end();
  assert.deepEqual(await Promise.all(results), [10, 20, 30, 40, 50, 60]);
});

test('what one tick submits runs together', async () => {
  const { runs, run } = gated();
  const batcher = new Batcher({ run, max: 10 });
  void Promise.all([1, 2, 3].map((n) => batcher.submit(n)));
  await turn();
  assert.deepEqual(
    runs.map((r) => r.items),
    [[1, 2, 3]],
  );
  runs[0]!.end();
});

test('a poisoned item fails alone', async () => {
  const tried: number[][] = [];
  const batcher = new Batcher<number, number>({
    max: 10,
    run: async (items) => {
      tried.push(items);
      if (items.includes(3)) throw new Error('three');
      return items;
    },
  });
  const results = await Promise.allSettled([1, 2, 3, 4].map((n) => batcher.submit(n)));
  assert.deepEqual(
    results.map((r) => (r.status === 'fulfilled' ? r.value : r.reason.message)),
    [1, 2, 'three', 4],
  );
  assert.deepEqual(tried, [[1, 2, 3, 4], [1], [2], [3], [4]]);
});

test('a run that throws before it promises, or answers too little, is a failed run', async () => {
  const throwing = new Batcher<number, number>({
    max: 2,
    run: () => {
      throw new Error('at once');
    },
  });
  await assert.rejects(throwing.submit(1), /at once/);
  await assert.rejects(
    new Batcher<number, number>({ max: 2, run: async () => [] }).submit(1),
    /1 items gave 0 results/,
  );
});

test('drain resolves when all is done, also what was still waiting', async () => {
  const { runs, run } = gated();
  const batcher = new Batcher({ run, max: 1, inFlight: 1, key: () => 'same' });
  await batcher.drain();
  const results = Promise.all([batcher.submit(1), batcher.submit(2)]);
  let drained = false;
  const drain = batcher.drain().then(() => {
    drained = true;
  });
  await turn();
  runs[0]!.end();
  await turn();
  assert.equal(drained, false);
  runs[1]!.end();
  await drain;
  assert.deepEqual(await results, [10, 20]);
});

test('nothing is lost, and each key keeps its order and is never in two places at once', async () => {
  const item = fc.record({
    key: fc.constantFrom('a', 'b', 'c', 'd'),
    turns: fc.nat(3),
    fails: fc.nat(9).map((n) => n === 0),
    gap: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(item, { maxLength: 40 }),
      fc.integer({ min: 1, max: 5 }),
      fc.integer({ min: 1, max: 3 }),
      async (items, max, inFlight) => {
        const numbered = items.map((it, n) => ({ ...it, n }));
        const busy = new Set<string>();
        const done: Array<{ key: string; n: number }> = [];
        let running = 0;
        const batcher = new Batcher<(typeof numbered)[number], number>({
          max,
          inFlight,
          key: ({ key }) => key,
          run: async (batch) => {
            assert.ok(batch.length <= max && ++running <= inFlight);
            for (const { key } of batch) {
              assert.ok(!busy.has(key), `${key} runs twice`);
              busy.add(key);
            }
            for (let i = 0; i < (batch[0]?.turns ?? 0); i++) await turn();
            for (const { key } of batch) busy.delete(key);
            running--;
            if (batch.some(({ fails }) => fails)) throw new Error('poisoned');
            done.push(...batch);
            return batch.map(({ n }) => n);
          },
        });
        const results = [];
        for (const it of numbered) {
          results.push(Promise.allSettled([batcher.submit(it)]));
          if (it.gap) await turn();
        }
        await batcher.drain();
        const settled = (await Promise.all(results)).flat();
        assert.deepEqual(
          settled.map((s) => (s.status === 'fulfilled' ? s.value : s.reason.message)),
          numbered.map(({ n, fails }) => (fails ? 'poisoned' : n)),
        );
        for (const key of 'abcd') {
          const order = done.filter((d) => d.key === key).map(({ n }) => n);
          assert.deepEqual(
            order,
            [...order].sort((x, y) => x - y),
          );
        }
      },
    ),
    { numRuns: 150 },
  );
});

test('the same question is asked once, and never answered with what was read before it was asked', async () => {
  const runs: string[][] = [];
  let answer: () => void = () => {};
  let world = 'old';
  const questions = new Questions<string, string>({
    name: (name) => name,
    run: async (names) => {
      runs.push(names);
      const read = world;
      await new Promise<void>((resolve) => {
        answer = resolve;
      });
      return names.map((name) => `${name} is ${read}`);
    },
  });
  const first = questions.submit('a');
  await turn();
  world = 'new';
  // The query under way read the old world.
  const later = ['a', 'b', 'a', 'a'].map((name) => questions.submit(name));
  answer();
  assert.equal(await first, 'a is old');
  await turn();
  answer();
  assert.deepEqual(await Promise.all(later), ['a is new', 'b is new', 'a is new', 'a is new']);
  assert.deepEqual(runs, [['a'], ['a', 'b']]);
});
