import type { Admitted } from '../../exchange/admitted.ts';
import type { Envelope } from '../../exchange/message.ts';
import type { PushConfigs, PushRow } from '../../exchange/push/index.ts';
import type { Tasks } from '../../exchange/task/index.ts';
import {
  type Accepted,
  type Beside,
  type Exchange,
  finalStates,
  type TaskView,
  type Viewer,
} from '../../exchange/types.ts';
import type { Gates, Inbound } from '../../gates/index.ts';
import type { Clock } from '../../lib/clock.ts';
import type { HttpRequest } from '../../lib/http.ts';
import { derivedId } from '../../lib/ids.ts';
import type { JsonText } from '../../lib/json.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { type AgentFinder, findFrontDesk, findTenant, type Named } from './addressee.ts';
import { contentOf, withoutBytes } from './body.ts';
import type { FileParts } from './files.ts';
import { bareMessage, TaskFold } from './fold.ts';
import { type PushParams, readHandedOn, readSendParams, readTurns, type SendParams } from './parse.ts';
import {
  type Answers,
  HANDED_ON,
  HOPS_EXTENSION,
  type OperationName,
  REDSYN_EXTENSION,
  TURNS,
  type Version,
} from './protocol.ts';
import { openedTask, redsynAnswer } from './render.ts';
import { follow, type TaskStream, tell } from './stream.ts';

export interface A2aDeps {
  gates: Pick<Gates, 'admit' | 'identify'>;
  exchange: Exchange;
  tasks: Pick<Tasks, 'list' | 'watch' | 'cancel'>;
  pushes: Pick<PushConfigs, 'check' | 'row' | 'set' | 'get' | 'list' | 'remove'>;
  finder: AgentFinder;
  files: FileParts;
  /** Checks an envelope's form; the REDSYN wire's own check, handed in because no wire imports another. */
  checkEnvelope(json: JsonText, text: string): { envelope: Envelope; text: string; zip: Buffer | null } | Refusal;
  clock: Clock;
  /** Of the public URL. */
  authority: string;
  /** How long a blocking send waits at most. Default 25 s, inside the 30 s after which clients and proxies give up. */
  blockingMs?: number;
}

/** What is asked, whichever binding and version it came in. */
export interface Asked {
  operation: OperationName;
  version: Version;
  /** In 1.0's form. */
  params: Record<string, unknown>;
  /** Values as they were written. */
  raw(path: ReadonlyArray<string | number>): string | undefined;
  /** The message of a send as its sender wrote it. */
  messageText(): string;
  request: HttpRequest;
  /** Whom the path names; rules over `tenant`. */
  pathTenant: string | undefined;
  /** False for a JSON-RPC notification: nobody reads what comes of it. */
  isAnswered: boolean;
}

/** Files of a message that are kept in it as well as beside it. */
const keptBytes = 128 * 1024;
const redsynPath = ['message', 'metadata', REDSYN_EXTENSION] as const;

/** SendMessage. */
export async function send(deps: A2aDeps, asked: Asked): Promise<Answers['send'] | Refusal> {
  const sent = await sendOff(deps, asked);
  if (sent instanceof Refusal) return sent;
  const { accepted, params, isRedsyn } = sent;
  if (isRedsyn) {
    const task = openedTask(accepted, deps.clock.now(), undefined);
    return { task: { ...task, metadata: redsynAnswer(accepted) } };
  }
  // Nobody reads the answer to a notification.
  if (!asked.isAnswered) return { task: openedTask(accepted, deps.clock.now(), undefined) };
  if (params.returnImmediately && !params.message.taskId && !accepted.duplicate) {
    const message = params.historyLength === 0 ? undefined : params.message;
    return { task: openedTask(accepted, deps.clock.now(), message) };
  }
  return settled(deps, asked, sent);
}

/** SendStreamingMessage: the task as the message left it, then all that came of it. */
export async function sendStreaming(deps: A2aDeps, asked: Asked): Promise<TaskStream | Refusal> {
  const sent = await sendOff(deps, asked);
  if (sent instanceof Refusal) return sent;
  const { accepted, viewer, params } = sent;
  const watch = await deps.tasks.watch(accepted.exchangeId, viewer);
  if (watch instanceof Refusal) return watch;
  const { view } = watch;
  // A fast agent has answered by now: the stream tells it after the task, as it would have a moment later.
  const own = view.messages.findIndex((message) => message.fromAsker && message.id === accepted.id) + 1;
  const fold = new TaskFold(view, deps.files);
  fold.take({ ...view, messages: view.messages.slice(0, own), more: true });
  const task = fold.task({ historyLength: params.historyLength });
  const came = tell(fold, fold.take({ ...view, messages: view.messages.slice(own), more: false }));
  return follow(watch, fold, [{ event: { task }, final: false }, ...came]);
}

