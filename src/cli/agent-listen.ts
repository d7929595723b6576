import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import { type Announcement, type Answer, type Body, type FullAnswer, hopsOf, type Incoming } from '../client/index.ts';
import { type Home, openSession, ownAddress } from './home.ts';
import { collect, command, type JsonOption, printable, wholeNumber } from './output.ts';
import { killRunning, type Ran, runCommand } from './run-command.ts';

interface ListenOptions extends JsonOption {
  run: string;
  replyJson?: boolean;
  timeout: number;
  lease?: number;
  concurrency: number;
  allow?: string[];
  trust?: 'none' | 'full';
  signedOnly?: boolean;
  encryptedOnly?: boolean;
  verifiedOnly?: boolean;
  description?: string;
}

const help = `
The command gets the envelope as one line of JSON on stdin, opened when it was sealed, and as variables: GATEHOUSE_ID, GATEHOUSE_KIND, GATEHOUSE_FROM,
GATEHOUSE_TO, GATEHOUSE_THREAD, GATEHOUSE_SESSION, GATEHOUSE_TOPIC, GATEHOUSE_SIGNED, GATEHOUSE_SEALED and GATEHOUSE_VERIFIED (true or false),
GATEHOUSE_SIGNER (org/user), GATEHOUSE_FINGERPRINT, GATEHOUSE_FILES (path of the zip that came along). What a sender wrote is in no argument.

What it writes to stdout is the answer: text, or a JSON object {"body": {"type": …}, "error": …}. With --reply-json all of it is JSON data.
A line on stdout or stderr that begins with "::progress " is told to the asker at once and is not part of the answer.
An exit code other than 0 is an error reply with the last lines of stderr.

A request comes back when this machine dies; after the lease, which is the time limit and 30 s. SIGTERM and Ctrl-C finish what is under way;
twice ends at once. Each start replaces the policy of the agent by --allow, --trust, --signed-only and --encrypted-only.`;

export function listenCommand(): Command {
  return command('listen', 'Announces an agent of yours and answers its requests with a command')
    .argument('<name>', 'name, or org/team/user/name')
    .requiredOption('--run <command>', 'run by the shell for each request')
    .option('--reply-json', 'the command writes JSON, sent as application/json')
    .option('--timeout <seconds>', 'the longest that the command may take', wholeNumber('--timeout', 1), 300)
    .option('--lease <seconds>', 'when a request comes back after this machine died', wholeNumber('--lease', 1))
    .option('--concurrency <n>', 'commands at the same time', wholeNumber('--concurrency', 1), 1)
    .option(
      '--allow <who>',
      'a handle, team:<team>, org, org:<linked org>, anyone; repeat it. Default: your team',
      collect,
    )
    .addOption(
      new Option(
        '--trust <level>',
        'full: they may do anything on this machine; needs --allow, takes verified requests only',
      ).choices(['none', 'full']),
    )
    .option('--signed-only', 'take only signed requests')
    .option('--encrypted-only', 'take only sealed requests')
    .option('--verified-only', 'hand over only requests signed with a key that is pinned here')
    .option('--description <text>', 'shown in the directory')
    .addHelpText('after', help)
    .action(listen);
}

async function listen(name: string, options: ListenOptions): Promise<void> {
  const { home, login, client } = await openSession();
  const address = ownAddress(login, name);
  const say = teller(options);
  const stop = new AbortController();
  let stopping = 0;
  const onSignal = (): void => {
    // npm passes on a Ctrl-C that the terminal has sent already: both are one.
    if (stopping !== 0 && Date.now() - stopping < 1_000) return;
    if (stopping !== 0) {
      killRunning();
      process.exit(1);
    }
    stopping = Date.now();
    stop.abort();
    say('stopping', {}, 'stopping: what is under way is finished first');
  };
  process.on('SIGTERM', onSignal).on('SIGINT', onSignal);

  let lastFault = '';
  await client.announce(address, policyOf(options));
  say('listening', { agent: address, fingerprint: client.keys?.fingerprint }, `listening as ${address}`);
  const handler = (incoming: Incoming): Promise<Answer> => {
    lastFault = '';
    return answer(incoming, home, options, say);
  };
  await client.listen(address, handler, {
    signal: stop.signal,
    concurrency: options.concurrency,
    lease: options.lease ?? options.timeout + 30,
    verifiedOnly: options.verifiedOnly === true || options.trust === 'full',
    onAnswer: ({ envelope }) =>
      say(
        'answer',
        { id: envelope.id, reply_to: envelope.reply_to },
        `an answer to ${envelope.reply_to} came: gatehouse agent get ${envelope.reply_to}`,
      ),
    onFault: (fault) => {
      const words = fault instanceof Error ? fault.message : String(fault);
      // A gateway that is away is the same news every time.
      if (words === lastFault) return;
      lastFault = words;
      say('fault', { error: words }, words);
    },
  });
  say('stopped', {}, 'stopped');
}

