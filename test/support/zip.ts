import { deflateRawSync } from 'node:zlib';

export interface ZipEntry {
  name: string;
  /** As it stands in the archive. */
  data?: Buffer;
  /** 0 stored, 8 deflated. */
  method?: number;
  /** What the directory says of the size when inflated. */
  inflated?: number;
  flags?: number;
  /** Where the directory says that the entry lies. */
  at?: number;
}

/** An archive as the entries say, true or not. */
export function zipOf(entries: readonly ZipEntry[], more: { comment?: string; zip64?: boolean } = {}): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const { name, data = Buffer.alloc(0), method = 0, inflated = data.length, flags = 0, at } of entries) {
    const title = Buffer.from(name);
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50, 0);
    local.writeUInt16LE(flags, 6);
    local.writeUInt16LE(method, 8);
    local.writeUInt32LE(data.length, 18);
    local.writeUInt32LE(inflated, 22);
    local.writeUInt16LE(title.length, 26);
    const central = Buffer.alloc(46);
    central.writeUInt32LE(0x02014b50, 0);
    central.writeUInt16LE(flags, 8);
    central.writeUInt16LE(method, 10);
    central.writeUInt32LE(data.length, 20);
    central.writeUInt32LE(inflated, 24);
    central.writeUInt16LE(title.length, 28);
    let extra = Buffer.alloc(0);
    if (more.zip64) {
      extra = Buffer.alloc(12);
      extra.writeUInt16LE(1, 0);
      extra.writeUInt16LE(8, 2);
      extra.writeBigUInt64LE(BigInt(at ?? offset), 4);
      central.writeUInt16LE(12, 30);
      central.writeUInt32LE(0xffffffff, 42);
    } else {
      central.writeUInt32LE(at ?? offset, 42);
    }
    directory.push(central, title, extra);
    parts.push(local, title, data);
    offset += 30 + title.length + data.length;
  }
  const listing = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(more.zip64 ? 0xffff : entries.length & 0xffff, 8);
  end.writeUInt16LE(more.zip64 ? 0xffff : entries.length & 0xffff, 10);
  end.writeUInt32LE(listing.length, 12);
  end.writeUInt32LE(more.zip64 ? 0xffffffff : offset, 16);
  const comment = Buffer.from(more.comment ?? '');
  end.writeUInt16LE(comment.length, 20);
  if (!more.zip64) return Buffer.concat([...parts, listing, end, comment]);
  const end64 = Buffer.alloc(56);
  end64.writeUInt32LE(0x06064b50, 0);
  end64.writeBigUInt64LE(44n, 4);
  end64.writeBigUInt64LE(BigInt(entries.length), 24);
  end64.writeBigUInt64LE(BigInt(entries.length), 32);
  end64.writeBigUInt64LE(BigInt(listing.length), 40);
  end64.writeBigUInt64LE(BigInt(offset), 48);
  const locator = Buffer.alloc(20);
  locator.writeUInt32LE(0x07064b50, 0);
  locator.writeBigUInt64LE(BigInt(offset + listing.length), 8);
  locator.writeUInt32LE(1, 16);
  return Buffer.concat([...parts, listing, end64, locator, end, comment]);
}

/** One deflated file. */
export function smallZip(text = 'hello'): Buffer {
  const data = Buffer.from(text);
  return zipOf([{ name: 'hello.txt', data: deflateRawSync(data), method: 8, inflated: data.length }]);
}

/** A zip of exactly that many bytes. */
export function zipOfSize(bytes: number): Buffer {
  const frame = zipOf([{ name: 'x' }]).length;
  return zipOf([{ name: 'x', data: Buffer.alloc(bytes - frame, 1) }]);
}
