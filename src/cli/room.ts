import { Command, Option } from 'commander';
import { openSession, ownAddress } from './home.ts';
import { command, type JsonOption, print, printable, table } from './output.ts';
import { callOwnerApi } from './owner-api.ts';

/** `gatehouse room …`: agents that are rooms (muretai.md "muretai.room"). */
export function roomCommand(): Command {
  return new Command('room')
    .description('Rooms: what one member posts, every other member hears')
    .addCommand(createCommand())
    .addCommand(membersCommand())
    .addCommand(addCommand())
    .addCommand(removeCommand());
}

interface Axes extends JsonOption {
  visibility: string;
  lifetime: string;
  join: string;
  confidentiality: string;
  description?: string;
}

function createCommand(): Command {
  return command('create', 'Makes an agent of yours a room, or changes what kind of room it is')
    .argument('<name>')
    .addOption(axis('visibility', ['private', 'public'], 'a public one names its members in its card'))
    .addOption(axis('lifetime', ['persistent', 'ephemeral'], 'in an ephemeral one nothing waits longer than an hour'))
    .addOption(axis('join', ['invite', 'request', 'open'], 'who joins: whom you invite, whom you let in, anybody'))
    .addOption(axis('confidentiality', ['hub-trusted', 'member-only'], 'member-only: it takes sealed messages alone'))
    .option('--description <text>')
    .action(async (name: string, options: Axes) => {
      const { client, login } = await openSession();
      const address = ownAddress(login, name);
      const { visibility, lifetime, join, confidentiality, description } = options;
      const room = { visibility, lifetime, join, confidentiality };
      const about = { listening: true, room, ...(description !== undefined && { description }) };
      const made = await client.call<object>('PUT', `/agents/${address}`, about);
      print(options, made, [
        `${address} is a room: ${visibility}, ${lifetime}, join by ${join}, ${confidentiality}`,
        `  add somebody of your organisation:  gatehouse room add ${name} <agent>`,
        `  invite somebody from elsewhere:     gatehouse trust invite ${name}`,
      ]);
    });
}

function axis(name: string, values: readonly [string, string, ...string[]], about: string): Option {
  return new Option(`--${name} <kind>`, about).choices([...values]).default(values[0]);
}

interface Member {
  did: string;
  address: string | null;
  name: string;
  joined_at: string;
  problem: string | null;
}

function membersCommand(): Command {
  return command('members', 'Who is in a room of yours, or in one that your agent is in')
    .argument('<room>')
    .action(async (room: string, options: JsonOption) => {
      const { members } = await call<{ members: Member[] }>(room, 'GET', '');
      const rows = members.map(({ did, address, name, joined_at: since, problem }) => [
        address ?? did,
        printable(address === null ? name : ''),
        `since ${since}`,
        problem === null ? '' : `not reached: ${printable(problem)}`,
      ]);
      print(options, { members }, rows.length > 0 ? table(rows) : 'nobody yet');
    });
}

function addCommand(): Command {
  return command('add', 'Puts an agent into your room; or lets an agent of yours join a room, as the room allows')
    .argument('<room>')
    .argument('<agent>')
    .option('--note <text>', "what the room's owner is told when she has to say yes", '')
    .action(async (room: string, agent: string, options: JsonOption & { note: string }) => {
      const { login } = await openSession();
      const address = ownAddress(login, agent);
      const body = { agent: address, note: options.note };
      const done = await call<{ status: string }>(room, 'POST', '', body);
      const words = done.status === 'connected' ? `${address} is in` : `${address} waits for the owner of the room`;
      print(options, done, words);
    });
}

function removeCommand(): Command {
  return command('remove', 'Takes a member out of your room; or lets an agent of yours leave one')
    .argument('<room>')
    .argument('<member>', 'its address, or its did:key')
    .action(async (room: string, member: string, options: JsonOption) => {
      const { login } = await openSession();
      const who = member.startsWith('did:') ? member : ownAddress(login, member);
      const done = await call(room, 'DELETE', `/${encodeURIComponent(who)}`);
      print(options, done, `${who} is out`);
    });
}

async function call<T>(room: string, method: 'GET' | 'POST' | 'DELETE', path: string, body?: object): Promise<T> {
  const { login } = await openSession();
  return callOwnerApi<T>(method, `/rooms/${ownAddress(login, room)}/members${path}`, body);
}
