import { agentDid, instanceDid } from '../directory/dids.ts';
import { readAddress } from '../directory/names.ts';
import { capabilityToken, checkCapability, parseCapability, verifyCapability } from '../identity/capability.ts';
import { keysFor } from '../identity/document.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import type { Arrived, Called, Gate } from './facts.ts';
import type { Inbound } from './inbound.ts';

/**
 * If a capability token is there: does it allow this very request (confer-wire-facts §6)? The claims come first. The keys are those of the issuer's
 * document: mostly the signer's own, which the signature has just fetched; a second document, of an issuer above the signer in the same
 * domain, is only fetched once the signature held and every claim fits.
 */
export const capability: Gate<Arrived & Called, object> = async (
  { inbound, column, principal },
  { clock, self, resolver },
) => {
  const token = capabilityToken(inbound.request.headers.get('authorization') ?? '');
  if (token === undefined) return {};
  if (principal.kind !== 'signer') {
    return refuse('capability_invalid', 'A capability token is bound to a signer: sign the request.');
  }
  const claim = parseCapability(token, { allowIp: true });
  if (claim instanceof Refusal) return claim;
  const wrong = checkCapability(claim, {
    now: clock.now(),
    signer: principal.did,
    from: senderDid(inbound, principal.did),
    to: recipientDid(inbound, self.domain),
    threadId: inbound.thread ?? inbound.envelope?.thread,
    isQuestion: column === 'request',
  });
  if (wrong) return wrong;
  const document = await resolver.resolve(claim.iss);
  if (document instanceof Refusal) return document;
  const keys = keysFor(document, 'authentication').map(({ publicKey }) => publicKey);
  return verifyCapability(claim, keys) ?? {};
};

/** An address beneath a signer is the DID beneath it; whether it may be claimed is the address gate's question. */
function senderDid({ claimedDid, envelope }: Inbound, signer: string): string {
  const from = claimedDid ?? envelope?.from ?? '';
  if (from === '') return signer;
  if (from.startsWith('did:')) return from;
  const address = readAddress(from, { field: 'from' });
  return address instanceof Refusal ? signer : `${signer}:${address.team}:${address.agent}`;
}

function recipientDid({ addressee, envelope }: Inbound, domain: string): string {
  if (envelope?.to?.startsWith('did:')) return envelope.to;
  if (!addressee) return instanceDid(domain);
  const { org, orgIsPrimary, user, team, handle } = addressee;
  return agentDid(domain, { org: orgIsPrimary ? null : org, user, team, agent: handle });
}
