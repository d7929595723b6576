import type { Cancels } from '../../exchange/cancel/index.ts';
import type { Gates } from '../../gates/index.ts';
import type { Clock } from '../../lib/clock.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { type RpcError, unsupportedOperation } from './errors.ts';
import { isRecord, REDSYN_EXTENSION, type Task } from './protocol.ts';
import type { Asked } from './send.ts';

export interface CancelDeps {
  gates: Pick<Gates, 'identify'>;
  cancels: Pick<Cancels, 'cancel'>;
  clock: Clock;
}

/**
 * CancelTask with the REDSYN extension in its metadata, `{"cancel": <id of the request>}`: a gateway withdraws what an owner behind it has sent. Its
 * key is hers, so nobody else's request is found. Other tasks are not canceled here: the card says so.
 */
export async function cancel(deps: CancelDeps, { call, request }: Asked): Promise<object | Refusal | RpcError> {
  const metadata = isRecord(call.params.metadata) ? call.params.metadata : {};
  const asked = metadata[REDSYN_EXTENSION];
  if (!isRecord(asked)) return unsupportedOperation('That operation is not offered here.');
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
