import { lstat, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32, deflateRawSync } from 'node:zlib';
import { CliError } from './errors.ts';

/** REDSYN "El sobre": the most that `files` holds, compressed. */
export const mostZipBytes = 5 * 1024 * 1024;
const mostEntries = 10_000;
const mostContent = 512 * 1024 * 1024;
// 1980-01-01: the same folder gives the same zip.
const date = 0x21;
const utf8 = 0x800;
const local = Buffer.from('PK\u0003\u0004');
const empty = Buffer.from('PK\u0005\u0006');

/** A zip as it is, or a folder made into one (regular files alone; links are not followed). */
export async function readZip(path: string): Promise<Buffer> {
  const found = await lstat(path).catch(() => {
    throw new CliError(`${path} is not there`);
  });
  const bytes = found.isDirectory() ? zip(await filesBelow(path)) : await readFile(path);
  if (![local, empty].some((mark) => mark.equals(bytes.subarray(0, 4)))) {
    throw new CliError(`${path} is no zip`, { next: 'name a folder, or a .zip' });
  }
  if (bytes.length > mostZipBytes) {
    throw new CliError(`${path} is ${bytes.length} bytes as a zip; 5 MB travel`, {
      next: 'put the rest where --ref can point',
    });
  }
  return bytes;
}

interface Entry {
  /** With `/`, relative. */
  name: string;
  content: Buffer;
}

async function filesBelow(folder: string): Promise<Entry[]> {
  const entries: Entry[] = [];
  let size = 0;
  const visit = async (at: string, prefix: string): Promise<void> => {
    const found = (await readdir(at, { withFileTypes: true })).sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const each of found) {
      const name = prefix + each.name;
      if (each.isDirectory()) await visit(join(at, each.name), `${name}/`);
      if (!each.isFile()) continue;
      const content = await readFile(join(at, each.name));
      size += content.length;
      entries.push({ name, content });
      if (entries.length > mostEntries || size > mostContent) throw new CliError(`${folder} holds too much to send`);
    }
  };
  await visit(folder, '');
  return entries;
}

/** APPNOTE.TXT 4.3: local files, then the central directory. */
export function zip(entries: readonly Entry[]): Buffer {
  const parts: Buffer[] = [];
  const central: Buffer[] = [];
  let offset = 0;
  for (const { name, content } of entries) {
    const label = Buffer.from(name);
    const data = deflateRawSync(content, { level: 9 });
    // Version 2.0, UTF-8 names, deflated; then times, checksum, sizes, name.
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(utf8, 2);
    common.writeUInt16LE(8, 4);
    common.writeUInt16LE(date, 8);
    common.writeUInt32LE(crc32(content), 10);
    common.writeUInt32LE(data.length, 14);
    common.writeUInt32LE(content.length, 18);
    common.writeUInt16LE(label.length, 22);
    const file = Buffer.concat([local, common, label, data]);
    const rest = Buffer.alloc(14);
    rest.writeUInt32LE(offset, 10);
    central.push(Buffer.concat([Buffer.from('PK\u0001\u0002'), Buffer.from([20, 0]), common, rest, label]));
    parts.push(file);
    offset += file.length;
  }
  const directory = Buffer.concat(central);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(entries.length, 4);
  end.writeUInt16LE(entries.length, 6);
  end.writeUInt32LE(directory.length, 8);
  end.writeUInt32LE(offset, 12);
  return Buffer.concat([...parts, directory, empty, end]);
}
