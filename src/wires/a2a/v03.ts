import { type Artifact, isRecord, type Message, type Part, type Task } from './protocol.ts';

/**
 * A2A 0.3 and 1.0 say the same in different forms (a2a-conformance §6). What arrives in 0.3 is brought into 1.0's form before it is
 * checked, so that one set of checks serves both; what leaves is brought back. Unknown members are dropped: 1.0's checks ignore them.
 */
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
    ...(pushNotificationConfig != null && { taskPushNotificationConfig: pushNotificationConfig }),
  };
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
    status: {
      state: stateToV03(status.state),
      ...(status.message && { message: messageToV03(status.message) }),
      timestamp: status.timestamp,
    },
    ...(artifacts && { artifacts: artifacts.map(artifactToV03) }),
    ...(history && { history: history.map(messageToV03) }),
    ...(metadata && { metadata }),
  };
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
