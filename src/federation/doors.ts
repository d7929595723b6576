import { didOfAddress, ownerOfDid } from '../directory/dids.ts';
import { readAddress } from '../directory/names.ts';
import { Refusal } from '../lib/refusal.ts';
import type { Federation } from './types.ts';

/**
 * Whether what an owner of `orgId` writes may leave for `to` (design §4 "Two doors"): not under the name of a link that is no longer active, unless
 * she also knows it as somebody that comes as itself. Asked for answers when they are given, and again for everything when it leaves: what
 * waited for a peer that was away must not go out after the link was revoked.
 */
export async function mayLeave(
  q: { orgId: string; owner: string | null; to: string },
  federation: Pick<Federation, 'link' | 'contact'>,
): Promise<boolean> {
  const address = readAddress(q.to);
  // A DID came through the other door.
  if (address instanceof Refusal) return true;
  const link = await federation.link(q.orgId, address.org);
  if (link === null || link.state === 'active') return true;
  const did = q.owner === null ? null : didOfAddress(address);
  if (q.owner === null || did === null) return false;
  const contact = await federation.contact(q.owner, [did, ownerOfDid(did) ?? did]);
  return contact !== null && !contact.blocked;
}
