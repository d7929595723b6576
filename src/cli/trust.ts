import { Command, Option } from 'commander';
import { usage } from './errors.ts';
import { openSession, ownAddress } from './home.ts';
import { command, type JsonOption, print, printable, secondsOf, table, wholeNumber } from './output.ts';
import { callOwnerApi } from './owner-api.ts';

/** `gatehouse trust …`: what you decide about agents that have a did:key and no domain (muretai.md). */
export function trustCommand(): Command {
  return new Command('trust')
    .description('Agents with a did:key: introductions, invitations, connect requests')
    .addCommand(showCommand())
    .addCommand(setCommand())
    .addCommand(introduceCommand())
    .addCommand(introductionsCommand())
    .addCommand(revokeCommand())
    .addCommand(inviteCommand())
    .addCommand(invitesCommand())
    .addCommand(uninviteCommand())
    .addCommand(connectCommand())
    .addCommand(acceptCommand())
    .addCommand(peerCommand());
}

interface Settings {
  did?: string;
  connect: string;
  privacy: string;
  asked?: Array<{ did: string; state: string; problem: string | null }>;
}

function showCommand(): Command {
  return of('show', "An agent's did:key, what it lets strangers do, and whom it asked").action(
    async (name: string, options: JsonOption) => {
      const found = await call<Settings>(name, 'GET', '');
      print(options, found, [
        `did      ${found.did}`,
        `connect  ${found.connect}   (who may ask to connect: filtered waits for you, open, closed)`,
        `privacy  ${found.privacy}   (who may ask how third parties stand: self is nobody, trusted, public)`,
        ...(found.asked ?? []).map(
          ({ did, state, problem }) => `asked    ${did}  ${state}${problem ? `: ${problem}` : ''}`,
        ),
      ]);
    },
  );
}

function setCommand(): Command {
  return of('set', 'Changes that')
    .addOption(new Option('--connect <policy>').choices(['filtered', 'open', 'closed']))
    .addOption(new Option('--privacy <who>').choices(['self', 'trusted', 'public']))
    .action(async (name: string, options: JsonOption & { connect?: string; privacy?: string }) => {
      const { connect, privacy } = options;
      if (connect === undefined && privacy === undefined) throw usage('say --connect or --privacy');
      const now = await call<Settings>(name, 'PUT', '', { ...(connect && { connect }), ...(privacy && { privacy }) });
      print(options, now, `connect ${now.connect}, privacy ${now.privacy}`);
    });
}

interface IntroduceOptions extends JsonOption {
  subject: string;
  to: string;
  expertise?: string[];
  level?: number;
  validFor?: number;
}

function introduceCommand(): Command {
  return of('introduce', 'Introduces one did:key to another, signed by your agent; prints the credential')
    .requiredOption('--subject <did>', 'who is introduced')
    .requiredOption('--to <did>', 'to whom')
    .option('--expertise <topic...>', 'what the introduced one knows')
    .option(
      '--level <0-1000>',
      'how far you trust it; without it, as far as it stands with the agent',
      wholeNumber('--level', 0),
    )
    .option('--valid-for <time>', '90s, 15m, 12h or 30d. Default: 90d', secondsOf('--valid-for'))
    .action(async (name: string, options: IntroduceOptions) => {
      const { subject, to, expertise, level, validFor } = options;
      const made = await call<{ credential: object }>(name, 'POST', '/introductions', {
        subject,
        to,
        ...(expertise && { expertise }),
        ...(level !== undefined && { level }),
        ...(validFor !== undefined && { valid_for: validFor }),
      });
      print(options, made, JSON.stringify(made.credential));
    });
}

interface Introductions {
  issued: Array<{ id: string; subject: string; to: string; valid_until: string; revoked_at: string | null }>;
  held: Array<{
    id: string;
    issuer: string;
    subject: string;
    level: number;
    valid_until: string;
    checked_at: string | null;
  }>;
}

function introductionsCommand(): Command {
  return of('introductions', 'Those that your agent issued, and those by which others reach it').action(
    async (name: string, options: JsonOption) => {
      const found = await call<Introductions>(name, 'GET', '/introductions');
      const issued = found.issued.map((row) => {
        const state = row.revoked_at === null ? `until ${row.valid_until}` : `revoked ${row.revoked_at}`;
        return ['issued', row.id, `${row.subject} to ${row.to}`, state];
      });
      const held = found.held.map((row) => {
        const state = row.checked_at === null ? 'its issuer could not be asked' : `checked ${row.checked_at}`;
        return ['held', row.id, `${row.subject} by ${row.issuer}`, `until ${row.valid_until}, ${state}`];
      });
      const rows = [...issued, ...held];
      print(options, found, rows.length > 0 ? table(rows) : 'none yet');
    },
  );
}

