import type { Accepted, ExchangeState, TaskMessage, TaskView } from '../../exchange/types.ts';
import { partsOfBody } from './body.ts';
import { isRecord, type Message, type Part, REDSYN_EXTENSION, type Task, type Version } from './protocol.ts';
import { isV03Message, messageFromV03, taskToV03 } from './v03.ts';

export interface TaskForm {
  version: Version;
  /** Messages of history at most, the newest; 0: none and no member; undefined: all (§3.2.4). */
  historyLength: number | undefined;
}

/** The answer to a send: bare in 0.3, wrapped in 1.0 (a2a-conformance §6). */
export function sendResult(task: Task, version: Version): object {
  return version === '1.0' ? { task } : taskToV03(task);
}

export function taskResult(view: TaskView, form: TaskForm): object {
  const task = taskOf(view, form);
  return form.version === '1.0' ? task : taskToV03(task);
}

/**
 * An exchange as a task. What the agent said on the way is history, and the last of it the status message while the task is open; a reply is
 * the artifact (§3.7: outputs go in artifacts), or the status message when it tells of a failure.
 */
export function taskOf(view: TaskView, { historyLength }: Pick<TaskForm, 'historyLength'>): Task {
  const answers = view.messages.filter((message) => !message.fromAsker);
  const reply = answers.findLast((message) => message.kind === 'reply');
  const told = reply && view.state !== 'completed' ? reply : answers.findLast((message) => message.kind === 'progress');
  const isOver = view.state === 'completed';
  const history = view.messages
    .filter((message) => message !== reply && (isOver || message !== told))
    .map((message) => messageOf(view, message));
  const kept = historyLength === undefined ? history : history.slice(Math.max(history.length - historyLength, 0));
  return {
    id: view.id,
    contextId: view.thread,
    status: {
      state: stateOf(view.state),
      ...(told && !isOver && { message: messageOf(view, told) }),
      timestamp: new Date(view.updatedAt).toISOString(),
    },
    ...(reply && isOver && { artifacts: [{ artifactId: reply.id, parts: partsOfBody(reply.envelope.body) }] }),
    ...(historyLength !== 0 && { history: kept }),
    ...(view.reason !== null && { metadata: { reason: view.reason } }),
  };
}

/** A task that was just opened: no look-up is needed to answer the sender. */
export function openedTask(accepted: Accepted, now: number, message: Message | undefined): Task {
  const { exchangeId, thread } = accepted;
  return {
    id: exchangeId,
    contextId: thread,
    status: { state: stateOf(accepted.state), timestamp: new Date(now).toISOString() },
    ...(message && { history: [{ ...message, contextId: thread, taskId: exchangeId }] }),
  };
}

/** What the REDSYN extension adds to the answer: what `POST /redsyn/v1/messages` would have said. */
export function redsynAnswer(accepted: Accepted): Record<string, unknown> {
  const { id, thread, to, signed, duplicate } = accepted;
  return { [REDSYN_EXTENSION]: { id, thread, to, signed, duplicate } };
}

export function stateOf(state: ExchangeState): string {
  return `TASK_STATE_${state.toUpperCase()}`;
}

function messageOf(view: TaskView, message: TaskMessage): Message {
  const original = message.a2aText === null ? undefined : originalOf(message.a2aText);
  return {
    ...(original ?? { messageId: message.id, parts: partsOfBody(message.envelope.body) }),
    role: message.fromAsker ? 'ROLE_USER' : 'ROLE_AGENT',
    contextId: view.thread,
    taskId: view.id,
  };
}

/** It was checked when it came; only its version is open. */
function originalOf(text: string): Pick<Message, 'messageId' | 'parts'> | undefined {
  const parsed: unknown = JSON.parse(text);
  if (!isRecord(parsed)) return undefined;
  const message = isV03Message(parsed) ? messageFromV03(parsed) : parsed;
  const { messageId, message_id, parts, metadata, extensions } = message;
  return {
    messageId: String(messageId ?? message_id),
    parts: parts as Part[],
    ...(isRecord(metadata) && { metadata }),
    ...(Array.isArray(extensions) && { extensions }),
  };
}
