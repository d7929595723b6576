import type { Principal } from '../../exchange/sender.ts';
import type { TaskView, Viewer } from '../../exchange/types.ts';
import type { HttpRequest } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { findTenant } from './addressee.ts';
import { TaskFold } from './fold.ts';
import { readGetParams, type TaskParams } from './parse.ts';
import type { Answers } from './protocol.ts';
import { type A2aDeps, type Asked, tenantFrom } from './send.ts';

/** GetTask. */
export async function get(deps: A2aDeps, asked: Asked): Promise<Answers['get'] | Refusal> {
  const params = readGetParams(asked.params);
  if (params instanceof Refusal) return params;
  const seen = await taskSeen(deps, asked, params);
  return seen instanceof Refusal
    ? seen
    : TaskFold.of(seen.task, deps.files).task({ historyLength: params.historyLength });
}

/**
 * The caller's task. Somebody else's, and a task of another agent than the one that was called, are told apart from a missing one by
 * nobody (§13.1).
 */
export async function taskSeen(
  deps: A2aDeps,
  { request, pathTenant }: Asked,
  { tenant, id }: TaskParams,
): Promise<{ task: TaskView; viewer: Viewer } | Refusal> {
  const named = tenantFrom(pathTenant, tenant);
  if (named instanceof Refusal) return named;
  const viewer = await whoLooks(deps, request);
  if (viewer instanceof Refusal) return viewer;
  const task = await deps.exchange.task(id, viewer);
  if (task instanceof Refusal) return task;
  if (named !== undefined) {
    const found = await findTenant(named, deps.finder, deps.authority);
    if (found instanceof Refusal) return found;
    if (found.agent?.id !== task.asked.agentId) return refuse('not_found', 'Task not found.');
  }
  return { task, viewer };
}

/** Who proves nothing may look at what nobody asked: such a task has no owner but whoever knows its id. */
export async function whoLooks({ gates }: Pick<A2aDeps, 'gates'>, request: HttpRequest): Promise<Viewer | Refusal> {
  const principal = await gates.identify({
    wire: 'a2a',
    operation: 'read',
    request,
    answers: 'poll',
    idempotent: false,
  });
  if (!(principal instanceof Refusal)) return viewerOf(principal);
  return principal.code === 'unauthenticated' && !carriesProof(request) ? { kind: 'anonymous' } : principal;
}

function viewerOf(principal: Principal): Viewer {
  switch (principal.kind) {
    case 'node':
      return { kind: 'member', memberIds: principal.node.members.map((member) => member.id) };
    case 'agent':
      return { kind: 'agent', memberId: principal.member.id, address: principal.agent.address };
    case 'signer':
    case 'did-key':
      return { kind: 'peer', did: principal.did };
    case 'anonymous':
      return { kind: 'anonymous' };
  }
}

export function carriesProof({ headers }: HttpRequest): boolean {
  return ['authorization', 'signature', 'signature-input'].some((name) => headers.get(name) !== undefined);
}
