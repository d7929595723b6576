import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import fc from 'fast-check';
import { type DidWeb, didWebUrl, parseDid } from '../../src/identity/did.ts';

// web-did-resolver asks cross-fetch for the document: replaced before it is loaded, it tells its URL and no packet leaves.
const require = createRequire(`${process.cwd()}/package.json`);
const asked: string[] = [];
const crossFetch = require.resolve('cross-fetch');
require(crossFetch);
require.cache[crossFetch]!.exports = Object.assign(
  async (url: string) => {
    asked.push(url);
    return { status: 404, statusText: 'none', json: async () => ({}) };
  },
  { default: undefined as unknown },
);
require.cache[crossFetch]!.exports.default = require.cache[crossFetch]!.exports;
const { getResolver } = require('web-did-resolver') as {
  getResolver(): { web(did: string, parsed: { id: string }): Promise<unknown> };
};

test('for every honest did:web our URL is the one of web-did-resolver', async () => {
  const label = fc.stringMatching(/^[a-z][a-z0-9]{0,8}$/);
  const segment = fc.oneof(
    fc.stringMatching(/^[A-Za-z0-9_-][A-Za-z0-9._-]{0,8}$/),
    fc.constantFrom('a%C3%B1o', '%E2%9C%93'),
  );
  const did = fc
    .tuple(
      fc.array(label, { minLength: 1, maxLength: 3 }),
      fc.option(fc.integer({ min: 1, max: 65_535 })),
      fc.array(segment, { maxLength: 4 }),
    )
    .filter(([, port]) => port !== 443)
    .map(
      ([labels, port, segments]) => `did:web:${[labels.join('.') + (port ? `%3A${port}` : ''), ...segments].join(':')}`,
    );
  await fc.assert(
    fc.asyncProperty(did, async (text) => {
      asked.length = 0;
      await getResolver().web(text, { id: text.slice('did:web:'.length) });
      const ours = didWebUrl(parseDid(text) as DidWeb);
      assert.equal(asked.length, 1);
      assert.equal(new URL(asked[0]!).href, ours);
    }),
    { numRuns: 300 },
  );
});
