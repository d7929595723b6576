/**
 * The A2A server that `@a2a-js/sdk`'s README builds, as a process: no authentication. `memory`: its in-memory store; `postgres`: its own database
 * store, on the tables of `a2a-db upgrade`. `message`: the agent answers with a message, which no store keeps; `task`: with a task.
 */
import type { AddressInfo } from 'node:net';
import { AgentCard, Message, Task } from '@a2a-js/sdk';
import {
  AgentEvent,
  type AgentExecutor,
  DefaultRequestHandler,
  InMemoryTaskStore,
  type TaskStore,
} from '@a2a-js/sdk/server';
import { DatabaseTaskStore } from '@a2a-js/sdk/server/database';
import { jsonRpcHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import express from 'express';
import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';

const [store, answer] = process.argv.slice(2);

const executor: AgentExecutor = {
  async execute({ taskId, contextId, userMessage }, bus) {
    if (answer === 'message') {
      bus.publish(
        AgentEvent.message(
          Message.fromJSON({
            messageId: `re-${userMessage.messageId}`,
            role: 'ROLE_AGENT',
            contextId,
            parts: [{ text: 'taken' }],
          }),
        ),
      );
    } else {
      const status = { state: 'TASK_STATE_COMPLETED', timestamp: new Date().toISOString() };
      const history = [Message.toJSON(userMessage)];
      bus.publish(AgentEvent.task(Task.fromJSON({ id: taskId, contextId, status, history })));
    }
    bus.finished();
  },
  async cancelTask() {},
};

const card = AgentCard.fromJSON({
  name: 'bench',
  description: 'Takes messages.',
  version: '1',
  supportedInterfaces: [{ url: 'http://localhost/rpc', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
  capabilities: {},
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [],
});
const requestHandler = new DefaultRequestHandler(card, taskStore(), executor);
const app = express();
app.use('/rpc', jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
const server = app.listen(0, '127.0.0.1', () => {
  console.log(`port ${(server.address() as AddressInfo).port}`);
});

function taskStore(): TaskStore {
  if (store !== 'postgres') return new InMemoryTaskStore();
  const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 32 });
  return new DatabaseTaskStore(new Kysely({ dialect: new PostgresDialect({ pool }) }));
}
