import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type Config, loadConfig } from '../config.ts';
import { loadSecret } from '../db/data-folder.ts';
import { findEmbedded } from '../db/embedded.ts';
import { openPool } from '../db/pool.ts';
import { firstAdmin } from '../directory/bootstrap.ts';
import { createDirectory } from '../directory/index.ts';
import type { Holder } from '../directory/keyring.ts';
import { storedAuthority } from '../directory/keyring.ts';
import { readAddress } from '../directory/names.ts';
import { keepRestoredSeed } from '../directory/restored-seed.ts';
import { keyPair } from '../identity/keys.ts';
import { phraseOfSeed, seedOfPhrase } from '../identity/phrase.ts';
import { Sealer } from '../identity/sealing.ts';
import { systemClock } from '../lib/clock.ts';
import { createLog } from '../lib/log.ts';
import { Refusal } from '../lib/refusal.ts';

export async function phrase({ agent }: { agent?: string }): Promise<void> {
  const config = loadConfig(process.env);
  const url = config.databaseUrl ?? (await findEmbedded(config.data));
  if (url === undefined) {
    throw new Error(`the gateway of ${config.data} is not running: start it, then ask again`);
  }
  const db = await openPool({ url, max: 2, clock: systemClock, log: createLog({ level: 'error' }) });
  try {
    const registry = createDirectory({
      db,
      clock: systemClock,
      sealer: new Sealer(await loadSecret(config)),
      // Under what the gateway itself goes by, not under what this shell happens to be set to.
      authority: (await storedAuthority(db)) ?? config.authority,
      plan: config.plan,
      apiVersion: '',
    });
    const holder = agent === undefined ? await ownerOfAdmin() : await holderOfAgent(agent);
    console.error(`${holder.did}\n${await registry.keyring.didKey(holder)}`);
    console.error('Whoever has these words is this identity. Write them on paper.\n');
    console.log(phraseOfSeed(await registry.keyring.seed(holder)));

    async function ownerOfAdmin(): Promise<Holder> {
      const admin = await firstAdmin(db);
      if (!admin) throw new Error('there is no admin yet: start the gateway once');
      return registry.keyring.owner(admin);
    }

    async function holderOfAgent(address: string): Promise<Holder> {
      const read = readAddress(address, { field: 'agent' });
      if (read instanceof Refusal) throw new Error(read.words);
      const found = await registry.lookups.agentAt(read);
      if (!found) throw new Error(`there is no agent ${address} here`);
      return registry.keyring.agent(found);
    }
  } finally {
    await db.close();
  }
}

export async function restore(): Promise<void> {
  const config: Config = loadConfig(process.env);
  const url = config.databaseUrl ?? (await findEmbedded(config.data));
  const started = url === undefined ? existsSync(join(config.data, 'postgres')) : await hasStarted(url);
  if (started) {
    throw new Error('this gateway has been started before: an identity is restored before the first start alone');
  }
  if (process.stdin.isTTY) console.error('Type the 24 words, then Enter and Ctrl-D:');
  const seed = seedOfPhrase(await text(process.stdin));
  if (seed instanceof Refusal) throw new Error(seed.words);
  await keepRestoredSeed(config.data, new Sealer(await loadSecret(config)), seed);
  console.error(`Kept: ${keyPair(seed).did}\nThe first start makes this the identity of the first admin.`);
}

async function hasStarted(url: string): Promise<boolean> {
  const db = await openPool({ url, max: 1, clock: systemClock, log: createLog({ level: 'error' }) });
  try {
    return (await firstAdmin(db).catch(() => undefined)) != null;
  } finally {
    await db.close();
  }
}
