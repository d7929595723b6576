import type { Principal } from '../../exchange/sender.ts';
import type { Viewer } from '../../exchange/types.ts';
import type { HttpRequest } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { findTenant } from './addressee.ts';
import { readGetParams } from './parse.ts';
import { taskResult } from './render.ts';
import { type A2aDeps, type Asked, tenantFrom } from './send.ts';

/** GetTask, `tasks/get`. Somebody else's task and a task of another agent's address are told apart from a missing one by nobody (§13.1). */
export async function get(deps: A2aDeps, { call, request, pathTenant }: Asked): Promise<object | Refusal> {
  const params = readGetParams(call.params);
  if (params instanceof Refusal) return params;
  const tenant = tenantFrom(pathTenant, params.tenant);
  if (tenant instanceof Refusal) return tenant;
  const viewer = await whoLooks(deps, request);
  if (viewer instanceof Refusal) return viewer;
  const task = await deps.exchange.task(params.id, viewer);
  if (task instanceof Refusal) return task;
  if (tenant !== undefined) {
    const named = await findTenant(tenant, deps.finder, deps.authority);
    if (named instanceof Refusal) return named;
    if (named.agent?.id !== task.asked.agentId) return refuse('not_found', 'There is no such task.');
  }
  return taskResult(task, { version: call.version, historyLength: params.historyLength });
}

/** Who proves nothing may look at what nobody asked: such a task has no owner but whoever knows its id. */
async function whoLooks({ gates }: A2aDeps, request: HttpRequest): Promise<Viewer | Refusal> {
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
