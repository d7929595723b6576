import {
  type Answers,
  type Artifact,
  isRecord,
  type Message,
  type OperationName,
  type Part,
  type PlainOperation,
  type StreamResponse,
  type Task,
  type TaskPushNotificationConfig,
  type TaskStatus,
} from './protocol.ts';

/**
 * A2A 0.3 and 1.0 say the same in different forms (a2a-conformance §6). What arrives in 0.3 is brought into 1.0's form before it is
 * checked, so that one set of checks serves both; what leaves is brought back. Unknown members are dropped: 1.0's checks ignore them.
 */
export function paramsFromV03(operation: OperationName, params: Record<string, unknown>): Record<string, unknown> {
  switch (operation) {
    case 'send':
    case 'stream':
      return sendParamsFromV03(params);
    case 'pushSet': {
      const { pushNotificationConfig: config } = params;
      const flat = isRecord(config) ? pushFromV03(config) : {};
      return { taskId: params.taskId, id: defaultConfigId, ...flat };
    }
    case 'pushGet':
    case 'pushDelete':
      return { taskId: params.id, id: params.pushNotificationConfigId ?? defaultConfigId };
    case 'pushList':
      return { taskId: params.id };
    default:
      return params;
  }
}

/** 0.3 lets a task have a config without an id, and asks for it without one. */
const defaultConfigId = 'default';

export function sendParamsFromV03(params: Record<string, unknown>): Record<string, unknown> {
  const { configuration } = params;
  return {
    ...params,
    message: isRecord(params.message) ? messageFromV03(params.message) : params.message,
    configuration: isRecord(configuration) ? configurationFromV03(configuration) : { returnImmediately: true },
  };
}

/** 0.3 does not define what an absent `blocking` means; its compatibility kit expects an answer at once. */
function configurationFromV03({
  blocking,
  pushNotificationConfig,
  ...rest
}: Record<string, unknown>): Record<string, unknown> {
  return {
    ...rest,
    returnImmediately: typeof blocking === 'boolean' || blocking === undefined ? !blocking : blocking,
    ...(pushNotificationConfig != null && {
      taskPushNotificationConfig: isRecord(pushNotificationConfig)
        ? { id: defaultConfigId, ...pushFromV03(pushNotificationConfig) }
        : pushNotificationConfig,
    }),
  };
}

/** 1.0 has one scheme where 0.3 lists several: the first is used. */
function pushFromV03({ id, url, token, authentication }: Record<string, unknown>): Record<string, unknown> {
  return {
    ...(id != null && id !== '' && { id }),
    url,
    token,
    ...(authentication != null && { authentication: authenticationFromV03(authentication) }),
  };
}

/** One that names neither a scheme nor credentials is none. */
function authenticationFromV03(value: unknown): unknown {
  if (!isRecord(value)) return value;
  const { schemes, credentials } = value;
  const [scheme] = Array.isArray(schemes) ? (schemes as unknown[]) : [];
  return scheme == null && (credentials == null || credentials === '') ? undefined : { scheme, credentials };
}

function pushToV03({ taskId, id, url, token, authentication }: TaskPushNotificationConfig): object {
  const more = authentication && {
    authentication: { schemes: [authentication.scheme], credentials: authentication.credentials },
  };
  return { taskId, pushNotificationConfig: { id, url, ...(token !== undefined && { token }), ...more } };
}

/** What an operation answers in 0.3 (JSON-RPC): bare where 1.0 wraps. */
export function answerToV03<Name extends PlainOperation>(operation: Name, value: Answers[Name]): object | null {
  const answer = { operation, value } as { [N in PlainOperation]: { operation: N; value: Answers[N] } }[PlainOperation];
  switch (answer.operation) {
    case 'send':
      return 'task' in answer.value ? taskToV03(answer.value.task) : messageToV03(answer.value.message);
    case 'get':
    case 'cancel':
      return taskToV03(answer.value);
    case 'list':
      return { ...answer.value, tasks: answer.value.tasks.map(taskToV03) };
    case 'pushSet':
    case 'pushGet':
      return pushToV03(answer.value);
    case 'pushList':
      return answer.value.configs.map(pushToV03);
    case 'pushDelete':
      return null;
    case 'extendedCard':
      return answer.value;
  }
}

