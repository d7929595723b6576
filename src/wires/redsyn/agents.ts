import { z } from 'zod';
import { type Audience, agentPath, isPublic } from '../../directory/entries.ts';
import type { Registry } from '../../directory/index.ts';
import type { Agent, DirectoryEntry, NodeIdentity } from '../../directory/types.ts';
import { exposes } from '../../federation/exposure.ts';
import type { Federation, Link, RemoteAgent, RemoteDirectory } from '../../federation/types.ts';
import { redsynFingerprint } from '../../identity/redsyn-seal.ts';
import type { Route } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { addressOf, type CallDeps, call, flag, json } from './common.ts';

export interface AgentsDeps extends CallDeps {
  registry: Pick<Registry, 'people' | 'lookups' | 'agents' | 'entries' | 'nodes' | 'keyring'>;
  federation: Pick<Federation, 'link' | 'linksOf'>;
  remote: RemoteDirectory;
}

const flagField = z.boolean().nullish();
const announcement = z.object({
  description: z.string().max(2_000).nullish(),
  adapter: z.string().max(200).nullish(),
  listening: flagField,
  allow: z.array(z.string().max(300)).max(200).nullish(),
  trust: z.enum(['none', 'full']).nullish(),
  signed_only: flagField,
  encrypted_only: flagField,
  default: z.literal(true).nullish(),
  listed: flagField,
  front_desk: flagField,
  profile: z.record(z.string(), z.unknown()).nullish(),
  room: z.record(z.string(), z.unknown()).nullish(),
});

const path = '/redsyn/v1/agents/{org}/{team}/{user}/{agent}';

/** REDSYN "Agentes y presencia", and the key of "Cifrado de extremo a extremo". */
export function agentRoutes(deps: AgentsDeps): Route[] {
  const { agents, entries, nodes } = deps.registry;
  return [
    {
      method: 'PUT',
      path,
      about: 'Announces one of your agents; the first time makes it',
      handler: call(deps, announcement, async ({ node, params, body }) => {
        const address = addressOf(params);
        if (address instanceof Refusal) return address;
        const done = await agents.announce(node, address, toAnnouncement(body));
        if (done instanceof Refusal) return done;
        const [entry] = await entries.of([done.agent], insider(node), { sessions: false });
        return json(done.created ? 201 : 200, { ...entry, default: done.agent.isDefault, profile: done.agent.profile });
      }),
    },
    {
      method: 'GET',
      path,
      about: 'One agent',
      handler: call(deps, async ({ node, params }) => {
        const seen = await find(deps, node, params);
        if (seen instanceof Refusal) return seen;
        if ('remote' in seen) {
          const agent = await deps.remote.agent(seen.remote, seen.path);
          return agent instanceof Refusal ? fromFar(agent) : json(200, remoteEntry(agent));
        }
        const [entry] = await entries.of([seen.agent], seen.audience, { sessions: true });
        return json(200, entry);
      }),
    },
    {
      method: 'GET',
      path: `${path}/key`,
      about: 'The keys of the node that listened last for an agent, to seal a message for it',
      handler: call(deps, async ({ node, params }) => {
        const seen = await find(deps, node, params);
        if (seen instanceof Refusal) return seen;
        if ('remote' in seen) {
          const member = node.members.find(({ orgId }) => orgId === seen.remote.orgId);
          const by = member ? deps.registry.keyring.owner(member).did : null;
          const key = await deps.remote.key(seen.remote, seen.path, by);
          return key instanceof Refusal ? fromFar(key) : json(200, key);
        }
        const key = await nodes.keyOfListener(
          seen.agent.id,
          node.members.map((member) => `m:${member.id}`),
        );
        if (!key)
          return seen.audience.outsider ? refuse('address_not_found') : refuse('not_found', 'That agent has no key.');
        return json(200, {
          node: key.node,
          signing_key: key.signingKey,
          enc_key: key.encKey,
          enc_sig: key.encSig,
          fingerprint: redsynFingerprint(key.signingKey),
        });
      }),
    },
    {
      method: 'GET',
      path: '/redsyn/v1/directory',
      about: 'The agents that you reach: those of your orgs and what linked orgs expose',
      handler: call(deps, async ({ node, query }) => {
        const all = await reachable(deps, node, { sessions: flag(query, 'sessions') });
        return json(200, { agents: flag(query, 'online') ? all.filter((entry) => entry.online) : all });
      }),
    },
  ];
}

