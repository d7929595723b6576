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
import { paramsFromV03 } from './v03.ts';

/**
 * HTTP+JSON of 0.3 speaks the JSON of its own Protocol Buffers, which is neither 0.3's JSON schema nor 1.0: `content` for `parts`, files and data
 * wrapped once more, TASK_STATE_CANCELLED. The SDK's converters for it are not exported. Bodies in the JSON schema's form are taken too.
 */
export function paramsFromProto(operation: OperationName, params: Record<string, unknown>): Record<string, unknown> {
  switch (operation) {
    case 'send':
    case 'stream': {
      const { message, configuration } = params;
      return paramsFromV03(operation, {
        ...params,
        message: isRecord(message) ? messageFromProto(message) : message,
        ...(isRecord(configuration) && {
          configuration: { pushNotificationConfig: configuration.pushNotification, ...configuration },
        }),
      });
    }
    case 'pushSet': {
      // The proto's HTTP rule puts the config alone into the body; its request message, which some send, nests it.
      const nested = isRecord(params.config) ? params.config : params;
      const pushNotificationConfig = nested.pushNotificationConfig ?? nested.push_notification_config ?? nested;
      return paramsFromV03(operation, { taskId: params.taskId, pushNotificationConfig });
    }
    default:
      return params;
  }
}

const roles: Readonly<Record<string, string>> = { ROLE_USER: 'user', ROLE_AGENT: 'agent', '1': 'user', '2': 'agent' };

function messageFromProto({
  content,
  parts = content,
  role,
  ...rest
}: Record<string, unknown>): Record<string, unknown> {
  return {
    ...rest,
    role: roles[String(role)] ?? role,
    parts: Array.isArray(parts) ? parts.map((part) => (isRecord(part) ? partFromProto(part) : part)) : parts,
  };
}

function partFromProto(part: Record<string, unknown>): Record<string, unknown> {
  if ('kind' in part) return part;
  const { text, file, data, metadata } = part;
  const more = metadata == null ? {} : { metadata };
  if (text !== undefined) return { kind: 'text', text, ...more };
  if (isRecord(data)) return { kind: 'data', data: 'data' in data ? data.data : data, ...more };
  if (!isRecord(file)) return { ...more };
  const { fileWithUri, fileWithBytes, mimeType, name } = file;
  const bytes = fileWithBytes ?? file.bytes;
  return {
    kind: 'file',
    file: {
      ...(bytes !== undefined ? { bytes } : { uri: fileWithUri ?? file.uri }),
      ...(mimeType !== undefined && { mimeType }),
      ...(name !== undefined && { name }),
    },
    ...more,
  };
}

export function answerToProto<Name extends PlainOperation>(operation: Name, value: Answers[Name]): object {
  const answer = { operation, value } as { [N in PlainOperation]: { operation: N; value: Answers[N] } }[PlainOperation];
  switch (answer.operation) {
    case 'send':
      return 'task' in answer.value
        ? { task: taskToProto(answer.value.task) }
        : { message: messageToProto(answer.value.message) };
    case 'get':
    case 'cancel':
      return taskToProto(answer.value);
    case 'list':
      return { ...answer.value, tasks: answer.value.tasks.map(taskToProto) };
    case 'pushSet':
    case 'pushGet':
      return pushToProto(answer.value);
    case 'pushList':
      return { configs: answer.value.configs.map(pushToProto), nextPageToken: answer.value.nextPageToken };
    case 'pushDelete':
    case 'extendedCard':
      return answer.value;
  }
}

export function eventToProto(event: StreamResponse, final: boolean): object {
  if ('task' in event) return { task: taskToProto(event.task) };
  if ('message' in event) return { message: messageToProto(event.message) };
  if ('statusUpdate' in event) {
    return { statusUpdate: { ...event.statusUpdate, status: statusToProto(event.statusUpdate.status), final } };
  }
  return { artifactUpdate: { ...event.artifactUpdate, artifact: artifactToProto(event.artifactUpdate.artifact) } };
}

function taskToProto({ status, artifacts, history, ...rest }: Task): object {
  return {
    ...rest,
    status: statusToProto(status),
    ...(artifacts && { artifacts: artifacts.map(artifactToProto) }),
    ...(history && { history: history.map(messageToProto) }),
  };
}

function statusToProto({ state, message, timestamp }: TaskStatus): object {
  return {
    state: state === 'TASK_STATE_CANCELED' ? 'TASK_STATE_CANCELLED' : state,
    ...(message && { message: messageToProto(message) }),
    timestamp,
  };
}

function messageToProto({ parts, referenceTaskIds: _, ...rest }: Message): object {
  return { ...rest, content: parts.map(partToProto) };
}

function artifactToProto({ parts, ...rest }: Artifact): object {
  return { ...rest, parts: parts.map(partToProto) };
}

function partToProto({ text, raw, url, data, filename, mediaType, metadata }: Part): object {
  const more = metadata && { metadata };
  if (text !== undefined) return { text, ...more };
  if (data !== undefined) return { data: { data: isRecord(data) ? data : { value: data } }, ...more };
  const name = filename !== undefined && { name: filename };
  const type = mediaType !== undefined && { mimeType: mediaType };
  return {
    file: { ...(raw === undefined ? { fileWithUri: url } : { fileWithBytes: raw }), ...name, ...type },
    ...more,
  };
}

function pushToProto({ taskId, id, url, token, authentication }: TaskPushNotificationConfig): object {
  const more = authentication && {
    authentication: { schemes: [authentication.scheme], credentials: authentication.credentials },
  };
  return {
    name: `tasks/${taskId}/pushNotificationConfigs/${id}`,
    pushNotificationConfig: { id, url, ...(token !== undefined && { token }), ...more },
  };
}
