import { readDid } from '../directory/dids.ts';
import { type Audience, agentPath, type Entries } from '../directory/entries.ts';
import { handleOfAuthority } from '../directory/names.ts';
import type { Agent, Directory, DirectoryEntry } from '../directory/types.ts';
import { type Refusal, refuse } from '../lib/refusal.ts';
import { exposes } from './exposure.ts';
import type { AgentKey, ExposedDirectory, Link, Outcome } from './types.ts';

export interface ExposedDeps {
  /** The active link of the local org `org` to the org that calls itself `for` behind `domain`. */
  activeLink(domain: string, q: { org: string; for: string }): Promise<{ link: Link; org: string } | null>;
  entries: Pick<Entries, 'of' | 'everyAgentOfOrg'>;
  lookups: Pick<Directory, 'agentAt'>;
  /** `reader`: whom it is told, as `sealedFor` of the directory knows her; null for nobody in particular. */
  key(agentId: string, reader: string | null): Promise<AgentKey | null>;
}

/** Bytes of entries in one answer: a peer takes 256 KiB of a directory (design §6). */
const maxBytes = 240 * 1024;

/** What linked gateways may see of our agents. */
export class Exposed implements ExposedDirectory {
  readonly #deps: ExposedDeps;

  constructor(deps: ExposedDeps) {
    this.#deps = deps;
  }

  async list(domain: string, q: { org: string; for: string }): ReturnType<ExposedDirectory['list']> {
    const found = await this.#deps.activeLink(domain, q);
    if (!found) return unseen();
    const all = await this.#deps.entries.everyAgentOfOrg(found.link.orgId);
    const agents = all.filter((agent) => exposes(found.link.ours, agentPath(agent)));
    const entries = await this.#deps.entries.of(agents, audienceOf(found.link), { sessions: false });
    let size = 0;
    const fit = entries.filter((entry) => {
      size += Buffer.byteLength(JSON.stringify(entry)) + 1;
      return size <= maxBytes;
    });
    return { agents: fit, truncated: fit.length < entries.length };
  }

  async agent(domain: string, q: { org: string; for: string }, path: string): Promise<Outcome<DirectoryEntry>> {
    const found = await this.#find(domain, q, path);
    if (!found) return unseen();
    const [entry] = await this.#deps.entries.of([found.agent], audienceOf(found.link), { sessions: false });
    return entry ?? unseen();
  }

  async key(
    domain: string,
    q: { org: string; for: string; by: string | null },
    path: string,
  ): Promise<Outcome<AgentKey>> {
    const found = await this.#find(domain, q, path);
    const by = q.by === null || q.by.length > 600 ? null : readDid(q.by);
    const reader = by?.kind === 'owner' && by.authority === domain ? `d:${q.by}` : null;
    return (found && (await this.#deps.key(found.agent.id, reader))) ?? unseen();
  }

  async #find(
    domain: string,
    q: { org: string; for: string },
    path: string,
  ): Promise<{ agent: Agent; link: Link } | null> {
    const found = await this.#deps.activeLink(domain, q);
    if (!found || !exposes(found.link.ours, path)) return null;
    const [team = '', user = '', agent = ''] = path.split('/');
    const known = await this.#deps.lookups.agentAt({ org: found.org, team, user, agent, session: null });
    return known && { agent: known, link: found.link };
  }
}

/** The names that the peer goes by in an agent's `allow`. */
function audienceOf({ peerHandle, peerDomain }: Link): Audience {
  const domain = peerDomain ?? '';
  return { outsider: [...new Set([peerHandle, domain, handleOfAuthority(domain)])], viewers: [] };
}

function unseen(): Refusal {
  return refuse('not_found');
}
