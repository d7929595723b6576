import { Command } from 'commander';
import { CliError } from './errors.ts';
import { openSession, type Session, seatOfLogin } from './home.ts';
import { type Me, seatIn } from './login.ts';
import { command, type JsonOption, print, table } from './output.ts';

interface OrgOption extends JsonOption {
  org?: string;
}

/** `gatehouse org …` */
export function orgCommand(): Command {
  return new Command('org')
    .description('Organisations: making, inviting, joining, usage')
    .addCommand(
      command('create', 'Makes an org; you are its admin, in the team general')
        .argument('<handle>')
        .requiredOption('--me <handle>', 'who you are in it')
        .action(async (handle: string, options: JsonOption & { me: string }) => {
          const session = await openSession();
          const made = await session.client.call('POST', '/orgs', { handle, me: options.me });
          await sit(session, handle);
          print(options, made, `${handle} is made; you are ${handle}/${options.me}, its admin`);
        }),
    )
    .addCommand(
      command('invite', 'Invites somebody by e-mail; prints the one-time code')
        .argument('<email>')
        .option('--team <handle>', 'into which team', 'general')
        .option('--org <handle>', 'into which of your orgs')
        .action(async (email: string, options: OrgOption & { team: string }) => {
          const { client, login } = await openSession();
          const org = options.org ?? seatOfLogin(login).org;
          const made = await client.call<{ code: string }>('POST', `${at(org)}/invites`, { email, team: options.team });
          print(options, made, [
            `code  ${made.code}   (for ${email}, once)`,
            `They run: gatehouse login ${login.url} ${made.code} && gatehouse org join ${org} --me <handle>`,
          ]);
        }),
    )
    .addCommand(
      command('join', 'Enters an org that you were invited to')
        .argument('<org>')
        .requiredOption('--me <handle>', 'who you are in it')
        .option('--code <code>', 'when the invitation went to another address')
        .action(async (org: string, options: JsonOption & { me: string; code?: string }) => {
          const session = await openSession();
          const body = { me: options.me, ...(options.code !== undefined && { code: options.code }) };
          const joined = await session.client.call('POST', `${at(org)}/join`, body);
          await sit(session, org);
          print(options, joined, `you are ${org}/${options.me}`);
        }),
    )
    .addCommand(
      command('usage', 'What an org uses of its plan')
        .argument('[org]')
        .action(async (org: string | undefined, options: JsonOption) => {
          const { client, login } = await openSession();
          const found = await client.call('GET', `${at(org ?? seatOfLogin(login).org)}/usage`);
          print(options, found, usageLines(found));
        }),
    );
}

/** `gatehouse team …` */
export function teamCommand(): Command {
  return new Command('team')
    .description('Teams of an org')
    .addCommand(
      command('create', 'Makes a team')
        .argument('<handle>')
        .option('--org <handle>', 'in which of your orgs')
        .action(async (handle: string, options: OrgOption) => {
          const { client, login } = await openSession();
          const org = options.org ?? seatOfLogin(login).org;
          const made = await client.call('POST', `${at(org)}/teams`, { handle });
          print(options, made, `${org}/${handle} is made. Next: gatehouse team add ${handle} <who>`);
        }),
    )
    .addCommand(
      command('add', 'Puts somebody of the org into a team')
        .argument('<team>')
        .argument('<who>', 'their handle')
        .option('--org <handle>', 'in which of your orgs')
        .action(async (team: string, who: string, options: OrgOption) => {
          const { client, login } = await openSession();
          const org = options.org ?? seatOfLogin(login).org;
          const done = await client.call('POST', `${at(org)}/teams/${encodeURIComponent(team)}/members`, { who });
          print(options, done, `${who} is in ${org}/${team}`);
        }),
    );
}

export function at(org: string): string {
  return `/orgs/${encodeURIComponent(org)}`;
}

/** The first org is where short names are read from then on. */
async function sit({ home, login, client }: Session, org: string): Promise<void> {
  if (login.seat) return;
  const seat = seatIn((await client.me()) as unknown as Me, { org });
  if (!seat) throw new CliError(`you are not in ${org} yet`);
  await home.save({ ...login, seat });
}

function usageLines(found: Record<string, unknown>): string[] {
  const rows = Object.entries(found).map(([name, value]) => {
    if (typeof value !== 'object' || value === null) return [name, String(value)];
    const { used, limit } = value as { used?: number; limit?: number | null };
    return [name, `${used ?? ''}`, limit === null ? 'no limit' : `of ${limit}`];
  });
  return table(rows.map(([name = '', used = '', limit = '']) => [name, used, limit]));
}
