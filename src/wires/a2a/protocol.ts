/** Names and shapes of A2A that this wire speaks. */

export type Version = '1.0' | '0.3';

/** The card's own spelling; a2a-conformance §2. */
export const supportedVersions: readonly Version[] = ['1.0', '0.3'];

export const SIGNATURE_EXTENSION = 'https://www.rfc-editor.org/rfc/rfc9421';
export const REDSYN_EXTENSION = 'https://gatehouse.dev/ext/redsyn/v1';

/** Beside an envelope whose event the gateway of its topic hands on: which topic, whose, and for which orgs. */
export const HANDED_ON = `${REDSYN_EXTENSION}/handed-on`;

export type OperationName = 'send' | 'stream' | 'get' | 'list' | 'cancel' | 'subscribe' | 'push' | 'extendedCard';

/** JSON-RPC method names of both versions (a2a-conformance §1). The two grammars are disjoint. */
export const methods: ReadonlyMap<string, { operation: OperationName; version: Version }> = new Map([
  ...names('1.0', {
    SendMessage: 'send',
    SendStreamingMessage: 'stream',
    GetTask: 'get',
    ListTasks: 'list',
    CancelTask: 'cancel',
    SubscribeToTask: 'subscribe',
    CreateTaskPushNotificationConfig: 'push',
    GetTaskPushNotificationConfig: 'push',
    ListTaskPushNotificationConfigs: 'push',
    DeleteTaskPushNotificationConfig: 'push',
    GetExtendedAgentCard: 'extendedCard',
  }),
  ...names('0.3', {
    'message/send': 'send',
    'message/stream': 'stream',
    'tasks/get': 'get',
    'tasks/cancel': 'cancel',
    'tasks/resubscribe': 'subscribe',
    'tasks/pushNotificationConfig/set': 'push',
    'tasks/pushNotificationConfig/get': 'push',
    'tasks/pushNotificationConfig/list': 'push',
    'tasks/pushNotificationConfig/delete': 'push',
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

export interface Task {
  id: string;
  contextId: string;
  status: { state: string; message?: Message; timestamp: string };
  artifacts?: Artifact[];
  history?: Message[];
  metadata?: Metadata;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
