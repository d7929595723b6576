import type { Refusal } from '../lib/refusal.ts';

export interface Exposure {
  kind: 'agent' | 'pub' | 'sub';
  /** `agent`: `team/user/agent`, `team/user/*`, `team/*` or `*`. `pub`, `sub`: `team/name`, `team/*` or `*`. */
  pattern: string;
}

export type LinkState = 'proposed' | 'active' | 'revoked';

/** A link as one org of this instance sees it. */
export interface Link {
  id: string;
  orgId: string;
  /** The peer org's handle: how it is written in addresses, in `allow` and in paths. */
  peerHandle: string;
  /** The peer's authority, or null when the peer org lives on this instance. */
  peerDomain: string | null;
  peerOrgId: string | null;
  state: LinkState;
  /** Only messages that their node signed may enter (default true). */
  signedOnly: boolean;
  /** Addresses and CIDRs that may send; empty: any. */
  ips: readonly string[];
  /** What this org exposes to the peer, and what the peer exposes to this org. */
  ours: readonly Exposure[];
  theirs: readonly Exposure[];
}

export interface Contact {
  id: string;
  owner: string;
  peerId: string;
  peerDid: string;
  blocked: boolean;
}

/** What gates and exchange ask of federation. Look-ups are coalesced queries, never cached: a revocation acts at once on every replica. */
export interface Federation {
  /** The org's link to a peer named by handle or by authority (`:` also written `-`), whatever its state; null when there is none. */
  link(orgId: string, peer: string): Promise<Link | null>;
  linkById(id: string): Promise<Link | null>;
  /** Every link of any org here to that authority. */
  linksWithDomain(domain: string): Promise<readonly Link[]>;
  /** The owner's contact for any of these DIDs (agent DID, signer DID), a blocked one first; null when there is none. */
  contact(owner: string, dids: readonly string[]): Promise<Contact | null>;
  isDomainBlocked(orgId: string, domain: string): Promise<boolean>;
  /** The id of the peer row for a DID, made on first use. Ids never change, so they are cached. */
  peerId(did: string): Promise<string>;
  /** One row per stranger and owner, however often it knocks. */
  requestConnection(request: {
    owner: string;
    peerDid: string;
    agentId: string;
    /** Shortened to 500 characters. */
    firstMessage: string;
  }): Promise<void>;
}

/** Whether `patterns` name the agent at `team/user/agent`. Pure; used by gates, directory views and topics. */
export type ExposureTest = (exposures: readonly Exposure[], agentPath: string) => boolean;

export type Outcome<T> = T | Refusal;
