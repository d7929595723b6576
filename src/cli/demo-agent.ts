/**
 * The agent that answers in the demo: a process of its own that only calls out. It asks its gateway for work, tells how far it is, and
 * answers. Arguments: gateway URL, address, and the keys on stdin; the token comes in TOKEN.
 */
import { text } from 'node:stream/consumers';
import { Client, nodeKeys } from '../client/index.ts';

const [url = '', address = ''] = process.argv.slice(2);
const keys = nodeKeys(JSON.parse(await text(process.stdin)) as { signing: string; encryption: string });
const client = new Client({ url, token: process.env.TOKEN ?? '', keys });
const stop = new AbortController();
process.on('SIGTERM', () => stop.abort());

await client.registerKeys();
await client.announce(address, {
  description: 'Answers questions about invoices',
  allow: ['org:acme'],
  signed_only: true,
});
console.log('listening');
await client.listen(
  address,
  async ({ text, progress }) => {
    await progress('looking it up in the ledger');
    return `Yes: invoice 123 was paid on 12 September. (You asked: ${text})`;
  },
  { signal: stop.signal },
);
