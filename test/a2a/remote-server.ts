import { randomUUID } from 'node:crypto';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { AgentCard, Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent } from '@a2a-js/sdk';
import { V03PushNotificationSerializer } from '@a2a-js/sdk/compat/v0_3/server';
import {
  AgentEvent,
  type AgentExecutor,
  DefaultPushNotificationSender,
  DefaultRequestHandler,
  type ExecutionEventBus,
  InMemoryPushNotificationStore,
  InMemoryTaskStore,
  type RequestContext,
} from '@a2a-js/sdk/server';
import { jsonRpcHandler, restHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import express from 'express';
import type { Lifetime } from '../support/database.ts';

/** What the agent behind a server does with one message. Everything is in 1.0's JSON. */
export interface Turn {
  readonly taskId: string;
  readonly contextId: string;
  /** Of the user's message. */
  readonly text: string;
  readonly parts: unknown[];
  /** The task goes on with an earlier one. */
  readonly goesOn: boolean;
  message(parts: object[]): void;
  task(state: string, more?: object): void;
  status(state: string, text?: string): void;
  artifact(parts: object[], more?: { artifactId?: string; append?: boolean; name?: string }): void;
}

export interface Options {
  brain: (turn: Turn) => Promise<void> | void;
  versions?: readonly ('1.0' | '0.3')[];
  bindings?: readonly ('JSONRPC' | 'HTTP+JSON')[];
  streaming?: boolean;
  push?: boolean;
  /** What the card says otherwise. */
  card?: (card: Record<string, unknown>, base: string) => object;
  /** Answers before the SDK does; true: it has. */
  before?: (request: Seen, response: import('express').Response) => boolean | Promise<boolean>;
  onCancel?: (taskId: string) => void;
}

export interface Seen {
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, string | string[] | undefined>;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into what was sent
  readonly body: any;
}

export interface A2aServer {
  readonly authority: string;
  readonly base: string;
  readonly cardUrl: string;
  /** `did:web:…:agents:eve`, whose document names no card, so that it is found beside it. */
  readonly did: string;
  readonly seen: Seen[];
  /** JSON-RPC methods and REST paths that were called, in order. */
  calls(): string[];
  close(): Promise<void>;
}

/** A real A2A server on `@a2a-js/sdk`, of somebody else's making. */
export async function startA2aServer(lifetime: Lifetime, options: Options): Promise<A2aServer> {
  const { brain, versions = ['1.0'], bindings = ['JSONRPC'], streaming = false, push = false } = options;
  const app = express();
  const seen: Seen[] = [];
  const server: Server = await new Promise((resolve) => {
    const made = app.listen(0, 'localhost', () => resolve(made));
  });
  const authority = `localhost:${(server.address() as AddressInfo).port}`;
  const base = `http://${authority}`;
  const json = cardJson(base, { versions, bindings, streaming, push });
  const card = options.card ? options.card(json, base) : json;

  app.use(
    express.json({ limit: '20mb', type: ['application/json', 'application/a2a+json'] }),
    async (request, response, next) => {
      const one: Seen = {
        method: request.method,
        path: request.originalUrl,
        headers: request.headers,
        body: request.body,
      };
      seen.push(one);
      if (await options.before?.(one, response)) return;
      next();
    },
  );
  app.get(['/.well-known/agent-card.json', '/agents/eve/agent-card.json'], (_request, response) => {
    response.set('etag', '"one"').json(card);
  });

  const pushStore = new InMemoryPushNotificationStore();
  const handler = new DefaultRequestHandler(
    AgentCard.fromJSON(versions.includes('1.0') ? json : sdkCard(base, { versions, bindings, streaming, push })),
    new InMemoryTaskStore(),
    executor(brain, options.onCancel),
    undefined,
    pushStore,
    new DefaultPushNotificationSender(pushStore, { serializers: { '0.3': new V03PushNotificationSerializer() } }),
  );
  const common = {
    requestHandler: handler,
    userBuilder: UserBuilder.noAuthentication,
    legacyCompat: { enabled: versions.includes('0.3') },
  };
  app.use('/rpc', jsonRpcHandler(common));
  app.use('/rest', restHandler(common));

  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closed ??= new Promise((resolve) => {
      server.closeAllConnections();
      server.close(() => resolve());
    });
    return closed;
  };
  lifetime.after(close);
  return {
    authority,
    base,
    cardUrl: `${base}/.well-known/agent-card.json`,
    did: `did:web:${authority.replace(':', '%3A')}:agents:eve`,
    seen,
    calls: () =>
      seen.flatMap(({ method, path, body }) =>
        path.startsWith('/rpc') ? [body?.method] : path.startsWith('/rest') ? [`${method} ${path.slice(5)}`] : [],
      ),
    close,
  };
}

