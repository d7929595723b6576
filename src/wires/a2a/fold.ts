import { type A2aArtifact, type A2aMessage, readA2aBody } from '../../exchange/a2a-body.ts';
import { stateAfter } from '../../exchange/state.ts';
import type { TaskChange } from '../../exchange/task/index.ts';
import { type ExchangeState, finalStates, type TaskMessage, type TaskView } from '../../exchange/types.ts';
import { Refusal } from '../../lib/refusal.ts';
import { partsOfBody } from './body.ts';
import type { FileParts } from './files.ts';
import {
  type Artifact,
  isRecord,
  type Message,
  type Part,
  type StreamResponse,
  type Task,
  type TaskStatus,
} from './protocol.ts';
import { isV03Message, messageFromV03 } from './v03.ts';

const interrupted: ReadonlySet<ExchangeState> = new Set(['input_required', 'auth_required']);

export interface TaskForm {
  /** Messages of history at most, the newest; 0: none and no member; undefined: all (§3.2.4). */
  historyLength: number | undefined;
  /** False: no `artifacts`; true: also when there are none. Undefined: when there are some. */
  artifacts?: boolean;
}

/**
 * The messages of an exchange, one after the other, as a task and as the events of a stream: both say the same, so a stream that begins with a
 * task goes on where the task stands, and two streams tell the same in the same order.
 *
 * What the agent said last is the status message while the task is open, and history after; a plain reply is an artifact (§3.7: outputs go in
 * artifacts), or the status message when it tells of a failure. Bodies of A2A say themselves what they are.
 */
export class TaskFold {
  readonly #view: Pick<TaskView, 'id' | 'thread' | 'pushErrors'>;
  readonly #files: FileParts;
  readonly #history: Message[] = [];
  readonly #artifacts = new Map<string, Artifact>();
  #state: ExchangeState = 'submitted';
  #status: TaskStatus;
  #reason: string | null = null;

  constructor(view: Pick<TaskView, 'id' | 'thread' | 'createdAt' | 'pushErrors'>, files: FileParts) {
    this.#view = view;
    this.#files = files;
    this.#status = { state: stateName('submitted'), timestamp: timeOf(view.createdAt) };
  }

  static of(view: TaskView, files: FileParts): TaskFold {
    const fold = new TaskFold(view, files);
    fold.take({ ...view, more: false });
    fold.#status.timestamp = timeOf(view.updatedAt);
    return fold;
  }

  get state(): ExchangeState {
    return this.#state;
  }

