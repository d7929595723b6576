import type { ExchangeState } from '../../../exchange/types.ts';
import { foreignText } from '../../../lib/foreign-text.ts';
import { containsNul } from '../../../lib/json.ts';
import { type Artifact, isRecord, type Message, type Part } from '../protocol.ts';

/**
 * What a server says, read from either version and either binding into 1.0's form (a2a-conformance §6). It is read kindly, for what its makers
 * meant, and bounded: what is not understood is left out, never guessed at.
 */
export interface TaskNow {
  id: string;
  contextId: string | null;
  state: ExchangeState;
  /** Of the status: what it says of this state. */
  message: Message | null;
  /** Of the status, as it was written; tells two states alike apart. */
  timestamp: string;
  artifacts: Artifact[];
  history: Message[];
}

export type RemoteEvent =
  | { kind: 'message'; message: Message }
  | { kind: 'task'; task: TaskNow }
  | {
      kind: 'status';
      taskId: string;
      contextId: string | null;
      state: ExchangeState;
      message: Message | null;
      timestamp: string;
    }
  | { kind: 'artifact'; taskId: string; contextId: string | null; artifact: Artifact; append: boolean };

const most = { parts: 500, artifacts: 200, history: 200, id: 512 };

/** A send's result, an event of a stream, or a push: bare in 0.3, wrapped in 1.0 and on REST. Null: nothing that A2A knows. */
export function readEvent(value: unknown): RemoteEvent | null {
  if (!isRecord(value) || containsNul(value)) return null;
  switch (value.kind) {
    case 'message':
      return ofMessage(value);
    case 'task':
      return ofTask(value);
    case 'status-update':
      return readStatusUpdate(value);
    case 'artifact-update':
      return readArtifactUpdate(value);
  }
  const status = value.statusUpdate ?? value.status_update;
  const artifact = value.artifactUpdate ?? value.artifact_update;
  if (isRecord(value.task)) return ofTask(value.task);
  if (isRecord(status)) return readStatusUpdate(status);
  if (isRecord(artifact)) return readArtifactUpdate(artifact);
  const message = value.message ?? value.msg;
  if (isRecord(message)) return ofMessage(message);
  return isRecord(value.status) ? ofTask(value) : null;
}

/** A bare task, as GetTask and CancelTask answer it; some wrap it. */
export function readTaskNow(value: unknown): TaskNow | null {
  const event = readEvent(value);
  return event?.kind === 'task' ? event.task : null;
}

function ofTask(value: Record<string, unknown>): RemoteEvent | null {
  const id = text(value.id);
  const status = readStatus(value.status);
  if (id === null || !status) return null;
  const task: TaskNow = {
    id,
    contextId: text(value.contextId ?? value.context_id),
    ...status,
    artifacts: list(value.artifacts, most.artifacts).flatMap((item) => readArtifact(item) ?? []),
    history: list(value.history, most.history).flatMap((item) => readMessage(item) ?? []),
  };
  return { kind: 'task', task };
}

function ofMessage(value: Record<string, unknown>): RemoteEvent | null {
  const message = readMessage(value);
  return message && { kind: 'message', message };
}

function readStatusUpdate(value: Record<string, unknown>): RemoteEvent | null {
  const taskId = text(value.taskId ?? value.task_id);
  const status = readStatus(value.status);
  return taskId !== null && status
    ? { kind: 'status', taskId, contextId: text(value.contextId ?? value.context_id), ...status }
    : null;
}

function readArtifactUpdate(value: Record<string, unknown>): RemoteEvent | null {
  const taskId = text(value.taskId ?? value.task_id);
  const artifact = readArtifact(value.artifact);
  return taskId !== null && artifact
    ? {
        kind: 'artifact',
        taskId,
        contextId: text(value.contextId ?? value.context_id),
        artifact,
        append: value.append === true,
      }
    : null;
}

const states: Readonly<Record<string, ExchangeState>> = {
  submitted: 'submitted',
  working: 'working',
  completed: 'completed',
  failed: 'failed',
  canceled: 'canceled',
  cancelled: 'canceled',
  input_required: 'input_required',
  rejected: 'rejected',
  auth_required: 'auth_required',
};
/** The proto's numbers, which ProtoJSON may also write. */
const numbered = [
  'working',
  'submitted',
  'working',
  'completed',
  'failed',
  'canceled',
  'input_required',
  'rejected',
  'auth_required',
] as const;

function readStatus(value: unknown): Pick<TaskNow, 'state' | 'message' | 'timestamp'> | null {
  if (!isRecord(value)) return null;
  const { state } = value;
  const name = String(state)
    .replace(/^TASK_STATE_/, '')
    .toLowerCase()
    .replaceAll('-', '_');
  const known = typeof state === 'number' ? numbered[state] : Object.hasOwn(states, name) ? states[name] : undefined;
  return {
    // 0.3 has the state `unknown`: its task is still there.
    state: known ?? 'working',
    message: readMessage(value.message ?? value.update),
    timestamp: foreignText(value.timestamp, 40),
  };
}