function toAnnouncement(body: z.infer<typeof announcement>) {
  const trust = body.trust ?? 'none';
  const profile = body.room ? { ...body.profile, room: body.room } : body.profile;
  return {
    listening: body.listening === true,
    policy: {
      allow: [...new Set(body.allow ?? [])],
      trust,
      // Full trust takes only signed requests (REDSYN "Agentes y presencia").
      signedOnly: trust === 'full' || body.signed_only === true,
      encryptedOnly: body.encrypted_only === true,
    },
    ...(body.description != null && { description: body.description }),
    ...(body.adapter != null && { adapter: body.adapter }),
    ...(profile != null && { profile }),
    ...(body.default === true && { isDefault: true }),
    ...(body.listed != null && { isListed: body.listed }),
    ...(body.front_desk != null && { isFrontDesk: body.front_desk }),
  };
}

/** One form of 404, whichever gateway it comes from. */
function fromFar(refusal: Refusal): Refusal {
  return refusal.status === 404 ? refuse('address_not_found') : refusal;
}

type Seen = { agent: Agent; audience: Audience } | { remote: Link; path: string };

/** An agent that the caller may see. To outsiders hidden and missing are the same (FED-06); her own org is told what is wrong. */
async function find(
  { registry, federation }: AgentsDeps,
  node: NodeIdentity,
  params: Readonly<Record<string, string>>,
): Promise<Seen | Refusal> {
  const { people, lookups } = registry;
  const address = addressOf(params);
  if (address instanceof Refusal) return address;
  const [org, agent] = await Promise.all([lookups.org(address.org), lookups.agentAt(address)]);
  if (org && !(people.memberOf(node, org.handle) instanceof Refusal)) {
    const path = `${address.team}/${address.user}/${address.agent}`;
    return agent
      ? { agent, audience: insider(node) }
      : refuse('address_not_found', `There is no agent ${path} in ${org.handle}.`);
  }
  if (!org) {
    const links = await Promise.all(node.members.map((member) => federation.link(member.orgId, address.org)));
    const remote = links.find((link) => link?.state === 'active' && link.peerDomain !== null);
    if (!remote) return refuse('address_not_found');
    return { remote, path: `${address.team}/${address.user}/${address.agent}` };
  }
  const links = await Promise.all(node.members.map((member) => federation.link(org.id, member.org)));
  const open = links.filter((link) => link?.state === 'active' && link.peerDomain === null);
  const exposed = agent && open.some((link) => exposes(link!.ours, agentPath(agent)));
  if (!agent || !(exposed || isPublic(agent))) return refuse('address_not_found');
  return { agent, audience: { ...insider(node), outsider: node.members.map((member) => member.org) } };
}

/** Own orgs first, then the linked ones of this instance, then those of others; each agent once. */
async function reachable(
  { registry, federation, remote }: AgentsDeps,
  node: NodeIdentity,
  options: { sessions: boolean },
): Promise<DirectoryEntry[]> {
  const { entries } = registry;
  const found = new Map<string, DirectoryEntry>();
  const add = async (agents: Agent[], audience: Audience): Promise<void> => {
    const fresh = agents.filter((agent) => !found.has(agent.address));
    for (const entry of await entries.of(fresh, audience, options)) found.set(entry.address, entry);
  };
  for (const { orgId } of node.members) await add(await entries.everyAgentOfOrg(orgId), insider(node));
  for (const member of node.members) {
    for (const mine of await federation.linksOf(member.orgId)) {
      if (mine.state !== 'active' || mine.peerOrgId === null) continue;
      const theirs = await federation.link(mine.peerOrgId, member.org);
      if (theirs?.state !== 'active') continue;
      const agents = await entries.everyAgentOfOrg(mine.peerOrgId);
      const exposed = agents.filter((agent) => exposes(theirs.ours, agentPath(agent)));
      await add(exposed, { ...insider(node), outsider: [member.org] });
    }
  }
  const elsewhere = await Promise.all(node.members.map((member) => remote.agents(member.orgId)));
  for (const agent of elsewhere.flat()) {
    if (!found.has(agent.address)) found.set(agent.address, remoteEntry(agent));
  }
  return [...found.values()];
}

function insider(node: NodeIdentity): Audience {
  return { outsider: null, viewers: node.members.map((member) => `m:${member.id}`) };
}

function remoteEntry({ linkId: _link, ...entry }: RemoteAgent): DirectoryEntry {
  return entry;
}