  get isFinal(): boolean {
    return finalStates.has(this.#state);
  }

  /** It waits for its asker (§3.2.2). */
  get isInterrupted(): boolean {
    return interrupted.has(this.#state);
  }

  /** Takes what came to the task, and tells it as events. */
  take({ messages, more, state, reason, updatedAt }: Omit<TaskChange, 'view'>): StreamResponse[] {
    const events = messages.flatMap((message) =>
      message.fromAsker ? this.#asked(message) : this.#answered(message, reason),
    );
    // What no message tells: a cancel, for one.
    if (!more && state !== this.#state) {
      const { message: said, ...rest } = this.#status;
      if (!finalStates.has(state)) this.#status = rest;
      events.push(...this.#become(state, finalStates.has(state) ? undefined : said, updatedAt, reason));
    }
    return events;
  }

  task({ historyLength, artifacts }: TaskForm): Task {
    const history = this.#history;
    const kept = historyLength === undefined ? history : history.slice(Math.max(history.length - historyLength, 0));
    const shown = artifacts ?? this.#artifacts.size > 0;
    return {
      id: this.#view.id,
      contextId: this.#view.thread,
      status: { ...this.#status },
      ...(shown && { artifacts: [...this.#artifacts.values()].map((artifact) => ({ ...artifact })) }),
      ...(historyLength !== 0 && { history: [...kept] }),
      ...this.#metadata(),
    };
  }

  /** Why it failed, and which webhooks of the task do not take what they are sent: A2A has no other place for either. */
  #metadata(): { metadata?: Record<string, unknown> } {
    const errors = (this.#view.pushErrors ?? []).map(({ at, ...error }) => ({ ...error, at: timeOf(at) }));
    const metadata = {
      ...(this.#reason !== null && { reason: this.#reason }),
      ...(errors.length > 0 && { pushNotificationErrors: errors }),
    };
    return Object.keys(metadata).length > 0 ? { metadata } : {};
  }

  #asked(message: TaskMessage): StreamResponse[] {
    const events = this.isInterrupted ? this.#become('working', undefined, message.createdAt, null) : [];
    this.#keepStatusMessage();
    this.#history.push(this.#messageOf(message));
    return events;
  }

  #answered(message: TaskMessage, reason: string | null): StreamResponse[] {
    const { envelope, createdAt } = message;
    const after = stateAfter(envelope);
    const a2a = readA2aBody(envelope);
    if (a2a && !(a2a instanceof Refusal)) {
      const said = a2a.status?.message ?? a2a.message;
      const told = [
        ...(a2a.artifacts ?? []).map((artifact) => this.#artifact(artifact)),
        ...this.#fileArtifact(message),
      ];
      // Artifacts alone say nothing about a task that is at work already.
      if (!said && !a2a.status && after.state === this.#state) return told;
      return [...told, ...this.#become(after.state, said && this.#said(said, message.id), createdAt, after.reason)];
    }
    if (after.state === 'completed') {
      const told = this.#artifact({ artifactId: message.id, parts: partsOfBody(envelope.body), lastChunk: true });
      return [told, ...this.#fileArtifact(message), ...this.#become('completed', undefined, createdAt, null)];
    }
    // Why the gateway itself ended it stands beside the notice, not in it.
    const why = finalStates.has(after.state) ? (reason ?? after.reason) : null;
    return [...this.#fileArtifact(message), ...this.#become(after.state, this.#messageOf(message), createdAt, why)];
  }

  #fileArtifact(message: TaskMessage): StreamResponse[] {
    if (!hasFiles(message)) return [];
    const parts = [this.#files.part(message)];
    return [this.#artifact({ artifactId: `${message.id}-files`, name: 'files', parts, lastChunk: true })];
  }

  #become(state: ExchangeState, message: Message | undefined, at: number, reason: string | null): StreamResponse[] {
    this.#keepStatusMessage();
    this.#state = state;
    this.#reason = reason;
    this.#status = { state: stateName(state), ...(message && { message }), timestamp: timeOf(at) };
    const { id: taskId, thread: contextId } = this.#view;
    const metadata = reason !== null && { metadata: { reason } };
    return [{ statusUpdate: { taskId, contextId, status: { ...this.#status }, ...metadata } }];
  }

  #keepStatusMessage(): void {
    if (!this.#status.message) return;
    this.#history.push(this.#status.message);
    const { message: _, ...rest } = this.#status;
    this.#status = rest;
  }

  #artifact({ append = false, lastChunk = false, ...artifact }: A2aArtifact): StreamResponse {
    const before = append ? this.#artifacts.get(artifact.artifactId) : undefined;
    this.#artifacts.set(artifact.artifactId, {
      ...before,
      ...artifact,
      parts: [...(before?.parts ?? []), ...artifact.parts],
    });
    const { id: taskId, thread: contextId } = this.#view;
    return { artifactUpdate: { taskId, contextId, artifact, append, lastChunk } };
  }

  #said({ messageId, parts, metadata, extensions }: A2aMessage, id: string): Message {
    return {
      messageId: messageId ?? id,
      role: 'ROLE_AGENT',
      parts,
      ...(metadata && { metadata }),
      ...(extensions && { extensions }),
      contextId: this.#view.thread,
      taskId: this.#view.id,
    };
  }

  #messageOf(message: TaskMessage): Message {
    const original = message.a2aText === null ? undefined : originalOf(message.a2aText);
    return {
      ...(original ?? { messageId: message.id, parts: partsOfBody(message.envelope.body) }),
      role: message.fromAsker ? 'ROLE_USER' : 'ROLE_AGENT',
      contextId: this.#view.thread,
      taskId: this.#view.id,
    };
  }
}

/** Files that are sealed end to end are for who can open them, and they have an inbox. */
function hasFiles({ kind, envelope }: TaskMessage): boolean {
  return kind === 'reply' && envelope.files != null && envelope.body.enc === undefined;
}

/** A task that an agent answered at once with a message and nothing else: A2A lets it be no task then (§3.1.1). */
export function bareMessage({ thread, messages }: TaskView): Message | undefined {
  const [, reply, ...more] = messages;
  if (reply?.kind !== 'reply' || more.length > 0 || hasFiles(reply)) return undefined;
  const a2a = readA2aBody(reply.envelope);
  if (!a2a || a2a instanceof Refusal || !a2a.message || a2a.status || a2a.artifacts || reply.envelope.error === true) {
    return undefined;
  }
  const { messageId, parts, metadata, extensions } = a2a.message;
  return {
    messageId: messageId ?? reply.id,
    role: 'ROLE_AGENT',
    parts,
    ...(metadata && { metadata }),
    ...(extensions && { extensions }),
    contextId: thread,
  };
}

export function stateName(state: ExchangeState): string {
  return `TASK_STATE_${state.toUpperCase()}`;
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}

/** It was checked when it came; only its version is open. */
function originalOf(text: string): Pick<Message, 'messageId' | 'parts'> | undefined {
  const parsed: unknown = JSON.parse(text);
  if (!isRecord(parsed)) return undefined;
  const message = isV03Message(parsed) ? messageFromV03(parsed) : parsed;
  const { messageId, message_id, parts, metadata, extensions, referenceTaskIds } = message;
  return {
    messageId: String(messageId ?? message_id),
    parts: parts as Part[],
    ...(isRecord(metadata) && { metadata }),
    ...(Array.isArray(extensions) && { extensions }),
    ...(Array.isArray(referenceTaskIds) && { referenceTaskIds }),
  };
}