/** `final`: nothing follows on this stream. */
export function eventToV03(event: StreamResponse, final: boolean): object {
  if ('task' in event) return taskToV03(event.task);
  if ('message' in event) return messageToV03(event.message);
  if ('statusUpdate' in event) {
    const { status, ...rest } = event.statusUpdate;
    return { kind: 'status-update', ...rest, status: statusToV03(status), final };
  }
  const { artifact, ...rest } = event.artifactUpdate;
  return { kind: 'artifact-update', ...rest, artifact: artifactToV03(artifact) };
}

const roles: Readonly<Record<string, string>> = { user: 'ROLE_USER', agent: 'ROLE_AGENT' };

export function messageFromV03(message: Record<string, unknown>): Record<string, unknown> {
  const { role, parts, kind: _, ...rest } = message;
  return {
    ...rest,
    role: typeof role === 'string' ? (roles[role] ?? `0.3 ${role}`) : role,
    parts: Array.isArray(parts) ? parts.map((part) => (isRecord(part) ? partFromV03(part) : part)) : parts,
  };
}

/** Whether a stored message is in 0.3's form. */
export function isV03Message(message: Record<string, unknown>): boolean {
  return typeof message.role === 'string' && message.role in roles;
}

function partFromV03(part: Record<string, unknown>): Record<string, unknown> {
  const { kind, metadata } = part;
  const more = metadata == null ? {} : { metadata };
  if (kind === 'text') return { text: part.text, ...more };
  if (kind === 'data') return { data: part.data, ...more };
  if (kind !== 'file' || !isRecord(part.file)) return more;
  const { bytes, uri, name, mimeType } = part.file;
  return {
    ...(bytes !== undefined && { raw: bytes }),
    ...(uri !== undefined && { url: uri }),
    ...(name !== undefined && { filename: name }),
    ...(mimeType !== undefined && { mediaType: mimeType }),
    ...more,
  };
}

export function taskToV03(task: Task): object {
  const { id, contextId, status, artifacts, history, metadata } = task;
  return {
    kind: 'task',
    id,
    contextId,
    status: statusToV03(status),
    ...(artifacts && { artifacts: artifacts.map(artifactToV03) }),
    ...(history && { history: history.map(messageToV03) }),
    ...(metadata && { metadata }),
  };
}

function statusToV03({ state, message, timestamp }: TaskStatus): object {
  return { state: stateToV03(state), ...(message && { message: messageToV03(message) }), timestamp };
}

function stateToV03(state: string): string {
  return state.replace('TASK_STATE_', '').toLowerCase().replaceAll('_', '-');
}

export function messageToV03({ role, parts, ...rest }: Message): object {
  return { kind: 'message', ...rest, role: role === 'ROLE_USER' ? 'user' : 'agent', parts: parts.map(partToV03) };
}

function artifactToV03({ parts, ...rest }: Artifact): object {
  return { ...rest, parts: parts.map(partToV03) };
}

/** 0.3 has objects alone as data, and no media type on text and data. */
function partToV03({ text, raw, url, data, filename, mediaType, metadata }: Part): object {
  const more = metadata && { metadata };
  if (text !== undefined) return { kind: 'text', text, ...more };
  if (data !== undefined) return { kind: 'data', data: isRecord(data) ? data : { value: data }, ...more };
  const name = filename !== undefined && { name: filename };
  const type = mediaType !== undefined && { mimeType: mediaType };
  return { kind: 'file', file: { ...(raw === undefined ? { uri: url } : { bytes: raw }), ...name, ...type }, ...more };
}
