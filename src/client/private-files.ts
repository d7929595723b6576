import { randomBytes } from 'node:crypto';
import { link, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Files of one user alone: 0600 in folders of 0700. A reader never sees half of one. */

export async function readPrivate(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** False when it is there already: of several who come at once, one makes it. */
export async function createPrivate(path: string, text: string): Promise<boolean> {
  const draft = await writeDraft(path, text);
  try {
    await link(draft, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

export async function replacePrivate(path: string, text: string | Buffer): Promise<void> {
  await rename(await writeDraft(path, text), path);
}

async function writeDraft(path: string, text: string | Buffer): Promise<string> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const draft = `${path}.${randomBytes(6).toString('hex')}.new`;
  await writeFile(draft, text, { mode: 0o600, flag: 'wx' });
  return draft;
}
