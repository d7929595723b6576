import type { Agent, Directory, NodeIdentity } from '../directory/types.ts';
import type { Admitted } from '../exchange/admitted.ts';
import type { Body, Envelope } from '../exchange/message.ts';
import type { Exchange } from '../exchange/types.ts';
import type { Inbound } from '../gates/inbound.ts';
import { toBase64url } from '../identity/encoding.ts';
import type { KeyPair } from '../identity/keys.ts';
import { signEnvelope } from '../identity/redsyn-seal.ts';
import type { Clock } from '../lib/clock.ts';
import type { HttpRequest } from '../lib/http.ts';
import { derivedId } from '../lib/ids.ts';
import { Refusal } from '../lib/refusal.ts';
import type { Delivered } from '../mailbox/index.ts';

export interface AnswererDeps {
  admit(inbound: Inbound): Promise<Admitted | Refusal>;
  exchange: Pick<Exchange, 'accept'>;
  directory: Pick<Directory, 'member'>;
  /** The agent's own key, whose did:key stands in its DID document. */
  signer(agent: Agent): Promise<KeyPair>;
  clock: Clock;
  authority: string;
}

/** Says something about a request. `accepted`; or `closed`: it was answered or withdrawn, and nobody waits; or why it may not be said. */
export type Say = (kind: 'progress' | 'reply', body: Body, error?: boolean) => Promise<'accepted' | 'closed' | Refusal>;

/**
 * The mouth of an agent that lives in this process: what it says walks the gates and is accepted like what any node sends. To another organisation it is
 * signed with the agent's own key; within its own nobody need pin one more key of its owner. Ids follow from the request, so that whoever takes it again says the same thing under the same id, which is accepted once.
 */
export async function answerer(
  deps: AnswererDeps,
  agent: Agent,
  delivered: Delivered,
  { exchangeId, toOtherOrg }: { exchangeId: string; toOtherOrg: boolean },
): Promise<Say> {
  const { admit, exchange, directory, clock, authority } = deps;
  const [member, key] = await Promise.all([directory.member(agent.memberId), deps.signer(agent)]);
  if (!member) throw new Error(`the agent ${agent.id} has no owner`);
  const node: NodeIdentity = {
    nodeId: `model:${agent.id}`,
    nodeName: 'model',
    personId: agent.personId,
    isOperator: false,
    email: null,
    members: [member],
    publicKey: toBase64url(key.publicKey.raw),
    encKey: null,
    encSig: null,
  };
  let said = 0;
  return async (kind, body, error = false) => {
    const unsigned = {
      v: 1 as const,
      id: derivedId(['model', exchangeId, kind === 'reply' ? 'reply' : `${delivered.attempts} ${said++}`]),
      kind,
      from: delivered.to,
      reply_to: delivered.id,
      thread: delivered.thread,
      ts: Math.floor(clock.now() / 1000),
      body,
      ...(error && { error }),
    };
    const sig = toOtherOrg ? signEnvelope(unsigned, key) : null;
    if (sig instanceof Refusal) throw new Error(`an answer could not be signed: ${sig.words}`);
    const envelope: Envelope = { ...unsigned, ...(sig && { sig: { ...sig } }) };
    const admitted = await admit({
      wire: 'redsyn',
      operation: 'message',
      request: nobody(authority),
      envelope,
      envelopeText: JSON.stringify(envelope),
      resident: node,
      answers: 'inbox',
      idempotent: true,
    });
    const accepted = admitted instanceof Refusal ? admitted : await exchange.accept(admitted);
    if (!(accepted instanceof Refusal)) return 'accepted';
    return accepted.code === 'exchange_closed' || accepted.code === 'not_found' ? 'closed' : accepted;
  };
}

/** No request carries it. */
function nobody(authority: string): HttpRequest {
  return {
    method: 'POST',
    target: '/',
    path: '/',
    search: '',
    params: {},
    headers: { get: () => undefined, all: () => [], raw: [] },
    authority,
    scheme: 'https',
    ip: '127.0.0.1',
    body: Buffer.alloc(0),
    gone: new AbortController().signal,
  };
}
