import type { Cancels } from '../../exchange/cancel/index.ts';
import type { Gates } from '../../gates/index.ts';
import type { Clock } from '../../lib/clock.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { notCancelable, type RpcError } from './errors.ts';
import { TaskFold } from './fold.ts';
import { taskSeen } from './get.ts';
import { readTaskParams } from './parse.ts';
import { type Answers, isRecord, REDSYN_EXTENSION, type Task } from './protocol.ts';
import type { A2aDeps, Asked } from './send.ts';

export interface CancelDeps {
  gates: Pick<Gates, 'identify'>;
  cancels: Pick<Cancels, 'cancel'>;
  clock: Clock;
}

/** CancelTask: also a task that the agent has begun. */
export async function cancel(
  deps: A2aDeps & CancelDeps,
  asked: Asked,
): Promise<Answers['cancel'] | Refusal | RpcError> {
  const metadata = isRecord(asked.params.metadata) ? asked.params.metadata : {};
  const extension = metadata[REDSYN_EXTENSION];
  if (isRecord(extension)) return withdraw(deps, asked, extension);
  const params = readTaskParams(asked.params);
  if (params instanceof Refusal) return params;
  const seen = await taskSeen(deps, asked, params);
  if (seen instanceof Refusal) return seen;
  const task = await deps.tasks.cancel(seen.task.id, seen.viewer);
  if (!(task instanceof Refusal)) return TaskFold.of(task, deps.files).task({ historyLength: undefined });
  return task.code === 'exchange_closed' || task.code === 'conflict' ? notCancelable(task, seen.task) : task;
}

/**
 * With the REDSYN extension in its metadata, `{"cancel": <id of the request>}`: a gateway withdraws what an owner behind it has sent. Its key is hers,
 * so nobody else's request is found.
 */
async function withdraw(deps: CancelDeps, { request }: Asked, asked: Record<string, unknown>): Promise<Task | Refusal> {
  const { cancel: id } = asked;
  if (typeof id !== 'string') {
    return refuse('invalid_field', 'The extension must name the request.', { data: { field: 'metadata' } });
  }
  const principal = await deps.gates.identify({
    wire: 'a2a',
    operation: 'read',
    request,
    answers: 'poll',
    idempotent: false,
  });
  if (principal instanceof Refusal) return principal;
  if (principal.kind !== 'signer' || principal.isInstance) {
    return refuse('forbidden', 'The owner of whoever asked withdraws it, with her own key.');
  }
  const done = await deps.cancels.cancel({ kind: 'peer', did: principal.did }, id);
  if (done instanceof Refusal) return done;
  const task: Task = {
    id,
    contextId: id,
    status: { state: 'TASK_STATE_CANCELED', timestamp: new Date(deps.clock.now()).toISOString() },
  };
  return { ...task, metadata: { [REDSYN_EXTENSION]: { canceled: true } } };
}
