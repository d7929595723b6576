/** Names and shapes of A2A that this wire speaks. */

export type Version = '1.0' | '0.3';

/** The card's own spelling; a2a-conformance §2. */
export const supportedVersions: readonly Version[] = ['1.0', '0.3'];

export const SIGNATURE_EXTENSION = 'https://www.rfc-editor.org/rfc/rfc9421';
export const REDSYN_EXTENSION = 'https://gatehouse.dev/ext/redsyn/v1';

/** Beside an envelope whose event the gateway of its topic hands on: which topic, whose, and for which orgs. */
export const HANDED_ON = `${REDSYN_EXTENSION}/handed-on`;

/** Beside a request that a gateway carries: how many requests led to it, itself included. */
export const TURNS = `${REDSYN_EXTENSION}/turns`;
/** In the metadata of any A2A message: the addresses or DIDs of the agents that it came through, the oldest first, without its sender. */
export const HOPS_EXTENSION = 'https://gatehouse.dev/ext/hops/v1';

export type OperationName =
  | 'send'
  | 'stream'
  | 'get'
  | 'list'
  | 'cancel'
  | 'subscribe'
  | 'pushSet'
  | 'pushGet'
  | 'pushList'
  | 'pushDelete'
  | 'extendedCard';

/** JSON-RPC method names of both versions (a2a-conformance §1). The two grammars are disjoint. */
export const methods: ReadonlyMap<string, { operation: OperationName; version: Version }> = new Map([
  ...names('1.0', {
    SendMessage: 'send',
    SendStreamingMessage: 'stream',
    GetTask: 'get',
    ListTasks: 'list',
    CancelTask: 'cancel',
    SubscribeToTask: 'subscribe',
    CreateTaskPushNotificationConfig: 'pushSet',
    GetTaskPushNotificationConfig: 'pushGet',
    ListTaskPushNotificationConfigs: 'pushList',
    DeleteTaskPushNotificationConfig: 'pushDelete',
    GetExtendedAgentCard: 'extendedCard',
  }),
  ...names('0.3', {
    'message/send': 'send',
    'message/stream': 'stream',
    'tasks/get': 'get',
    'tasks/cancel': 'cancel',
    'tasks/resubscribe': 'subscribe',
    'tasks/pushNotificationConfig/set': 'pushSet',
    'tasks/pushNotificationConfig/get': 'pushGet',
    'tasks/pushNotificationConfig/list': 'pushList',
    'tasks/pushNotificationConfig/delete': 'pushDelete',
    'agent/getAuthenticatedExtendedCard': 'extendedCard',
  }),
]);

function names(
  version: Version,
  of: Record<string, OperationName>,
): [string, { operation: OperationName; version: Version }][] {
  return Object.entries(of).map(([name, operation]) => [name, { operation, version }]);
}

export type Metadata = Record<string, unknown>;

/** ProtoJSON of A2A 1.0 (a2a-conformance §6), as far as this wire writes it. Inside the wire everything is in this form. */
export interface Part {
  text?: string;
  /** Base64. */
  raw?: string;
  url?: string;
  data?: unknown;
  filename?: string;
  mediaType?: string;
  metadata?: Metadata;
}

export interface Message {
  messageId: string;
  contextId?: string;
  taskId?: string;
  role: 'ROLE_USER' | 'ROLE_AGENT';
  parts: Part[];
  metadata?: Metadata;
  extensions?: string[];
  referenceTaskIds?: string[];
}

export interface Artifact {
  artifactId: string;
  name?: string;
  description?: string;
  parts: Part[];
  metadata?: Metadata;
  extensions?: string[];
}

export interface TaskStatus {
  state: string;
  message?: Message;
  timestamp: string;
}

export interface Task {
  id: string;
  contextId: string;
  status: TaskStatus;
  artifacts?: Artifact[];
  history?: Message[];
  metadata?: Metadata;
}

/** One event of a stream (§3.2.3). */
export type StreamResponse =
  | { task: Task }
  | { message: Message }
  | { statusUpdate: { taskId: string; contextId: string; status: TaskStatus; metadata?: Metadata } }
  | { artifactUpdate: { taskId: string; contextId: string; artifact: Artifact; append: boolean; lastChunk: boolean } };

export interface TaskPushNotificationConfig {
  taskId: string;
  id: string;
  url: string;
  token?: string;
  authentication?: { scheme: string; credentials: string };
}

/** What the operations answer, in 1.0's form whatever the client speaks; the bindings bring it into hers. */
export interface Answers {
  send: { task: Task } | { message: Message };
  get: Task;
  list: { tasks: Task[]; nextPageToken: string; pageSize: number; totalSize: number };
  cancel: Task;
  pushSet: TaskPushNotificationConfig;
  pushGet: TaskPushNotificationConfig;
  pushList: { configs: TaskPushNotificationConfig[]; nextPageToken: string };
  pushDelete: Record<string, never>;
  extendedCard: object;
}

export type PlainOperation = keyof Answers;

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
