import { randomBytes } from 'node:crypto';
import { chmod, link, mkdir, open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Config, ConfigError, secretForm } from '../config.ts';

/** The 32 bytes that encrypt secrets at rest: the configured ones, or those in `<data>/secret`, made there (0600) at the first call. */
export async function loadSecret(config: Pick<Config, 'secret' | 'data'>): Promise<Buffer> {
  const text = config.secret ?? (await keep(config.data, 'secret', () => randomBytes(32).toString('base64url')));
  if (!secretForm.test(text)) {
    throw new ConfigError(
      'GATEHOUSE_SECRET',
      `${join(config.data, 'secret')} does not hold 32 bytes in base64url`,
      'Bring the file back from a backup: what it encrypted cannot be read without it',
    );
  }
  return Buffer.from(text, 'base64');
}

/** The text of a file in the data folder; made (0600) when missing. Of two who make it at once, both get the first one's. */
export async function keep(data: string, file: string, make: () => string): Promise<string> {
  const at = join(data, file);
  const there = await readFile(at, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (there !== undefined) return there.trim();
  await makeDataFolder(data);
  // Whole and on the disk before it has its name: a crash leaves no empty file behind.
  const part = `${at}.${randomBytes(6).toString('hex')}`;
  try {
    const handle = await open(part, 'wx', 0o600);
    try {
      await handle.writeFile(`${make()}\n`);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await link(part, at).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  } finally {
    await rm(part, { force: true });
  }
  return (await readFile(at, 'utf8')).trim();
}

/** Makes the data folder. Root's lets others pass through, not look: the account of the embedded database lives below. Files have 0600. */
export async function makeDataFolder(data: string): Promise<void> {
  if ((await mkdir(data, { recursive: true, mode: 0o755 })) === undefined) return;
  await chmod(data, process.getuid?.() === 0 ? 0o711 : 0o700);
}
