import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeDataFolder } from '../db/data-folder.ts';
import type { Sealer } from '../identity/sealing.ts';

/** The first admin's owner seed between `gatehouse identity restore` and the first start, sealed with GATEHOUSE_SECRET. */
const file = 'restored-seed';
const purpose = 'restored-seed';

export async function keepRestoredSeed(data: string, sealer: Sealer, seed: Uint8Array): Promise<void> {
  await makeDataFolder(data);
  await writeFile(join(data, file), sealer.seal(seed, purpose), { mode: 0o600 });
}

/** The seed that waits for the first start, or null. */
export async function readRestoredSeed(data: string, sealer: Sealer): Promise<Buffer | null> {
  const sealed = await readFile(join(data, file)).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  return sealed && sealer.open(sealed, purpose);
}

/** It is in the database now. */
export async function dropRestoredSeed(data: string): Promise<void> {
  await rm(join(data, file), { force: true });
}