interface Shape {
  versions: readonly string[];
  bindings: readonly string[];
  streaming: boolean;
  push: boolean;
}

function cardJson(base: string, shape: Shape): Record<string, unknown> {
  if (shape.versions.includes('1.0')) return sdkCard(base, shape);
  // As a server writes it that knows nothing but 0.3.
  const at = (binding: string): string => `${base}${binding === 'JSONRPC' ? '/rpc' : '/rest'}`;
  const [first = 'JSONRPC'] = shape.bindings;
  return {
    protocolVersion: '0.3.0',
    name: 'eve',
    description: 'An agent.',
    version: '1',
    url: at(first),
    preferredTransport: first,
    additionalInterfaces: shape.bindings.map((binding) => ({ url: at(binding), transport: binding })),
    capabilities: { streaming: shape.streaming, pushNotifications: shape.push },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [],
  };
}

function sdkCard(base: string, { versions, bindings, streaming, push }: Shape): Record<string, unknown> {
  return {
    name: 'eve',
    description: 'An agent.',
    version: '1',
    supportedInterfaces: versions.flatMap((protocolVersion) =>
      bindings.map((protocolBinding) => ({
        url: `${base}${protocolBinding === 'JSONRPC' ? '/rpc' : '/rest'}`,
        protocolBinding,
        protocolVersion,
      })),
    ),
    capabilities: { streaming, pushNotifications: push },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [{ id: 'ask', name: 'Ask', description: 'Asks.', tags: ['ask'] }],
  };
}

function executor(brain: Options['brain'], onCancel?: (taskId: string) => void): AgentExecutor {
  const contexts = new Map<string, string>();
  return {
    async execute(context, bus) {
      contexts.set(context.taskId, context.contextId);
      await brain(turnOf(context, bus));
      bus.finished();
    },
    async cancelTask(taskId, bus) {
      onCancel?.(taskId);
      const contextId = contexts.get(taskId) ?? '';
      bus.publish(
        AgentEvent.statusUpdate(
          TaskStatusUpdateEvent.fromJSON({
            taskId,
            contextId,
            status: statusOf('TASK_STATE_CANCELED', undefined, { taskId, contextId }),
          }),
        ),
      );
      bus.finished();
    },
  };
}

function turnOf(context: RequestContext, bus: ExecutionEventBus): Turn {
  const { taskId, contextId, userMessage, task } = context;
  const ids = { taskId, contextId };
  const parts = (Message.toJSON(userMessage) as { parts?: Array<{ text?: string }> }).parts ?? [];
  return {
    taskId,
    contextId,
    text: parts.map((part) => part.text ?? '').join(''),
    parts,
    goesOn: task !== undefined,
    message: (of) =>
      bus.publish(
        AgentEvent.message(Message.fromJSON({ messageId: randomUUID(), role: 'ROLE_AGENT', contextId, parts: of })),
      ),
    task: (state, more = {}) =>
      bus.publish(
        AgentEvent.task(
          Task.fromJSON({
            ...(task ? (Task.toJSON(task) as object) : {}),
            id: taskId,
            contextId,
            status: statusOf(state, undefined, ids),
            ...more,
          }),
        ),
      ),
    status: (state, text) =>
      bus.publish(
        AgentEvent.statusUpdate(TaskStatusUpdateEvent.fromJSON({ ...ids, status: statusOf(state, text, ids) })),
      ),
    artifact: (of, { artifactId = 'a1', append = false, name } = {}) =>
      bus.publish(
        AgentEvent.artifactUpdate(
          TaskArtifactUpdateEvent.fromJSON({
            ...ids,
            artifact: { artifactId, ...(name && { name }), parts: of },
            append,
            lastChunk: true,
          }),
        ),
      ),
  };
}

function statusOf(state: string, text: string | undefined, ids: { taskId: string; contextId: string }): object {
  const message =
    text === undefined ? {} : { message: { messageId: randomUUID(), role: 'ROLE_AGENT', ...ids, parts: [{ text }] } };
  return { state, timestamp: new Date().toISOString(), ...message };
}

/** A step that a test takes by hand. */
export function gate(): { open(): void; passed: Promise<void> } {
  let open = (): void => {};
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, passed };
}
