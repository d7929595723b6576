import type { Admitted } from '../../exchange/admitted.ts';
import type { Envelope } from '../../exchange/message.ts';
import { type Accepted, type Exchange, finalStates, type TaskView, type Viewer } from '../../exchange/types.ts';
import type { Gates, Inbound } from '../../gates/index.ts';
import type { Clock } from '../../lib/clock.ts';
import type { HttpRequest } from '../../lib/http.ts';
import { derivedId } from '../../lib/ids.ts';
import type { JsonText } from '../../lib/json.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { type AgentFinder, findFrontDesk, findTenant, type Named } from './addressee.ts';
import { bodyOfParts } from './body.ts';
import { pushNotSupported, type RpcError, unsupportedOperation } from './errors.ts';
import { readHandedOn, readSendParams, type SendParams } from './parse.ts';
import { HANDED_ON, isRecord, REDSYN_EXTENSION } from './protocol.ts';
import { openedTask, redsynAnswer, sendResult, taskOf } from './render.ts';
import type { Call } from './rpc.ts';
import { sendParamsFromV03 } from './v03.ts';

export interface A2aDeps {
  gates: Pick<Gates, 'admit' | 'identify'>;
  exchange: Exchange;
  finder: AgentFinder;
  /** Checks an envelope's form; the REDSYN wire's own check, handed in because no wire imports another. */
  checkEnvelope(json: JsonText, text: string): { envelope: Envelope; text: string; zip: Buffer | null } | Refusal;
  clock: Clock;
  /** Of the public URL. */
  authority: string;
  /** How long a blocking send waits at most. Default 25 s, inside the 30 s after which clients and proxies give up. */
  blockingMs?: number;
}

/** A call together with the request that carried it and whom its path names. */
export interface Asked {
  call: Call;
  request: HttpRequest;
  /** From the path; rules over `tenant`. */
  pathTenant: string | undefined;
}

const redsynPath = ['message', 'metadata', REDSYN_EXTENSION] as const;

/** SendMessage, `message/send`. */
export async function send(deps: A2aDeps, asked: Asked): Promise<object | Refusal | RpcError> {
  const { call, request } = asked;
  const params = readSendParams(call.version === '0.3' ? sendParamsFromV03(call.params) : call.params);
  if (params instanceof Refusal) return params;
  if (params.wantsPush) return pushNotSupported();
  const tenant = tenantFrom(asked.pathTenant, params.tenant);
  if (tenant instanceof Refusal) return tenant;
  const isRedsyn = params.message.metadata?.[REDSYN_EXTENSION] !== undefined;
  const inbound = isRedsyn ? await carried(deps, asked, params, tenant) : await plain(deps, asked, params, tenant);
  if (inbound instanceof Refusal) return inbound;

  const { taskId, contextId } = params.message;
  let admitted = await deps.gates.admit(inbound);
  if (admitted instanceof Refusal) return admitted;
  if (taskId !== undefined && !isRedsyn) {
    const task = await continued(deps, admitted, taskId, contextId);
    if (task instanceof Refusal || 'code' in task) return task;
    if (contextId === undefined) {
      admitted = await deps.gates.admit({ ...inbound, thread: task.thread });
      if (admitted instanceof Refusal) return admitted;
    }
  }
  const viewer = viewerOf(admitted);
  const accepted = await deps.exchange.accept(admitted);
  if (accepted instanceof Refusal) return accepted;
  if (isRedsyn) {
    const task = openedTask(accepted, deps.clock.now(), undefined);
    return sendResult({ ...task, metadata: redsynAnswer(accepted) }, call.version);
  }
  return answer(deps, { accepted, viewer, params, request, call });
}

/** Path beats `tenant`, and two that differ are a mistake that nobody should guess about (a2a-conformance §12). */
export function tenantFrom(path: string | undefined, tenant: string | undefined): string | undefined | Refusal {
  if (path === undefined || tenant === undefined || tenant === path) return path ?? tenant;
  return refuse('invalid_field', '`tenant` names another agent than the address that was called.', {
    data: { field: 'tenant' },
  });
}

/** The envelope that rides in the metadata is the message; the A2A message around it is its wrapping. */
async function carried(
  deps: A2aDeps,
  { call, request }: Asked,
  { message }: SendParams,
  tenant: string | undefined,
): Promise<Inbound | Refusal> {
  const read = deps.checkEnvelope(
    { value: message.metadata?.[REDSYN_EXTENSION], raw: (path) => call.raw([...redsynPath, ...path]) },
    call.raw(redsynPath)!,
  );
  if (read instanceof Refusal) return read;
  const { envelope, text, zip } = read;
  const named = tenant === undefined ? null : await findTenant(tenant, deps.finder, deps.authority);
  if (named instanceof Refusal) return named;
  const handedOn = readHandedOn(message.metadata?.[HANDED_ON]);
  if (handedOn instanceof Refusal) return handedOn;
  return {
    wire: 'a2a',
    operation: 'message',
    request,
    envelope: {
      ...envelope,
      // The gateway that carries it has given it one, which stands on the wrapping: what was signed cannot be changed.
      id: envelope.id || message.messageId,
    },
    envelopeText: text,
    zip,
    // Whom a tenant names, and that it names nobody, is for the gates to judge, and after they know who asks.
    ...(named && { addressee: named.agent }),
    ...(handedOn && { handedOn }),
    ...(message.contextId !== undefined && { thread: message.contextId }),
    answers: 'inbox',
    idempotent: true,
  };
}

