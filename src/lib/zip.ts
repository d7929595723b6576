/**
 * Whether bytes are a zip, by its directory alone (APPNOTE 6.3.10 §4.3): nothing is inflated, so that what the entries say of their sizes
 * costs nothing (MIS-01). Entries may be encrypted: what is inside concerns whoever opens it.
 */

const END = 0x06054b50;
const END64 = 0x06064b50;
const LOCATOR64 = 0x07064b50;
const CENTRAL = 0x02014b50;
const LOCAL = 0x04034b50;
const endSize = 22;
const end64Size = 56;
const locatorSize = 20;
const centralSize = 46;
const localSize = 30;
const longestComment = 0xffff;
/** Stands in a 16- or 32-bit field whose value is in the zip64 one. */
const max16 = 0xffff;
const max32 = 0xffffffff;

/** Entries of one zip: more are a burden to whoever lists them. */
export const maxZipEntries = 10_000;

interface Directory {
  readonly entries: number;
  readonly start: number;
  readonly end: number;
}

/** Words for what is wrong, or undefined when it is a zip. */
export function zipFault(zip: Buffer): string | undefined {
  const directory = findDirectory(zip);
  if (typeof directory === 'string') return directory;
  if (directory.entries > maxZipEntries) return `has more than ${maxZipEntries} entries`;
  const parts: Array<readonly [start: number, end: number]> = [];
  let at = directory.start;
  for (let i = 0; i < directory.entries; i++) {
    if (at + centralSize > directory.end || zip.readUInt32LE(at) !== CENTRAL)
      return 'has a directory that does not list its entries';
    const next = at + centralSize + zip.readUInt16LE(at + 28) + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32);
    if (next > directory.end) return 'has a directory that does not list its entries';
    const part = partOf(zip, at, directory.start);
    if (!part) return 'has an entry that lies outside of it';
    parts.push(part);
    at = next;
  }
  if (at !== directory.end) return 'has a directory that does not list its entries';
  parts.sort(([a], [b]) => a - b);
  return parts.some(([start], i) => i > 0 && start < parts[i - 1]![1]) ? 'has entries that overlap' : undefined;
}

function findDirectory(zip: Buffer): Directory | string {
  const at = findEnd(zip);
  if (at === undefined) return 'is no zip: its end record is missing';
  let [here, entries, size, start] = [
    zip.readUInt16LE(at + 8),
    zip.readUInt16LE(at + 10),
    zip.readUInt32LE(at + 12),
    zip.readUInt32LE(at + 16),
  ];
  let limit = at;
  if (zip.readUInt16LE(at + 4) === max16 || here === max16 || entries === max16 || size === max32 || start === max32) {
    const at64 = findEnd64(zip, at);
    if (at64 === undefined) return 'has a zip64 end record that lies outside of it';
    [here, entries, size, start] = [24, 32, 40, 48].map((field) => read64(zip, at64 + field)) as [
      number,
      number,
      number,
      number,
    ];
    limit = at64;
  } else if (zip.readUInt32LE(at + 4) !== 0) {
    return 'is one part of several';
  }
  if (here !== entries) return 'is one part of several';
  if (start + size > limit) return 'has a directory that lies outside of it';
  return { entries, start, end: start + size };
}

/** The end record whose comment ends with the bytes; from behind, because a comment may hold anything. */
function findEnd(zip: Buffer): number | undefined {
  const lowest = Math.max(0, zip.length - endSize - longestComment);
  for (let at = zip.length - endSize; at >= lowest; at--) {
    if (zip.readUInt32LE(at) === END && at + endSize + zip.readUInt16LE(at + 20) === zip.length) return at;
  }
  return undefined;
}

function findEnd64(zip: Buffer, end: number): number | undefined {
  const locator = end - locatorSize;
  if (locator < 0 || zip.readUInt32LE(locator) !== LOCATOR64) return undefined;
  const at = read64(zip, locator + 8);
  return at + end64Size <= locator && zip.readUInt32LE(at) === END64 ? at : undefined;
}

/** Where an entry and its data lie, or undefined when that is not before the directory. */
function partOf(zip: Buffer, at: number, limit: number): readonly [number, number] | undefined {
  let size = zip.readUInt32LE(at + 20);
  let start = zip.readUInt32LE(at + 42);
  if (zip.readUInt32LE(at + 24) === max32 || size === max32 || start === max32) {
    const wide = zip64Field(zip, at);
    if (!wide) return undefined;
    // In this order, and only those whose narrow field is full.
    let field = zip.readUInt32LE(at + 24) === max32 ? 8 : 0;
    if (size === max32) {
      if (field + 8 > wide.length) return undefined;
      size = read64(wide, field);
      field += 8;
    }
    if (start === max32) {
      if (field + 8 > wide.length) return undefined;
      start = read64(wide, field);
    }
  }
  if (start + localSize > limit || zip.readUInt32LE(start) !== LOCAL) return undefined;
  const end = start + localSize + zip.readUInt16LE(start + 26) + zip.readUInt16LE(start + 28) + size;
  return end <= limit ? [start, end] : undefined;
}

function zip64Field(zip: Buffer, at: number): Buffer | undefined {
  let field = at + centralSize + zip.readUInt16LE(at + 28);
  const end = field + zip.readUInt16LE(at + 30);
  while (field + 4 <= end) {
    const next = field + 4 + zip.readUInt16LE(field + 2);
    if (next > end) return undefined;
    if (zip.readUInt16LE(field) === 1) return zip.subarray(field + 4, next);
    field = next;
  }
  return undefined;
}

/** Past 2^53 it lies outside of any zip all the same. */
function read64(bytes: Buffer, at: number): number {
  return Number(bytes.readBigUInt64LE(at));
}
