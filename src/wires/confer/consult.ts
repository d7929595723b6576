import { z } from 'zod';
import type { Directory, Member, NodeIdentity } from '../../directory/types.ts';
import type { ConsultMessage, Letters } from '../../exchange/confer/index.ts';
import { turnFailure } from '../../exchange/state.ts';
import type { Exchange } from '../../exchange/types.ts';
import type { Federation } from '../../federation/types.ts';
import type { Gates } from '../../gates/index.ts';
import type { Clock } from '../../lib/clock.ts';
import type { HttpRequest, HttpResponse, Route } from '../../lib/http.ts';
import { derivedId, newId } from '../../lib/ids.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { errorResponse, json } from './errors.ts';
import { readWith } from './parse.ts';
import { contentOf } from './render.ts';

export interface ConsultDeps {
  gates: Pick<Gates, 'admit' | 'identify'>;
  exchange: Pick<Exchange, 'accept' | 'task' | 'waitForChange'>;
  letters: Pick<Letters, 'conversation' | 'peerDid'>;
  federation: Pick<Federation, 'contact'>;
  directory: Pick<Directory, 'defaultAgent'>;
  clock: Clock;
}

const maxBody = 256 * 1024;
const standardWait = 25;
const longestWait = 55;
/** A wake-up that was lost costs at most this. */
const lookAgainMs = 10_000;

const question = z.object({
  question: z
    .string('must be a text')
    .min(1, 'is empty')
    .max(64 * 1024, 'is too long'),
  code_context: z
    .string('must be a text')
    .max(64 * 1024, 'is too long')
    .nullish(),
  language: z.string('must be a text').max(35, 'has more than 35 characters').nullish(),
});

/** The owner asks a contact and waits for the answer (confer-wire-facts §9): with her token, in one conversation for each contact. */
export function consultRoutes(deps: ConsultDeps): Route[] {
  return [
    {
      method: 'POST',
      path: '/api/v1/consult/{peerId}',
      handler: (request) => asOwner(deps, request, (node) => ask(deps, request, node)),
      maxBody,
      about: 'Asks a contact as your default agent.',
    },
    {
      method: 'GET',
      path: '/api/v1/consult/{conversation}/reply',
      handler: (request) => asOwner(deps, request, (node) => reply(deps, request, node)),
      about: 'The answer behind a message, as soon as it is there: ?after=&wait=',
    },
    {
      method: 'GET',
      path: '/api/v1/consult/{conversation}',
      handler: (request) => asOwner(deps, request, (node) => show(deps, request, node)),
      about: 'The conversation with a contact.',
    },
  ];
}

async function asOwner(
  { gates }: ConsultDeps,
  request: HttpRequest,
  act: (node: NodeIdentity) => Promise<HttpResponse | Refusal>,
): Promise<HttpResponse> {
  const who = await gates.identify({ wire: 'confer', operation: 'read', request, answers: 'poll', idempotent: false });
  if (who instanceof Refusal) return errorResponse(who);
  if (who.kind !== 'node')
    return errorResponse(refuse('unauthenticated', 'This call takes the bearer token of a node.'));
  const answer = await act(who.node);
  return answer instanceof Refusal ? errorResponse(answer) : answer;
}

async function ask(deps: ConsultDeps, request: HttpRequest, node: NodeIdentity): Promise<HttpResponse | Refusal> {
  const read = readWith(question, request);
  if (read instanceof Refusal) return read;
  const peerId = request.params.peerId ?? '';
  const to = await contactOf(deps, node, peerId);
  if (!to) return json(403, { error: { code: 'not_a_contact', message: 'Add that peer to your contacts first.' } });
  const { owner, did } = to;
  const agent = await deps.directory.defaultAgent(owner.id);
  if (!agent) return refuse('conflict', 'Announce an agent first: the question is asked, and answered, in its name.');
  const conversation_id = derivedId(['consult', owner.id, peerId]);
  const message_id = newId(deps.clock);
  const { language, code_context } = read;
  const admitted = await deps.gates.admit({
    wire: 'confer',
    operation: 'message',
    request,
    envelope: {
      v: 1,
      id: message_id,
      kind: 'request',
      from: agent.address,
      to: did,
      body: { type: 'text/plain', text: withCode(read.question, code_context), ...(language != null && { language }) },
    },
    thread: conversation_id,
    // Nobody listens at an inbox for it: the conversation has the answer.
    answers: 'poll',
    idempotent: true,
  });
  if (admitted instanceof Refusal) return admitted;
  const accepted = await deps.exchange.accept(admitted);
  if (accepted instanceof Refusal) {
    return json(502, {
      conversation_id,
      message_id,
      status: 'failed',
      error: { code: accepted.code, message: accepted.words },
    });
  }
  return json(201, { conversation_id, message_id, status: 'sent' });
}