function revokeCommand(): Command {
  return of('revoke', 'Takes back an introduction that your agent issued, or stops going by one that was shown to it')
    .argument('<id>', 'urn:uuid:…')
    .option('--issuer <did>', 'of one that was shown to it')
    .action(async (name: string, id: string, options: JsonOption & { issuer?: string }) => {
      const query = options.issuer === undefined ? '' : `?issuer=${encodeURIComponent(options.issuer)}`;
      const done = await call(name, 'DELETE', `/introductions/${encodeURIComponent(id)}${query}`);
      print(options, done, `${id} no longer holds`);
    });
}

function inviteCommand(): Command {
  return of('invite', 'Makes an invitation: whoever takes it up first and your agent trust each other')
    .option('--purpose <text>', 'what it is for')
    .option('--valid-for <time>', '90s, 15m, 12h or 30d. Default: 7d', secondsOf('--valid-for'))
    .action(async (name: string, options: JsonOption & { purpose?: string; validFor?: number }) => {
      const { purpose, validFor } = options;
      const made = await call<{ id: string; link: string; expires_at: string }>(name, 'POST', '/invites', {
        ...(purpose !== undefined && { purpose }),
        ...(validFor !== undefined && { valid_for: validFor }),
      });
      print(options, made, [made.link, `(shown this once, good once, until ${made.expires_at}; its id is ${made.id})`]);
    });
}

interface Invite {
  id: string;
  purpose: string;
  expires_at: string;
  taken_by: string | null;
  revoked_at: string | null;
}

function invitesCommand(): Command {
  return of('invites', 'Invitations, and who took them up').action(async (name: string, options: JsonOption) => {
    const { invites } = await call<{ invites: Invite[] }>(name, 'GET', '/invites');
    const rows = invites.map(({ id, purpose, expires_at, taken_by, revoked_at }) => {
      const state = taken_by ? `taken by ${taken_by}` : revoked_at ? `revoked ${revoked_at}` : `until ${expires_at}`;
      return [id, printable(purpose), state];
    });
    print(options, { invites }, rows.length > 0 ? table(rows) : 'none yet');
  });
}

function uninviteCommand(): Command {
  return of('uninvite', 'Ends an invitation that nobody took up')
    .argument('<id>')
    .action(async (name: string, id: string, options: JsonOption) => {
      const done = await call(name, 'DELETE', `/invites/${encodeURIComponent(id)}`);
      print(options, done, `${id} is worth nothing now`);
    });
}

function connectCommand(): Command {
  return of('connect', 'Asks another agent to connect: once it says yes, it may reach you')
    .argument('<did>', 'its did:key')
    .argument('<url>', 'where its card says that it is called')
    .option('--note <text>', 'what its owner is told', '')
    .action(async (name: string, did: string, url: string, options: JsonOption & { note: string }) => {
      const asked = await call(name, 'POST', '/connect', { did, url, note: options.note });
      print(options, asked, `${did} is asked; gatehouse trust show ${name} tells what became of it`);
    });
}

function acceptCommand(): Command {
  return of('accept', 'Takes up an invitation of another agent')
    .argument('<link>', 'agent://invite?d=…, or the card as JSON')
    .action(async (name: string, link: string, options: JsonOption) => {
      const asked = await call<{ did: string }>(name, 'POST', '/connect', { invite: link });
      print(options, asked, `${asked.did} is told; gatehouse trust show ${name} tells what became of it`);
    });
}

function peerCommand(): Command {
  return of('peer', 'Says how far you trust a did:key, and for what it may be named when somebody asks for an expert')
    .argument('<did>')
    .option('--level <0-1000>', 'how far', wholeNumber('--level', 0))
    .option('--expertise <topic...>', 'what it knows')
    .action(async (name: string, did: string, options: JsonOption & { level?: number; expertise?: string[] }) => {
      const { level, expertise } = options;
      const known = await call<{ level: number; expertise: string[] }>(
        name,
        'PUT',
        `/peers/${encodeURIComponent(did)}`,
        {
          ...(level !== undefined && { level }),
          ...(expertise && { expertise }),
        },
      );
      print(options, known, `level ${known.level}; ${known.expertise.join(', ') || 'named in no referral'}`);
    });
}

function of(name: string, about: string): Command {
  return command(name, about).argument('<agent>', 'which of your agents: name, team/user/name …');
}

async function call<T>(
  name: string,
  method: 'GET' | 'POST' | 'PUT' | 'DELETE',
  path: string,
  body?: object,
): Promise<T> {
  const { login } = await openSession();
  return callOwnerApi<T>(method, `/trust/${ownAddress(login, name)}${path}`, body);
}
