import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it, type TestContext } from 'node:test';
import {
  fileKeys,
  filePins,
  memoryPins,
  nodeKeys,
  type PinStore,
  rotatedKeys,
  saveKeys,
} from '../../src/client/index.ts';

const key = (): string => nodeKeys().registration().public_key;

async function folder(t: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'gatehouse-pins-'));
  t.after(() => rm(path, { recursive: true, force: true }));
  return path;
}

async function behaves(pins: PinStore): Promise<void> {
  const [first, second, third] = [key(), key(), key()];
  assert.equal(await pins.get('acme/ana'), undefined);
  assert.equal(await pins.check('acme/ana', first), 'new');
  assert.equal(await pins.check('acme/ana', first), 'known');
  assert.equal(await pins.accept('acme/ana'), undefined, 'nothing waits');
  assert.equal(await pins.check('acme/ana', second), 'changed');
  assert.equal(await pins.check('acme/ana', second), 'changed');
  assert.equal(await pins.check('acme/bob', second), 'new', "another person's is their own");
  assert.equal(await pins.check('acme/ana', third), 'changed');
  assert.equal(await pins.accept('acme/ana'), undefined, 'which of the two must be said');
  const waiting = (await pins.get('acme/ana'))!.waiting;
  assert.deepEqual(waiting.map((each) => each.key).sort(), [second, third].sort());
  const { fingerprint } = waiting.find((each) => each.key === second)!;
  assert.deepEqual(
    (await pins.accept('acme/ana', { fingerprint: fingerprint.slice(0, 12) }))!.keys.map((each) => each.key),
    [first, second],
  );
  assert.deepEqual([await pins.check('acme/ana', first), await pins.check('acme/ana', second)], ['known', 'known']);
  assert.deepEqual(
    (await pins.accept('acme/ana', { only: true }))!.keys.map((each) => each.key),
    [third],
  );
  assert.equal(await pins.check('acme/ana', first), 'changed');
  assert.deepEqual(
    (await pins.list()).map(({ person }) => person),
    ['acme/ana', 'acme/bob'],
  );
  assert.equal(await pins.forget('acme/ana'), true);
  assert.equal(await pins.forget('acme/ana'), false);
  assert.equal(await pins.check('acme/ana', third), 'new');
}

it('pins in memory: first use, change, accept, forget', () => behaves(memoryPins()));

it('pins in files: the same, and for the owner alone', async (t) => {
  const path = join(await folder(t), 'pins');
  await behaves(filePins(path));
  await filePins(path).check('localhost:8081/../x', key());
  assert.equal((await stat(path)).mode & 0o777, 0o700);
  const names = await readdir(path);
  assert.equal(names.length, 3);
  for (const name of names) assert.equal((await stat(join(path, name))).mode & 0o777, 0o600);
  assert.deepEqual(
    (await filePins(path).list()).map(({ person }) => person),
    ['acme/ana', 'acme/bob', 'localhost:8081/../x'],
  );
});

it('of many that come first at once, one is pinned', async (t) => {
  const path = await folder(t);
  const keys = Array.from({ length: 20 }, key);
  const verdicts = await Promise.all(keys.map((each) => filePins(path).check('acme/ana', each)));
  assert.equal(verdicts.filter((verdict) => verdict === 'new').length, 1);
  const pin = (await filePins(path).get('acme/ana'))!;
  assert.deepEqual(
    pin.keys.map((each) => each.key),
    [keys[verdicts.indexOf('new')]],
  );
});

it('keys in a file are made once, kept for the owner alone, and rotate', async (t) => {
  const path = join(await folder(t), 'deep', 'keys.json');
  const made = await Promise.all(Array.from({ length: 10 }, () => fileKeys(path)));
  assert.equal(new Set(made.map(({ fingerprint }) => fingerprint)).size, 1);
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  assert.equal((await stat(join(path, '..'))).mode & 0o777, 0o700);
  assert.deepEqual(await readdir(join(path, '..')), ['keys.json']);
  const next = rotatedKeys(made[0]!);
  await saveKeys(path, next);
  const read = await fileKeys(path);
  assert.equal(read.fingerprint, next.fingerprint);
  assert.deepEqual(
    read.previous.map(({ publicKey }) => publicKey),
    [made[0]!.encryption.publicKey],
  );
});