/** As the owner, of all that the person is, who has that contact. */
async function contactOf(
  { letters, federation }: ConsultDeps,
  { members }: NodeIdentity,
  peerId: string,
): Promise<{ owner: Member; did: string } | null> {
  const did = await letters.peerDid(peerId);
  if (did === null) return null;
  for (const owner of members) {
    const contact = await federation.contact(owner.id, [did]);
    if (contact && !contact.blocked) return { owner, did };
  }
  return null;
}

/** A fence that the code itself does not hold. */
function withCode(text: string, code: string | null | undefined): string {
  if (!code) return text;
  const longest = Math.max(2, ...[...code.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = '`'.repeat(longest + 1);
  return `${text}\n\n---\n${fence}\n${code}\n${fence}`;
}

async function reply(deps: ConsultDeps, request: HttpRequest, node: NodeIdentity): Promise<HttpResponse | Refusal> {
  const { clock, exchange } = deps;
  const query = new URLSearchParams(request.search);
  const wait = readWait(query.get('wait'));
  const after = query.get('after');
  const memberIds = node.members.map(({ id }) => id);
  const until = clock.now() + wait * 1000;
  for (;;) {
    const messages = await conversationOf(deps, request, memberIds);
    if (messages.length === 0) return refuse('not_found', 'There is no such conversation.');
    const at =
      after === null ? messages.findLastIndex(({ isOwn }) => isOwn) : messages.findIndex(({ id }) => id === after);
    if (after !== null && at < 0)
      return json(400, { error: { code: 'unknown_cursor', message: 'No message of this conversation has that id.' } });
    const answer = messages.slice(at + 1).find(({ isOwn }) => !isOwn);
    if (answer) return json(200, { status: 'answered', message: shown(answer, request) });
    const left = until - clock.now();
    if (left <= 0 || request.gone.aborted) return json(200, { status: 'pending' });
    const open = messages.findLast(({ isOwn, exchangeId }) => isOwn && exchangeId !== null)?.exchangeId;
    const task = open ? await exchange.task(open, { kind: 'member', memberIds }) : null;
    if (!open || !task || task instanceof Refusal) return json(200, { status: 'pending' });
    // What came between the two looks is seen at once; what nobody woke us for, soon.
    const now = await conversationOf(deps, request, memberIds);
    if (now.length !== messages.length) continue;
    await exchange.waitForChange(open, task.updatedAt, Math.min(left, lookAgainMs), request.gone);
  }
}

async function show(deps: ConsultDeps, request: HttpRequest, node: NodeIdentity): Promise<HttpResponse | Refusal> {
  const messages = await conversationOf(
    deps,
    request,
    node.members.map(({ id }) => id),
  );
  if (messages.length === 0) return refuse('not_found', 'There is no such conversation.');
  return json(200, {
    conversation_id: request.params.conversation,
    messages: messages.map((one) => shown(one, request)),
  });
}

function conversationOf(
  { letters }: ConsultDeps,
  { params }: HttpRequest,
  memberIds: readonly string[],
): Promise<readonly ConsultMessage[]> {
  return letters.conversation(memberIds, params.conversation ?? '');
}

/** A failure is a notice in this conversation, worded by whoever shows it (confer.md "No poder responder también es una respuesta"). */
function shown(message: ConsultMessage, { params }: HttpRequest): object {
  const { id, isOwn, kind, replyTo, envelope, reason, createdAt } = message;
  const isNotice = kind === 'reply' && envelope.error === true;
  return {
    id,
    conversation_id: params.conversation,
    sender_type: isOwn ? 'user' : 'peer_agent',
    content_type: isNotice ? 'system_notice' : 'text',
    content: contentOf(envelope.body),
    ...(isNotice && { content_json: { kind: 'a2a_turn_failed', error: turnFailure(reason) } }),
    in_reply_to: replyTo,
    created_at: new Date(createdAt).toISOString(),
  };
}

/** Out of 0 to 55 the nearest; what is no number is the standard. */
function readWait(text: string | null): number {
  const seconds = text === null || text.trim() === '' ? Number.NaN : Number(text);
  return Number.isFinite(seconds) ? Math.min(Math.max(seconds, 0), longestWait) : standardWait;
}
