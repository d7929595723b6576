import { readDid } from '../../directory/dids.ts';
import { authorityOf, handleOfAuthority, isName, namesAuthority } from '../../directory/names.ts';
import { didWebParts, isDidWeb, parseDid } from '../../identity/did.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import type { PeerName } from './store.ts';

/** How an admin names the other side of a link. */
export type Other =
  | { kind: 'handle'; handle: string }
  /** `org` null: the primary org there. */
  | { kind: 'gateway'; authority: string; org: string | null };

/** Reads `other`: a handle, an authority (`globex.com`, `localhost:8081`), `authority/org`, an https URL or a did:web of a Gatehouse or of one of its orgs. */
export function readOther(text: unknown): Other | Refusal {
  if (typeof text !== 'string' || text.length === 0 || text.length > 400) return invalid('must be a text');
  const given = text.trim();
  if (given.startsWith('did:')) return fromDid(given);
  const bare = /^https?:\/\/([^/?#@]+)\/?([^/?#]*)\/?$/i.exec(given);
  if (given.includes('://') && !bare) return invalid('is a URL with more than a host and an org in it');
  const [host = '', org, ...more] = bare ? [bare[1]!, ...(bare[2] ? [bare[2]] : [])] : given.split('/');
  const lower = host.toLowerCase().replace(/:443$/, '');
  if (more.length > 0) return invalid('has too many `/`');
  const authority = authorityOf(lower);
  if (authority !== null) return gateway(authority, org ?? null);
  if (bare || org !== undefined) return invalid('names no DNS host');
  return isName(lower)
    ? { kind: 'handle', handle: lower }
    : invalid('must be an org handle, a domain, `host:port`, an https URL or a did:web');
}

function fromDid(text: string): Other | Refusal {
  const did = parseDid(text, { allowIp: true });
  if (did instanceof Refusal || !isDidWeb(did)) return invalid('is no did:web that can be resolved');
  const { authority, segments } = didWebParts(did);
  if (segments.length === 0) return gateway(authority, null);
  if (segments.length === 2 && segments[0] === 'orgs') return gateway(authority, segments[1]!);
  const name = readDid(text);
  return name && name.kind !== 'instance' ? gateway(authority, name.org) : invalid('is not the did:web of a Gatehouse');
}

function gateway(authority: string, org: string | null): Other | Refusal {
  const did = parseDid(`did:web:${authority.replace(':', '%3A')}`, { allowIp: true });
  if (did instanceof Refusal) return invalid('names no host that can be a did:web');
  if (org !== null && !isName(org)) return invalid('has an org that is no name');
  return { kind: 'gateway', authority, org };
}

/**
 * Whether a peer may be written by the handle that it gives itself. One that spells an authority other than its own would catch what is meant
 * for somebody else.
 */
export function mayBeCalled(handle: string, domain: string): boolean {
  return handle === handleOfAuthority(domain) || (isName(handle) && authorityOf(handle) === null);
}

/** How the store is asked for a peer by a name that somebody wrote: a handle, or an authority in either spelling. */
export function peerName(orgId: string, peer: string, authority: string): PeerName {
  const name = handleOfAuthority(peer.toLowerCase());
  return { orgId, name, home: namesAuthority(name, handleOfAuthority(authority)) };
}

function invalid(why: string): Refusal {
  return refuse('invalid_field', `\`other\` ${why}.`, { data: { field: 'other' } });
}