function readMessage(value: unknown): Message | null {
  if (!isRecord(value)) return null;
  const { role, metadata } = value;
  const isAgents = role === 'agent' || role === 'ROLE_AGENT' || role === 2;
  const contextId = text(value.contextId ?? value.context_id);
  const taskId = text(value.taskId ?? value.task_id);
  return {
    messageId: text(value.messageId ?? value.message_id) ?? '',
    role: isAgents ? 'ROLE_AGENT' : 'ROLE_USER',
    parts: readParts(value.parts ?? value.content),
    ...(contextId !== null && { contextId }),
    ...(taskId !== null && { taskId }),
    ...(isRecord(metadata) && { metadata }),
  };
}

function readArtifact(value: unknown): Artifact | null {
  if (!isRecord(value)) return null;
  const { metadata } = value;
  const name = foreignText(value.name, 500);
  const description = foreignText(value.description, 4_000);
  return {
    artifactId: text(value.artifactId ?? value.artifact_id) ?? '',
    ...(name && { name }),
    ...(description && { description }),
    parts: readParts(value.parts),
    ...(isRecord(metadata) && { metadata }),
  };
}

function readParts(value: unknown): Part[] {
  return list(value, most.parts).flatMap((part) => readPart(part) ?? []);
}

function readPart(value: unknown): Part | null {
  if (!isRecord(value)) return null;
  const file = isRecord(value.file) ? value.file : null;
  const raw = value.raw ?? file?.bytes ?? file?.fileWithBytes ?? file?.file_with_bytes;
  const url = value.url ?? file?.uri ?? file?.fileWithUri ?? file?.file_with_uri;
  const filename = foreignText(value.filename ?? file?.name, 500);
  const mediaType = foreignText(value.mediaType ?? value.media_type ?? file?.mimeType ?? file?.mime_type, 200);
  const more = {
    ...(filename && { filename }),
    ...(mediaType && { mediaType }),
    ...(isRecord(value.metadata) && { metadata: value.metadata }),
  };
  if (typeof value.text === 'string') return { text: value.text, ...more };
  if (typeof raw === 'string') return { raw, ...more };
  if (typeof url === 'string') return { url: url.slice(0, 4_000), ...more };
  if (value.data === undefined) return null;
  return { data: value.data, ...more };
}

/** REST of 0.3 writes the JSON of its proto, in which a part of data holds a message that holds the data. */
export function unwrapData(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(unwrapData);
  if (!isRecord(value)) return value;
  const { data, ...more } = value;
  const unwrapped = Object.fromEntries(Object.entries(more).map(([key, item]) => [key, unwrapData(item)]));
  if (data === undefined) return unwrapped;
  const isWrapped = isRecord(data) && Object.keys(data).length === 1 && isRecord(data.data);
  return { ...unwrapped, data: isWrapped ? data.data : data };
}

/** An id that may be kept and sent back; null for none. */
function text(value: unknown): string | null {
  return typeof value === 'string' && value !== '' && value.length <= most.id ? value : null;
}

function list(value: unknown, most: number): unknown[] {
  return Array.isArray(value) ? value.slice(0, most) : [];
}

/** The task after an event. `null` before the first. Of chunks that are appended, text goes on where it stopped. */
export function after(now: TaskNow | null, event: Exclude<RemoteEvent, { kind: 'message' }>): TaskNow {
  if (event.kind === 'task') return event.task;
  const base: TaskNow = now ?? {
    id: event.taskId,
    contextId: event.contextId,
    state: 'working',
    message: null,
    timestamp: '',
    artifacts: [],
    history: [],
  };
  if (event.kind === 'status') {
    const { state, message, timestamp, contextId } = event;
    const history = base.message ? [...base.history, base.message].slice(-most.history) : base.history;
    return { ...base, contextId: contextId ?? base.contextId, state, message, timestamp, history };
  }
  const { artifact, append } = event;
  const at = base.artifacts.findIndex(({ artifactId }) => artifactId === artifact.artifactId);
  const artifacts = [...base.artifacts];
  if (at < 0) artifacts.push(artifact);
  else if (append) artifacts[at] = { ...artifacts[at]!, parts: joined(artifacts[at]!.parts, artifact.parts) };
  else artifacts[at] = artifact;
  return { ...base, artifacts: artifacts.slice(0, most.artifacts) };
}

function joined(parts: readonly Part[], more: readonly Part[]): Part[] {
  const last = parts.at(-1);
  const [next, ...rest] = more;
  if (last?.text === undefined || next?.text === undefined) return [...parts, ...more];
  return [...parts.slice(0, -1), { ...last, text: last.text + next.text }, ...rest];
}
