import { Refusal } from '../../lib/refusal.ts';
import { type RpcError, unsupportedOperation } from './errors.ts';
import { TaskFold } from './fold.ts';
import { taskSeen } from './get.ts';
import { readTaskParams } from './parse.ts';
import type { A2aDeps, Asked } from './send.ts';
import { follow, type TaskStream } from './stream.ts';

/** SubscribeToTask: the task as it stands, then what comes. One that has ended is refused in 1.0 (§3.1.6); 0.3 gets it, and the stream's end. */
export async function subscribe(deps: A2aDeps, asked: Asked): Promise<TaskStream | Refusal | RpcError> {
  const params = readTaskParams(asked.params);
  if (params instanceof Refusal) return params;
  const seen = await taskSeen(deps, asked, params);
  if (seen instanceof Refusal) return seen;
  const watch = await deps.tasks.watch(seen.task.id, seen.viewer);
  if (watch instanceof Refusal) return watch;
  const fold = TaskFold.of(watch.view, deps.files);
  if (fold.isFinal && asked.version === '1.0') {
    watch.close();
    return unsupportedOperation('That task has ended: nothing more will come. Ask for it with GetTask.');
  }
  return follow(watch, fold, [{ event: { task: fold.task({ historyLength: undefined }) }, final: fold.isFinal }]);
}
