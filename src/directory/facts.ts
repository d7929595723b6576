import { ownerDid } from './dids.ts';
import { isPublic } from './entries.ts';
import type { Keyring, PublishedKey } from './keyring.ts';
import type { Lookups } from './lookups.ts';
import { namesAuthority } from './names.ts';
import type { Agent, Member } from './types.ts';

/** What a DID document says, as `wellknown/did.ts` needs it. */
export interface DidFacts {
  did: string;
  /** Oldest first. Under an alias they keep the ids of the holder whose keys they are. */
  methods: PublishedKey[];
  alsoKnownAs: string[];
  /** Who holds the keys: the DID itself, but the owner's for the alias `…:agent`. */
  controller: string;
  /** Where the holder can be written to: null for the instance and for an owner without agents. */
  agent: Agent | null;
  /** The instance names it to strangers. The document of an agent that is not public tells that it exists (FED-06). */
  isPublic: boolean;
}

/** Facts of the documents of design §3. `org`: null for the primary org. Null: there is no such holder here. */
export class Facts {
  readonly #keyring: Keyring;
  readonly #lookups: Lookups;
  readonly #authority: string;

  constructor(deps: { keyring: Keyring; lookups: Lookups; authority: string }) {
    this.#keyring = deps.keyring;
    this.#lookups = deps.lookups;
    this.#authority = deps.authority;
  }

  async instance(): Promise<DidFacts> {
    const holder = this.#keyring.instance();
    const methods = await this.#keyring.published(holder);
    return { did: holder.did, methods, alsoKnownAs: [], controller: holder.did, agent: null, isPublic: true };
  }

  async owner(org: string | null, user: string): Promise<DidFacts | null> {
    const member = await this.ownerByPath(org, user);
    if (!member) return null;
    const holder = this.#keyring.owner(member);
    const [methods, didKey, agent] = await Promise.all([
      this.#keyring.published(holder),
      this.#keyring.didKey(holder),
      this.#lookups.defaultAgent(member.id),
    ]);
    return { did: holder.did, methods, alsoKnownAs: [didKey], controller: holder.did, agent, isPublic: true };
  }

  /** The alias `…:agent` of an owner's default agent: the owner's keys. */
  async defaultAgent(org: string | null, user: string): Promise<DidFacts | null> {
    const owner = await this.owner(org, user);
    if (!owner?.agent) return null;
    const did = `${ownerDid(this.#authority, { org, user })}:agent`;
    const alsoKnownAs = [owner.did, this.#keyring.agent(owner.agent).did];
    return { ...owner, did, alsoKnownAs, isPublic: isPublic(owner.agent) };
  }

  async agent(org: string | null, path: { user: string; team: string; agent: string }): Promise<DidFacts | null> {
    const agent = await this.agentByPath(org, path);
    if (!agent) return null;
    const holder = this.#keyring.agent(agent);
    const [methods, didKey] = await Promise.all([this.#keyring.published(holder), this.#keyring.didKey(holder)]);
    return {
      did: holder.did,
      methods,
      alsoKnownAs: [didKey],
      controller: holder.did,
      agent,
      isPublic: isPublic(agent),
    };
  }

  async ownerByPath(org: string | null, user: string): Promise<Member | null> {
    const at = this.#segment(org);
    const id = at === null ? null : await this.#lookups.memberAt(at, user);
    const member = id === null ? null : await this.#lookups.member(id);
    return member && member.orgIsPrimary === (org === null) ? member : null;
  }

  async agentByPath(org: string | null, path: { user: string; team: string; agent: string }): Promise<Agent | null> {
    const at = this.#segment(org);
    const agent = at === null ? null : await this.#lookups.agentAt({ org: at, ...path, session: null });
    return agent && agent.orgIsPrimary === (org === null) ? agent : null;
  }

  /** The primary org has one spelling in a DID: it is left out. */
  #segment(org: string | null): string | null {
    if (org === null) return this.#authority;
    return namesAuthority(org, this.#authority) ? null : org;
  }
}
