import { Command, Option } from 'commander';
import type { Client } from '../client/index.ts';
import { usage } from './errors.ts';
import { openSession, seatOfLogin } from './home.ts';
import { at } from './org.ts';
import { command, type JsonOption, print } from './output.ts';

interface LinkOptions extends JsonOption {
  org?: string;
}

interface Exposure {
  kind: string;
  pattern: string;
}

interface Link {
  org?: string;
  other: string;
  domain: string | null;
  state: string;
  exposes: Exposure[];
  exposed: Exposure[];
  rules: { signed_only: boolean; ips: string | string[] };
}

/** `gatehouse link …`: REDSYN "Organizaciones y enlaces". */
export function linkCommand(): Command {
  return new Command('link')
    .description('Links to other companies: nothing passes without one, and nothing is exposed by default')
    .addCommand(change('propose', 'Proposes a link', propose))
    .addCommand(change('accept', 'Accepts the link that the other side proposed', propose))
    .addCommand(expose('expose', 'Exposes an agent or a topic to the other side', true))
    .addCommand(expose('unexpose', 'Takes that back', false))
    .addCommand(rulesCommand())
    .addCommand(
      change('revoke', 'Ends the link', (client, org, other) =>
        client.call('POST', `${at(org)}/links/${encodeURIComponent(other)}/revoke`, {}),
      ),
    )
    .addCommand(
      command('ls', 'Your links: state, what each side exposes, rules').action(async (options: JsonOption) => {
        const { client } = await openSession();
        const { links } = await client.call<{ links: Link[] }>('GET', '/links');
        const none = 'none yet: gatehouse link propose <domain>';
        print(options, { links }, links.length > 0 ? links.flatMap(lines) : none);
      }),
    );
}

function propose(client: Client, org: string, other: string): Promise<Link> {
  return client.call('POST', `${at(org)}/links`, { other });
}

function change(
  name: string,
  about: string,
  act: (client: Client, org: string, other: string) => Promise<Link>,
): Command {
  return command(name, about)
    .argument('<other>', 'the domain of the other gateway, or the handle of the other org')
    .option('--org <handle>', 'for which of your orgs')
    .action(async (other: string, options: LinkOptions) => {
      const { client, login } = await openSession();
      const link = await act(client, options.org ?? seatOfLogin(login).org, other);
      print(options, link, lines(link));
    });
}

function expose(name: string, about: string, on: boolean): Command {
  return command(name, about)
    .argument('<other>')
    .argument('<pattern>', 'team/user/agent, team/user/*, team/* or *; of a topic: team/name, team/* or *')
    .addOption(
      new Option('--kind <kind>', 'agent; pub: they may publish to the topic; sub: they may listen to it')
        .choices(['agent', 'pub', 'sub'])
        .default('agent'),
    )
    .option('--org <handle>', 'for which of your orgs')
    .action(async (other: string, pattern: string, options: LinkOptions & { kind: string }) => {
      const { client, login } = await openSession();
      const path = `${at(options.org ?? seatOfLogin(login).org)}/links/${encodeURIComponent(other)}/expose`;
      const link = await client.call<Link>('PUT', path, { kind: options.kind, pattern, on });
      print(options, link, lines(link));
    });
}

function rulesCommand(): Command {
  return command('rules', 'What may come in from the other side')
    .argument('<other>')
    .option('--signed-only', 'only signed messages, as it is by default')
    .option('--no-signed-only', 'also messages that nobody signed')
    .option('--ips <list>', 'only from these addresses or CIDRs, with commas; empty: from any')
    .option('--org <handle>', 'for which of your orgs')
    .action(async (other: string, options: LinkOptions & { signedOnly?: boolean; ips?: string }) => {
      const { signedOnly, ips } = options;
      if (signedOnly === undefined && ips === undefined) throw usage('say --signed-only, --no-signed-only or --ips');
      const { client, login } = await openSession();
      const path = `${at(options.org ?? seatOfLogin(login).org)}/links/${encodeURIComponent(other)}/rules`;
      const link = await client.call<Link>('PUT', path, {
        ...(signedOnly !== undefined && { signed_only: signedOnly }),
        ...(ips !== undefined && { ips }),
      });
      print(options, link, lines(link));
    });
}

function lines({ other, domain, state, exposes, exposed, rules }: Link): string[] {
  const list = (side: Exposure[]): string =>
    side.map(({ kind, pattern }) => `${kind} ${pattern}`).join(', ') || 'nothing';
  const ips = [rules?.ips ?? []].flat().filter((each) => each !== '');
  return [
    `${other}${domain ? ` (${domain})` : ''}: ${state}`,
    `  you expose   ${list(exposes)}`,
    `  they expose  ${list(exposed)}`,
    `  let in       ${rules?.signed_only ? 'signed messages' : 'any message'}${ips.length > 0 ? ` from ${ips.join(', ')}` : ''}`,
  ];
}
