import { agentDid, ownerDid } from '../../directory/dids.ts';
import type { Agent, Directory } from '../../directory/types.ts';
import type { Accepted, Exchange } from '../../exchange/types.ts';
import type { Gates, Inbound } from '../../gates/index.ts';
import type { HttpRequest, HttpResponse } from '../../lib/http.ts';
import { derivedId } from '../../lib/ids.ts';
import { Refusal } from '../../lib/refusal.ts';
import { errorResponse, json, ofSignature } from './errors.ts';
import { coreOf, type MessageRequest, readMessageRequest, type ThreadRequest } from './parse.ts';

export interface MessageDeps {
  gates: Pick<Gates, 'admit' | 'identify'>;
  exchange: Pick<Exchange, 'accept'>;
  directory: Pick<Directory, 'agentByDid'>;
  /** Of the public URL. */
  authority: string;
}

/** Of the outbox items that bring answers to askers of this wire. */
export const conferKind = 'confer';

/** What such an item needs beside the message: as whom it is said, to whom, and whose key the asker proved. */
export interface AnswerRef {
  from: string;
  to: string;
}

/** POST /a2a/v1/messages (confer-wire-facts §3). Who is wrong about who he is hears that before what is wrong with what he sent. */
export async function postMessage(deps: MessageDeps, request: HttpRequest): Promise<HttpResponse> {
  const read = readMessageRequest(request);
  if (read instanceof Refusal) return errorResponse(await whoFirst(deps, request, read));
  const admitted = await deps.gates.admit(await inboundOf(deps, request, read));
  if (admitted instanceof Refusal) return errorResponse(ofSignature(admitted, request));
  const accepted = await deps.exchange.accept(admitted);
  if (accepted instanceof Refusal) return errorResponse(accepted);
  return said(accepted, coreOf(read).kind === 'request');
}

/** The fault of a request whose form is wrong: that of its proof, if that is wrong too. */
export async function whoFirst(
  deps: Pick<MessageDeps, 'gates'>,
  request: HttpRequest,
  fault: Refusal,
): Promise<Refusal> {
  const who = await deps.gates.identify({
    wire: 'confer',
    operation: 'read',
    request,
    answers: 'poll',
    idempotent: false,
    claimedDid: '',
  });
  return who instanceof Refusal ? ofSignature(who, request) : fault;
}

async function inboundOf(deps: MessageDeps, request: HttpRequest, read: MessageRequest): Promise<Inbound> {
  const { kind, body, error } = coreOf(read);
  const hops = read.message.context?.hops;
  const key = request.headers.get('idempotency-key');
  return {
    ...(await carrierOf(deps, request, read)),
    envelope: {
      v: 1,
      id: key ? derivedId(['confer-idempotency-key', key]) : '',
      kind,
      from: holdsToken(request) ? read.from : '',
      to: read.to,
      body,
      ...(error && { error }),
      ...(hops !== undefined && { hops }),
    },
    idempotent: Boolean(key),
    ...(kind !== 'request' && { namesNoRequest: true }),
  };
}

/** All of an inbound but what is said. */
export async function carrierOf(
  { directory, authority }: Pick<MessageDeps, 'directory' | 'authority'>,
  request: HttpRequest,
  { from, to, thread_id }: ThreadRequest,
): Promise<Omit<Inbound, 'envelope' | 'idempotent'>> {
  const agent = await directory.agentByDid(to);
  const ref: AnswerRef = { from: agent ? speakingAs(agent, to, authority) : to, to: from };
  return {
    wire: 'confer',
    operation: 'message',
    request,
    ...(thread_id != null && { thread: thread_id }),
    claimedDid: from,
    answersBy: { kind: conferKind, ref: JSON.stringify(ref) },
    answers: 'inbox',
  };
}

/** The agent's DID as the asker wrote it, so that it knows it again; its own where the owner's was written. */
function speakingAs({ org, orgIsPrimary, user, team, handle }: Agent, to: string, authority: string): string {
  const owner = { org: orgIsPrimary ? null : org, user };
  const isBeneath = to.startsWith(`${ownerDid(authority, owner)}:`);
  return isBeneath ? to : agentDid(authority, { ...owner, team, agent: handle });
}

/** Somebody of this instance writes as one of her own agents. */
function holdsToken({ headers }: HttpRequest): boolean {
  return /^bearer\s/i.test(headers.get('authorization') ?? '');
}

/** A question is known by its task, which is the same over A2A; what opens none by itself. */
function said({ exchangeId, id, thread, state, warning }: Accepted, isQuestion: boolean): HttpResponse {
  const message_id = isQuestion ? exchangeId : id;
  const near = warning && { warning };
  if (isQuestion && state === 'auth_required') return json(202, { status: 'pending_approval', message_id, ...near });
  return json(201, { message_id, thread_id: thread, stream_url: `/a2a/v1/stream/${message_id}`, ...near });
}
