import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { deflateRawSync } from 'node:zlib';
import fc from 'fast-check';
import { maxZipEntries, zipFault } from '../../src/lib/zip.ts';
import { smallZip, zipOf } from '../support/zip.ts';

describe('whether bytes are a zip, by their directory alone (MIS-01)', () => {
  const taken: Record<string, Buffer> = {
    'one deflated file': smallZip(),
    'no file at all': zipOf([]),
    'a comment that holds an end record': zipOf([{ name: 'a' }], { comment: 'PK\x05\x06'.padEnd(40, '\0') }),
    'zip64 where it need not be': zipOf([{ name: 'a', data: Buffer.from('x') }, { name: 'b' }], { zip64: true }),
    'an encrypted entry': zipOf([{ name: 'a', data: Buffer.alloc(20), flags: 1 }]),
    'as many entries as are taken': zipOf(Array.from({ length: maxZipEntries }, (_, i) => ({ name: `${i}` }))),
    // 4 GB inflated, and a directory that says 8 KB: nobody inflates it here.
    'a bomb': zipOf([{ name: 'a', data: deflateRawSync(Buffer.alloc(1_000_000)), method: 8, inflated: 8192 }]),
  };
  for (const [what, zip] of Object.entries(taken)) {
    it(`takes ${what}`, () => assert.equal(zipFault(zip), undefined));
  }

  const good = zipOf([
    { name: 'a', data: Buffer.from('first') },
    { name: 'b', data: Buffer.from('second') },
  ]);
  const changed = (at: number, value: number): Buffer => {
    const copy = Buffer.from(good);
    copy.writeUInt32LE(value, at);
    return copy;
  };
  const end = good.length - 22;
  const refused: Record<string, [Buffer, RegExp]> = {
    nothing: [Buffer.alloc(0), /end record/],
    text: [Buffer.from('this is no zip, but it is long enough to be one'), /end record/],
    'a zip with something behind it': [Buffer.concat([good, Buffer.from('x')]), /end record/],
    'a zip that was cut off in front': [good.subarray(3), /lies outside|does not list|one part/],
    '100,000 empty entries': [
      zipOf(
        Array.from({ length: 100_000 }, () => ({ name: '' })),
        { zip64: true },
      ),
      /more than 10000 entries/,
    ],
    'entries that overlap': [
      zipOf([
        { name: 'a', data: Buffer.alloc(100) },
        { name: 'b', at: 0, data: Buffer.alloc(10) },
      ]),
      /overlap|outside/,
    ],
    'the same entry twice': [zipOf([{ name: 'a' }, { name: 'a', at: 0 }]), /overlap/],
    'an entry beyond the end': [zipOf([{ name: 'a', at: 0xfffff }]), /outside/],
    'a directory beyond the end': [changed(end + 16, good.length), /outside/],
    'more entries than are listed': [changed(end + 8, 0x0003_0003), /does not list/],
    'fewer entries than are listed': [changed(end + 8, 0x0001_0001), /does not list/],
    'one of several disks': [changed(end + 4, 1), /one part of several/],
    'a zip64 record that is not there': [changed(end + 16, 0xffffffff), /zip64/],
  };
  for (const [what, [zip, words]] of Object.entries(refused)) {
    it(`refuses ${what}`, () => assert.match(zipFault(zip) ?? 'taken', words));
  }

  it('never throws and never reads outside, whatever byte is wrong', () => {
    const zip64 = zipOf([{ name: 'a', data: Buffer.from('x') }], { zip64: true });
    fc.assert(
      fc.property(
        fc.constantFrom(good, zip64),
        fc.array(fc.tuple(fc.nat(400), fc.nat(255)), { maxLength: 6 }),
        fc.nat(30),
        (zip, changes, cut) => {
          const copy = Buffer.from(zip.subarray(0, zip.length - cut));
          for (const [at, value] of changes) if (at < copy.length) copy[copy.length - 1 - at] = value;
          const fault = zipFault(copy);
          assert.ok(fault === undefined || typeof fault === 'string');
        },
      ),
      { numRuns: 3000 },
    );
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => typeof zipFault(Buffer.from(bytes)) === 'string'),
    );
  });
});
