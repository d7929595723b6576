import { agentDid, instanceDid } from '../directory/dids.ts';
import { readAddress } from '../directory/names.ts';
import {
  capabilityToken,
  chainOf,
  checkCapability,
  parseCapability,
  verifyCapability,
} from '../identity/capability.ts';
import { keysFor } from '../identity/document.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import { isAction, maxAction } from './actions.ts';
import type { Acting, Arrived, Called, Gate } from './facts.ts';
import type { Inbound } from './inbound.ts';

/**
 * If a capability token is there: does it allow this very request (confer-wire-facts §6)? The claims come first. The keys are those of the issuer's
 * document: mostly the signer's own, which the signature has just fetched; a second document, of an issuer above the signer in the same
 * domain, or of who narrowed one (3 at most), is only fetched once the signature held and every claim fits.
 */
export const capability: Gate<Arrived & Called, Acting> = async (
  { inbound, column, principal },
  { clock, self, resolver },
) => {
  const action = actionOf(inbound);
  if (action instanceof Refusal) return action;
  const token = capabilityToken(inbound.request.headers.get('authorization') ?? '');
  if (token === undefined) return { actions: [action ?? 'ask'] };
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
  const topics = claim.topics.map((topic) => `ask:${topic}`).filter(isAction);
  if (action !== null && !claim.scope.some((entry) => covers(entry, action))) {
    return refuse('capability_invalid', `The scope of the capability token does not hold "${action}".`);
  }
  const actions = action !== null ? [action] : topics.length > 0 ? topics : ['ask'];
  for (const one of chainOf(claim)) {
    const document = await resolver.resolve(one.iss);
    if (document instanceof Refusal) return document;
    const keys = keysFor(document, 'authentication').map(({ publicKey }) => publicKey);
    const forged = verifyCapability(one, keys);
    if (forged) return forged;
  }
  return { actions };
};

/** What the request says it would have done: null when it says nothing. */
function actionOf({ action, envelope }: Inbound): string | null | Refusal {
  const said = action ?? envelope?.action;
  if (said === undefined || said === null) return null;
  if (typeof said === 'string' && isAction(said)) return said;
  const words = `\`action\` must be kind or kind:what, at most ${maxAction} characters.`;
  return refuse('invalid_field', words, { data: { field: 'action' } });
}

/** `ask` covers `ask:technical`, and `ask:technical` or `ask:technical:*` what is beneath it. */
function covers(entry: string, action: string): boolean {
  const scope = entry.endsWith(':*') ? entry.slice(0, -2) : entry;
  return action === scope || action.startsWith(`${scope}:`);
}

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
