import { writeFile } from 'node:fs/promises';
import { text as readAll } from 'node:stream/consumers';
import type { Command } from 'commander';
import { type DeliveredEnvelope, fullAddress, newMessageId, type Outgoing, type Received } from '../client/index.ts';
import { CliError, usage } from './errors.ts';
import { type Note, openSession, ownAddress, type Session, seatOfLogin, senderFor } from './home.ts';
import { collect, command, type JsonOption, print, printable, wholeNumber } from './output.ts';
import { readZip } from './zip.ts';

interface WaitOptions extends JsonOption {
  wait?: boolean;
  timeout: number;
}

interface SendOptions extends WaitOptions {
  from?: string;
  plain?: boolean;
  sealed?: boolean;
  thread?: string;
  file?: string;
  ref?: string[];
  data?: string;
  ttl?: number;
  id?: string;
}

export function sendCommand(): Command {
  return command('send', 'Sends a request: signed, and sealed when the agent has a key')
    .argument('<address>', 'agent, user/agent, team/user/agent or org/team/user/agent; with #sN or #new if you like')
    .argument('[text]', 'left out, or `-`: read from stdin')
    .option('--wait', 'wait for the answer and print it')
    .option('--timeout <seconds>', 'how long to wait', wholeNumber('--timeout', 0), 300)
    .option('--plain', 'do not seal it')
    .option('--sealed', 'fail when the agent has no key, instead of sending it in the clear')
    .option('--from <agent>', 'which of your agents asks. Default: cli, made on first use')
    .option('--thread <id>', 'follow up in a conversation')
    .option('--file <path>', 'a zip, or a folder to be zipped; 5 MB')
    .option('--ref <url>', 'context that does not travel; repeat it', collect)
    .option('--data <json>', 'a body of application/json instead of text')
    .option('--ttl <seconds>', 'how long it may wait to be taken', wholeNumber('--ttl', 1))
    .option('--id <id>', 'an id of your own: sent again, it is the same message')
    .action(send);
}

export function getCommand(): Command {
  return command('get', 'Prints the answer to a request that was sent')
    .argument('<id>', 'of the request')
    .option('--wait', 'wait until it comes')
    .option('--timeout <seconds>', 'how long to wait', wholeNumber('--timeout', 0), 300)
    .option('--from <agent>', 'which of your agents asked, when it was not sent from here')
    .action(async (id: string, options: WaitOptions & { from?: string }) => {
      const session = await openSession();
      const note = await session.home.sent.get(id);
      const from = options.from === undefined ? note?.from : ownAddress(session.login, options.from);
      const asked = {
        from: from ?? ownAddress(session.login, 'cli'),
        ...(note && { to: note.to, thread: note.thread }),
      };
      await showAnswer(session, id, asked, { ...options, timeout: options.wait ? options.timeout : 0 });
    });
}

export function progressCommand(): Command {
  return command('progress', 'Tells who asked how far it is, while a request is being worked on')
    .argument('<id>', 'of the request: GATEHOUSE_ID in a command of `agent listen`')
    .argument('<text>')
    .option('--from <agent>', 'which of your agents was asked, when it was not taken here')
    .action(async (id: string, text: string, options: JsonOption & { from?: string }) => {
      const { home, login, client } = await openSession();
      const note = await home.taken.get(id);
      if (!note && options.from === undefined) {
        throw new CliError(`no request ${id} is being worked on here`, {
          next: 'say --from <agent> when it was taken elsewhere',
        });
      }
      const to = options.from === undefined ? note!.to : ownAddress(login, options.from);
      await client.progress(requestOf({ id, from: '', thread: '', ...note, to }), text);
      print(options, { id, told: true }, `told ${note?.from ?? 'the asker'}`);
    });
}

export function cancelCommand(): Command {
  return command('cancel', 'Withdraws a request that nobody took yet')
    .argument('<id>')
    .action(async (id: string, options: JsonOption) => {
      const { client } = await openSession();
      const done = await client.cancel(id);
      print(
        options,
        done,
        done.pending ? `withdrawn as soon as the other gateway can be asked: ${id}` : `withdrawn: ${id}`,
      );
    });
}

export function filesCommand(): Command {
  return command('files', 'Fetches the zip of a message')
    .argument('<id>')
    .option('-o, --output <file>', 'where to', 'files.zip')
    .action(async (id: string, options: JsonOption & { output: string }) => {
      const { client, home } = await openSession();
      const zip = (await home.files.get(id)) ?? (await client.files(id));
      await writeFile(options.output, zip, { mode: 0o600 });
      print(options, { id, bytes: zip.length, path: options.output }, `${zip.length} bytes in ${options.output}`);
    });
}

