import { Command } from 'commander';
import { type Pin, rotatedKeys, saveKeys } from '../client/index.ts';
import { CliError } from './errors.ts';
import { Home, openSession } from './home.ts';
import { command, type JsonOption, print, table } from './output.ts';

/** `gatehouse keys …`: this machine's own, and those that were pinned for others. */
export function keysCommand(): Command {
  return new Command('keys')
    .description('Your keys, and those accepted for others')
    .addCommand(keysListCommand('list').alias('ls'))
    .addCommand(acceptCommand())
    .addCommand(forgetCommand())
    .addCommand(rotateCommand());
}

export function keysListCommand(name: string): Command {
  return command(name, 'Fingerprints: of this machine, and pinned for others').action(async (options: JsonOption) => {
    const home = await new Home().ready();
    const [own, pins] = [await home.keys(), await home.pins.list()];
    const rows = pins.flatMap((pin) => [
      ...pin.keys.map(({ fingerprint, since }) => [pin.person, fingerprint, `accepted ${day(since)}`]),
      ...pin.waiting.map(({ fingerprint, since }) => [pin.person, fingerprint, `NOT ACCEPTED, seen ${day(since)}`]),
    ]);
    const { public_key, enc_key } = own.registration();
    print(options, { own: { fingerprint: own.fingerprint, public_key, enc_key }, pins }, [
      `this machine  ${own.fingerprint}`,
      ...table(rows),
    ]);
  });
}

function acceptCommand(): Command {
  return command(
    'accept',
    'Accepts the other key that was seen of a person, once you compared its fingerprint with them',
  )
    .argument('<person>', 'org/user')
    .argument('[fingerprint]', 'or its beginning, when several wait')
    .option('--only', 'and no longer the ones accepted before')
    .action(async (person: string, fingerprint: string | undefined, options: JsonOption & { only?: boolean }) => {
      const { pins } = await new Home().ready();
      const pin = await pins.accept(person, {
        ...(fingerprint !== undefined && { fingerprint: fingerprint.toLowerCase() }),
        only: options.only === true,
      });
      if (!pin) throw nothingToAccept(person, await pins.get(person));
      print(options, pin, `accepted ${pin.keys.at(-1)?.fingerprint} for ${person}`);
    });
}

function nothingToAccept(person: string, pin: Pin | undefined): CliError {
  const waiting = pin?.waiting ?? [];
  if (waiting.length === 0) return new CliError(`no other key of ${person} was seen`, { next: 'gatehouse keys list' });
  const choices = waiting.map(({ fingerprint }) => fingerprint).join(', ');
  return new CliError(`say which key of ${person}: ${choices}`, {
    next: `gatehouse keys accept ${person} <fingerprint>`,
  });
}

function forgetCommand(): Command {
  return command('forget', 'Forgets a person’s keys: the next one seen is taken as the first')
    .argument('<person>', 'org/user')
    .action(async (person: string, options: JsonOption) => {
      const { pins } = await new Home().ready();
      if (!(await pins.forget(person)))
        throw new CliError(`nothing is pinned for ${person}`, { next: 'gatehouse keys list' });
      print(options, { person, forgotten: true }, `forgotten: ${person}`);
    });
}

function rotateCommand(): Command {
  return command(
    'rotate',
    'New keys for this machine. Everybody who pinned the old one has to accept the new one',
  ).action(async (options: JsonOption) => {
    const home = await new Home().ready();
    const keys = rotatedKeys(await home.keys());
    const { login } = await openSession({ keys, rotate: true });
    await saveKeys(home.keysPath, keys);
    await home.save(login);
    print(options, { fingerprint: keys.fingerprint }, [
      `This machine's key is now ${keys.fingerprint}.`,
      'Listeners that run here go on with the old one: start them again.',
    ]);
  });
}

function day(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(0, 10);
}
