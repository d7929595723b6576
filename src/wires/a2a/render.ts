import type { Accepted } from '../../exchange/types.ts';
import { stateName } from './fold.ts';
import { type Message, REDSYN_EXTENSION, type Task } from './protocol.ts';

/** A task that was just opened: no look-up is needed to answer the sender. */
export function openedTask(accepted: Accepted, now: number, message: Message | undefined): Task {
  const { exchangeId, thread } = accepted;
  return {
    id: exchangeId,
    contextId: thread,
    status: { state: stateName(accepted.state), timestamp: new Date(now).toISOString() },
    ...(message && { history: [{ ...message, contextId: thread, taskId: exchangeId }] }),
  };
}

/** What the REDSYN extension adds to the answer: what `POST /redsyn/v1/messages` would have said. */
export function redsynAnswer(accepted: Accepted): Record<string, unknown> {
  const { id, thread, to, signed, duplicate, warning } = accepted;
  return { [REDSYN_EXTENSION]: { id, thread, to, signed, duplicate, ...(warning && { warning }) } };
}
