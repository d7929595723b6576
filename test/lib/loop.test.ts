import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../../src/lib/clock.ts';
import { every } from '../../src/lib/loop.ts';

const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function setup() {
  const clock = new ManualClock();
  const errors: object[] = [];
  const log = { error: (fields: object) => void errors.push(fields) };
  return { clock, errors, options: { clock, log, name: 'test', random: () => 0 } };
}

test('a loop runs at its interval, never two runs at once, counted from the end of the last', async () => {
  const { clock, options } = setup();
  let runs = 0;
  let end: () => void = () => {};
  const loop = every(
    1_000,
    () => {
      runs++;
      return new Promise<void>((resolve) => {
        end = resolve;
      });
    },
    options,
  );
  loop.start();
  loop.start();
  clock.advance(999);
  assert.equal(runs, 0);
  clock.advance(1);
  assert.equal(runs, 1);
  clock.advance(60_000);
  assert.equal(runs, 1, 'the first run is under way still');
  end();
  await tick();
  clock.advance(1_000);
  assert.equal(runs, 2);
  end();
  await loop.stop();
});

test('a run that fails is logged, and the next one comes', async () => {
  const { clock, errors, options } = setup();
  let runs = 0;
  const loop = every(1_000, () => Promise.reject(new Error(String(++runs))), options);
  loop.start();
  for (let i = 0; i < 3; i++) {
    clock.advance(1_000);
    await tick();
  }
  assert.equal(runs, 3);
  assert.equal(errors.length, 3);
  await loop.stop();
});

test('stop waits for the run under way, tells it, survives a second stop, and nothing runs after it', async () => {
  const { clock, options } = setup();
  let runs = 0;
  let end: () => void = () => {};
  let told: AbortSignal | undefined;
  const loop = every(
    1_000,
    (stopping) => {
      runs++;
      told = stopping;
      return new Promise<void>((resolve) => {
        end = resolve;
      });
    },
    options,
  );
  loop.start();
  clock.advance(1_000);
  let stopped = false;
  const both = Promise.all([loop.stop(), loop.stop()]).then(() => {
    stopped = true;
  });
  await tick();
  assert.equal(stopped, false);
  assert.equal(told?.aborted, true);
  end();
  await both;
  clock.advance(60_000);
  loop.start();
  clock.advance(60_000);
  assert.equal(runs, 1);
  await every(1_000, async () => {}, options).stop();
});

test('jitter only shortens the pause', () => {
  const { clock, options } = setup();
  let runs = 0;
  const loop = every(
    1_000,
    async () => {
      runs++;
    },
    { ...options, random: () => 0.999 },
  );
  loop.start();
  clock.advance(801);
  assert.equal(runs, 1);
});