async function plain(
  deps: A2aDeps,
  { call, request }: Asked,
  { message }: SendParams,
  tenant: string | undefined,
): Promise<Inbound | Refusal> {
  const body = bodyOfParts(message.parts);
  if (body instanceof Refusal) return body;
  const named: Named | Refusal =
    tenant === undefined
      ? await findFrontDesk(deps.finder, deps.authority)
      : await findTenant(tenant, deps.finder, deps.authority);
  if (named instanceof Refusal) return named;
  const key = request.headers.get('idempotency-key');
  return {
    wire: 'a2a',
    operation: 'message',
    request,
    envelope: { v: 1, id: idOf(message.messageId, key), kind: 'request', from: '', to: named.to, body },
    a2aText: call.raw(['message'])!,
    ...(named.agent && { addressee: named.agent }),
    ...(message.contextId !== undefined && { thread: message.contextId }),
    answers: 'poll',
    idempotent: Boolean(key),
  };
}

/** Clients reuse message ids, so only an Idempotency-Key makes a repeat a repeat (design §5). What is no REDSYN id is left to the gates. */
function idOf(messageId: string, key: string | undefined): string {
  if (key) return derivedId(['a2a-idempotency-key', key]);
  return /^[^\s\p{C}]{1,200}$/u.test(messageId) ? messageId : '';
}

/** The task that a message goes on with: the caller's own, of this agent, in this context, and still open (§3.4.2, §3.4.3). */
async function continued(
  deps: A2aDeps,
  admitted: Admitted,
  taskId: string,
  contextId: string | undefined,
): Promise<TaskView | Refusal | RpcError> {
  const task = await deps.exchange.task(taskId, viewerOf(admitted));
  if (task instanceof Refusal) return task;
  const { target } = admitted;
  if (target.kind === 'agent' && task.asked.agentId !== target.agent.id)
    return refuse('not_found', 'There is no such task.');
  if (contextId !== undefined && contextId !== task.thread) {
    return refuse('invalid_field', '`message.contextId` is not the context of that task.', {
      data: { field: 'message.contextId' },
    });
  }
  return finalStates.has(task.state)
    ? unsupportedOperation('That task has ended. Send the message without its taskId.')
    : task;
}

/** The caller as the reader of what it asked. */
function viewerOf({ sender }: Admitted): Viewer {
  switch (sender.kind) {
    case 'local':
      return { kind: 'member', memberIds: [sender.member.id] };
    case 'peer':
      return { kind: 'peer', did: sender.did };
    case 'relay':
    case 'anonymous':
      return { kind: 'anonymous' };
  }
}

interface Opened {
  accepted: Accepted;
  viewer: Viewer;
  params: SendParams;
  request: HttpRequest;
  call: Call;
}

/** At once, or (the default of 1.0) when the task ends or needs the caller (§3.2.2). */
async function answer(deps: A2aDeps, { accepted, viewer, params, request, call }: Opened): Promise<object | Refusal> {
  const { historyLength } = params;
  // Nobody reads the answer to a notification.
  const isImmediate = params.returnImmediately || call.id === 'none';
  if (isImmediate && accepted.state === 'submitted') {
    const message = historyLength === 0 ? undefined : params.message;
    return sendResult(openedTask(accepted, deps.clock.now(), message), call.version);
  }
  const until = deps.clock.now() + (isImmediate ? 0 : (deps.blockingMs ?? 25_000));
  for (;;) {
    const view = await deps.exchange.task(accepted.exchangeId, viewer);
    if (view instanceof Refusal) return view;
    const left = until - deps.clock.now();
    if (left <= 0 || isSettled(view) || request.gone.aborted)
      return sendResult(taskOf(view, { historyLength }), call.version);
    await deps.exchange.waitForChange(accepted.exchangeId, view.updatedAt, left, request.gone);
  }
}

function isSettled({ state }: TaskView): boolean {
  return finalStates.has(state) || state === 'input_required' || state === 'auth_required';
}

export function isRpcError(value: object): value is RpcError {
  return isRecord(value) && 'code' in value && 'headers' in value;
}