function policyOf({ description, allow, trust, signedOnly, encryptedOnly }: ListenOptions): Announcement {
  return {
    adapter: 'gatehouse agent listen',
    ...(description !== undefined && { description }),
    ...(allow && { allow }),
    ...(trust && { trust }),
    ...(signedOnly && { signed_only: true }),
    ...(encryptedOnly && { encrypted_only: true }),
  };
}

type Say = (event: string, facts: object, words: string) => void;

function teller({ json }: JsonOption): Say {
  return (event, facts, words) =>
    console.log(json ? JSON.stringify({ event, at: new Date().toISOString(), ...facts }) : printable(words));
}

async function answer(incoming: Incoming, home: Home, options: ListenOptions, say: Say): Promise<Answer> {
  const { envelope, raw, verified, sealed, replyKey } = incoming;
  const { id, from, to, thread, kind } = envelope;
  say('taken', { id, kind, from, thread, verified, sealed }, `${kind} ${id} from ${from}`);
  await home.taken.put({ id, from, to, thread, ...(replyKey !== undefined && { reply_key: replyKey }) });
  const folder = raw.files ? await mkdtemp(join(tmpdir(), 'gatehouse-files-')) : undefined;
  try {
    const zip = folder && join(folder, 'files.zip');
    if (zip) await writeFile(zip, (await incoming.files()) ?? '', { mode: 0o600 });
    // One after the other, and all of them before the answer.
    let told: Promise<unknown> = Promise.resolve();
    const ran = await runCommand({
      command: options.run,
      input: `${JSON.stringify(inputOf(incoming, zip))}\n`,
      env: variablesOf(incoming, zip),
      timeout: options.timeout,
      onProgress: (text) => {
        told = told
          .then(() => incoming.progress(text))
          .catch((fault: unknown) => say('fault', { id, error: String(fault) }, `progress of ${id}: ${fault}`));
      },
    });
    await told;
    const outcome = outcomeOf(ran, options);
    if (kind === 'request') {
      say(
        'answered',
        { id, error: outcome.error ?? false },
        outcome.error ? `${id} failed: ${outcome.body.text}` : `answered ${id}`,
      );
    }
    return kind === 'request' ? outcome : undefined;
  } finally {
    await home.taken.remove(id);
    if (folder) await rm(folder, { recursive: true, force: true });
  }
}

/** What the command reads: the envelope, and what was found out about it here. */
function inputOf(incoming: Incoming, zip: string | undefined): object {
  const { envelope, sealed, verified, signer, trouble } = incoming;
  return {
    ...envelope,
    ...(envelope.files && zip && { files: { ...envelope.files, path: zip } }),
    sealed,
    verified,
    signer: signer ?? null,
    ...(trouble !== undefined && { trouble }),
  };
}

function variablesOf(
  { envelope, sealed, verified, signer }: Incoming,
  zip: string | undefined,
): Record<string, string> {
  const values: Record<string, string> = {
    ID: envelope.id,
    KIND: envelope.kind,
    FROM: envelope.from,
    TO: envelope.to,
    THREAD: envelope.thread,
    SESSION: /#(s\d+)$/.exec(envelope.to)?.[1] ?? '',
    TOPIC: envelope.topic ?? '',
    SIGNED: String(envelope.signed),
    SEALED: String(sealed),
    VERIFIED: String(verified),
    SIGNER: signer?.person ?? '',
    FINGERPRINT: signer?.fingerprint ?? '',
    FILES: zip ?? '',
    HOPS: JSON.stringify(hopsOf(envelope)),
  };
  // No variable can hold U+0000.
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [`GATEHOUSE_${name}`, value.replaceAll('\u0000', '')]),
  );
}

function outcomeOf(ran: Ran, { timeout, replyJson }: ListenOptions): FullAnswer {
  const { stdout, stderr, code, timedOut, overflowed } = ran;
  if (timedOut) return failed(`it took longer than ${timeout} s`);
  if (overflowed) return failed('the answer is larger than 64 KB');
  if (code !== 0) return failed(stderr || `the command ended with ${code === null ? 'a signal' : `code ${code}`}`);
  const value = parsed(stdout);
  if (isAnswer(value)) return value;
  if (!replyJson) return { body: { type: 'text/plain', text: stdout } };
  return value === undefined
    ? failed('the command did not write JSON')
    : { body: { type: 'application/json', data: value } };
}

function isAnswer(value: unknown): value is FullAnswer {
  const body = typeof value === 'object' && value !== null ? (value as { body?: Partial<Body> }).body : undefined;
  return typeof body === 'object' && body !== null && typeof body.type === 'string';
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function failed(text: string): FullAnswer {
  return { body: { type: 'text/plain', text }, error: true };
}