async function send(address: string, words: string | undefined, options: SendOptions): Promise<void> {
  if (options.plain && options.sealed) throw usage('--plain and --sealed say the opposite');
  if (options.data !== undefined && words !== undefined) throw usage('say either a text or --data');
  const session = await openSession();
  const { client, login, home } = session;
  const to = fullAddress(address, seatOfLogin(login));
  const from = await senderFor(session, options.from);
  const body: Pick<Outgoing, 'text' | 'data'> =
    options.data === undefined
      ? { text: words === undefined || words === '-' ? (await readAll(process.stdin)).replace(/\n$/, '') : words }
      : { data: readData(options.data) };
  const { thread, ttl, plain, sealed, file } = options;
  const sent = await client.send({
    id: options.id ?? newMessageId(),
    from,
    to,
    ...body,
    ...(thread !== undefined && { thread }),
    ...(ttl !== undefined && { ttl }),
    because: hopsHere(),
    ...(plain && { plain }),
    ...(sealed && { sealed }),
    ...(options.ref && { refs: options.ref.map((url) => ({ url })) }),
    ...(file !== undefined && { files: await readZip(file) }),
  });
  await home.sent.put({ id: sent.id, from, to, thread: sent.thread });
  const how = [sent.signed && 'signed', sent.sealed ? 'sealed' : 'not sealed', sent.duplicate && 'sent before'];
  const line = `sent ${sent.id} → ${sent.to} (${how.filter(Boolean).join(', ')})`;
  if (!options.wait) {
    print(options, sent, [line, `The answer: gatehouse agent get ${sent.id} --wait`]);
    return;
  }
  if (!options.json) console.error(line);
  await showAnswer(session, sent.id, { from, to, thread: sent.thread }, options);
}

/** The answer on stdout, what is about it on stderr, so that it can be piped on. An error reply is exit code 1. */
async function showAnswer(
  { client, home }: Session,
  id: string,
  asked: { from: string; to?: string; thread?: string },
  options: WaitOptions,
): Promise<void> {
  const { timeout } = options;
  const received = await client.waitFor(id, asked, {
    timeout,
    onProgress: (progress) => {
      if (options.json) console.error(JSON.stringify(viewOf(progress)));
      else console.error(`progress ${progress.envelope.from}: ${printable(progress.text)}`);
    },
  });
  // Confirmed by now, and gone from the gateway.
  const zip = await received.files().catch(() => undefined);
  if (zip) await home.files.put(received.envelope.id, zip);
  if (options.json) {
    console.log(JSON.stringify(viewOf(received)));
  } else {
    const { envelope, signer } = received;
    const proof = received.verified ? `verified as ${signer?.person}` : (received.trouble ?? 'not signed');
    console.error(
      `reply ${envelope.id}  ${envelope.from} → ${envelope.to} (${received.sealed ? 'sealed, ' : ''}${proof})`,
    );
    if (zip) console.error(`files: gatehouse agent files ${envelope.id}`);
    console.log(process.stdout.isTTY ? printable(received.text) : received.text);
  }
  if (received.envelope.error) process.exitCode = 1;
}

function viewOf({ envelope, sealed, verified, signer, trouble }: Received): object {
  return { ...envelope, sealed, verified, signer: signer ?? null, ...(trouble !== undefined && { trouble }) };
}

/** Enough of a request to answer it. */
function requestOf({ id, from, to, thread, reply_key }: Note): Received {
  const envelope = { v: 1, id, kind: 'request', from, to, thread, body: { type: 'text/plain' } } as DeliveredEnvelope;
  return {
    envelope,
    raw: envelope,
    text: '',
    sealed: reply_key !== undefined,
    verified: false,
    ...(reply_key !== undefined && { replyKey: reply_key }),
    files: async () => undefined,
  };
}

/** A command of `agent listen` that asks on: what it asks came through those who asked it. */
function hopsHere(): string[] {
  const { GATEHOUSE_HOPS: text } = process.env;
  try {
    const hops: unknown = JSON.parse(text ?? '[]');
    return Array.isArray(hops) ? hops.filter((hop): hop is string => typeof hop === 'string') : [];
  } catch {
    return [];
  }
}

function readData(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw usage(`--data is no JSON: ${(error as Error).message}`);
  }
}
