import { hostname } from 'node:os';
import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import { Client, login, type Seat } from '../client/index.ts';
import { CliError, usage } from './errors.ts';
import { Home, type Login, openSession } from './home.ts';
import { command, type JsonOption, print, table } from './output.ts';

export interface Me {
  person: { id: string; email: string | null; operator: boolean };
  node: { id: string; name: string; public_key: string | null };
  orgs: Array<{ org: string; me: string; role: string; teams: string[]; agents: string[]; did: string }>;
  invites: Array<{ org: string; team: string; expires_at: number }>;
}

interface LoginOptions extends JsonOption {
  token?: string;
  node?: string;
  org?: string;
  team?: string;
}

export function loginCommand(): Command {
  return command('login', 'Makes this machine a node of yours: redeems the code of an invitation, or takes a token')
    .argument('<url>', 'of your own gateway')
    .argument('[code]', 'from your invitation; `-` reads it from stdin')
    .option('--token <token>', 'an existing ghn_… token instead of a code; `-` reads it from stdin')
    .option('--node <name>', 'what this machine is called', hostname())
    .option('--org <handle>', 'the org that short names are read in, when you are in several')
    .option('--team <handle>', 'the team that short names are read in')
    .action(logIn);
}

export function meCommand(): Command {
  return command('me', 'Who you are: orgs, teams, agents, invitations').action(async (options: JsonOption) => {
    const { client, login: at } = await openSession();
    const me = (await client.me()) as unknown as Me;
    print(options, { ...me, url: at.url, seat: at.seat, fingerprint: client.keys?.fingerprint }, [
      `${me.person.email ?? me.person.id} on ${me.node.name}, at ${at.url}`,
      `key  ${client.keys?.fingerprint}`,
      ...me.orgs.flatMap(({ org, me: handle, role, teams, agents }) => [
        `${org}/${handle} (${role}), teams ${teams.join(', ') || 'none'}`,
        ...agents.map((agent) => `  ${agent}`),
      ]),
      ...me.invites.map(({ org }) => `invited to ${org}: gatehouse org join ${org} --me <you>`),
    ]);
  });
}

async function logIn(url: string, code: string | undefined, options: LoginOptions): Promise<void> {
  if ((code === undefined) === (options.token === undefined)) {
    throw usage('say one of the two: the code of an invitation, or --token');
  }
  const home = await new Home().ready();
  const base = readUrl(url);
  const name = options.node ?? hostname();
  const token =
    options.token !== undefined ? await given(options.token) : (await login(base, await given(code ?? ''), name)).token;
  const keys = await home.keys();
  const client = new Client({ url: base, token, keys, pins: home.pins });
  const me = (await client.me()) as unknown as Me;
  const done: Login = {
    url: base,
    token,
    node: me.node.name,
    seat: seatIn(me, options),
    registered: null,
    announced: [],
  };
  // The code is spent: what it gave is kept, whatever comes next.
  await home.save(done);
  await client.registerKeys();
  done.registered = keys.registration().public_key;
  await home.save(done);
  print(options, { url: base, node: done.node, seat: done.seat, fingerprint: keys.fingerprint, invites: me.invites }, [
    `Logged in at ${base} as node ${done.node}.`,
    `This machine's key: ${keys.fingerprint}`,
    ...(done.seat
      ? [`Short names are read in ${done.seat.org}/${done.seat.team}/${done.seat.user}.`]
      : me.invites.length > 0
        ? me.invites.map(({ org }) => `Next: gatehouse org join ${org} --me <you>`)
        : ['Next: gatehouse org create <handle> --me <you>']),
  ]);
}

/** The place of one's own in the chosen org, or the first. */
export function seatIn(me: Me, wanted: { org?: string; team?: string } = {}): Seat | null {
  const found = wanted.org === undefined ? me.orgs[0] : me.orgs.find(({ org }) => org === wanted.org);
  if (!found && wanted.org !== undefined) {
    throw new CliError(`you are not in ${wanted.org}`, { next: `gatehouse org join ${wanted.org} --me <you>` });
  }
  if (!found) return null;
  const team = wanted.team ?? (found.teams.includes('general') ? 'general' : found.teams[0]);
  if (team === undefined || !found.teams.includes(team)) {
    throw new CliError(`you are not in team ${team ?? '(none)'} of ${found.org}`, {
      next: `your teams: ${table(found.teams.map((each) => [each])).join(', ')}`,
    });
  }
  return { org: found.org, team, user: found.me };
}

async function given(value: string): Promise<string> {
  return (value === '-' ? await text(process.stdin) : value).trim();
}

function readUrl(value: string): string {
  try {
    const { protocol, href } = new URL(value);
    if (protocol === 'https:' || protocol === 'http:') return href.replace(/\/+$/, '');
  } catch {
    // said below
  }
  throw usage(`${value} is no URL of a gateway`, 'write it whole: https://acme.com');
}