interface Sent {
  accepted: Accepted;
  viewer: Viewer;
  params: SendParams;
  isRedsyn: boolean;
}

async function sendOff(deps: A2aDeps, asked: Asked): Promise<Sent | Refusal> {
  const params = readSendParams(asked.params);
  if (params instanceof Refusal) return params;
  const tenant = tenantFrom(asked.pathTenant, params.tenant);
  if (tenant instanceof Refusal) return tenant;
  const push = params.push && (await pushRow(deps, params.push, asked.version));
  if (push instanceof Refusal) return push;
  const isRedsyn = params.message.metadata?.[REDSYN_EXTENSION] !== undefined;
  const inbound = isRedsyn ? await carried(deps, asked, params, tenant) : await plain(deps, asked, params, tenant);
  if (inbound instanceof Refusal) return inbound;

  const admitted = await deps.gates.admit(inbound);
  if (admitted instanceof Refusal) return admitted;
  const { taskId, contextId } = params.message;
  const viewer = viewerOf(admitted);
  const beside: Beside = {
    ...(push && { push: [push] }),
    ...(taskId !== undefined && !isRedsyn && { goesOn: { taskId, thread: contextId, viewer } }),
  };
  const accepted = await deps.exchange.accept(admitted, beside);
  return accepted instanceof Refusal ? accepted : { accepted, viewer, params, isRedsyn };
}

async function pushRow(
  { pushes }: A2aDeps,
  { id, url, token, authentication }: PushParams,
  version: Version,
): Promise<PushRow | Refusal> {
  const config = {
    url,
    version,
    ...(id !== undefined && { id }),
    ...(token !== undefined && { token }),
    ...(authentication && { authentication }),
  };
  return (await pushes.check(config, 'configuration.taskPushNotificationConfig.')) ?? pushes.row(config);
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
  { raw, request }: Asked,
  { message }: SendParams,
  tenant: string | undefined,
): Promise<Inbound | Refusal> {
  const read = deps.checkEnvelope(
    { value: message.metadata?.[REDSYN_EXTENSION], raw: (path) => raw([...redsynPath, ...path]) },
    raw(redsynPath)!,
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
    ...(named && { addressee: named.agent, named: named.to }),
    ...(handedOn && { handedOn }),
    turns: readTurns(message.metadata?.[TURNS]),
    ...(message.contextId !== undefined && { thread: message.contextId }),
    answers: 'inbox',
    idempotent: true,
  };
}

async function plain(
  deps: A2aDeps,
  { messageText, request }: Asked,
  { message }: SendParams,
  tenant: string | undefined,
): Promise<Inbound | Refusal> {
  const content = contentOf(message.parts);
  if (content instanceof Refusal) return content;
  const { body, zip, files, refs } = content;
  const named: Named | Refusal =
    tenant === undefined
      ? await findFrontDesk(deps.finder, deps.authority)
      : await findTenant(tenant, deps.finder, deps.authority);
  if (named instanceof Refusal) return named;
  const key = request.headers.get('idempotency-key');
  const hops = message.metadata?.[HOPS_EXTENSION];
  return {
    wire: 'a2a',
    operation: 'message',
    request,
    envelope: {
      v: 1,
      id: idOf(message.messageId, key),
      kind: 'request',
      from: '',
      to: named.to,
      body,
      ...(files && { files }),
      ...(refs && { refs }),
      ...(hops !== undefined && { hops }),
    },
    zip,
    a2aText:
      zip && zip.length > keptBytes
        ? JSON.stringify({ ...message, parts: withoutBytes(message.parts) })
        : messageText(),
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

/** When the task ends or needs the caller (§3.2.2), or as it stands when that takes too long. */
async function settled(
  deps: A2aDeps,
  { request }: Asked,
  { accepted, viewer, params }: Sent,
): Promise<Answers['send'] | Refusal> {
  const until = deps.clock.now() + (params.returnImmediately ? 0 : (deps.blockingMs ?? 25_000));
  for (let waits = true; ; ) {
    const view = await deps.exchange.task(accepted.exchangeId, viewer);
    if (view instanceof Refusal) return view;
    const left = until - deps.clock.now();
    if (!waits || left <= 0 || isSettled(view) || request.gone.aborted) {
      const message = params.message.taskId === undefined ? bareMessage(view) : undefined;
      return message
        ? { message }
        : { task: TaskFold.of(view, deps.files).task({ historyLength: params.historyLength }) };
    }
    waits = await deps.exchange.waitForChange(accepted.exchangeId, view.updatedAt, left, request.gone);
  }
}

function isSettled({ state }: TaskView): boolean {
  return finalStates.has(state) || state === 'input_required' || state === 'auth_required';
}
