import { Refusal } from '../../lib/refusal.ts';
import { findFrontDesk, findTenant } from './addressee.ts';
import { TaskFold } from './fold.ts';
import { whoLooks } from './get.ts';
import { readListParams } from './parse.ts';
import type { Answers } from './protocol.ts';
import { type A2aDeps, type Asked, tenantFrom } from './send.ts';

/**
 * ListTasks: what the caller asked, of the agent that is named, or of all. A caller that proves nothing owns no tasks but those of a context whose
 * id it was told here. History is left out unless it is asked for.
 */
export async function list(
  deps: A2aDeps,
  { params: given, request, pathTenant }: Asked,
): Promise<Answers['list'] | Refusal> {
  const params = readListParams(given);
  if (params instanceof Refusal) return params;
  const tenant = tenantFrom(pathTenant, params.tenant);
  if (tenant instanceof Refusal) return tenant;
  const viewer = await whoLooks(deps, request);
  if (viewer instanceof Refusal) return viewer;
  const named =
    tenant === undefined
      ? await findFrontDesk(deps.finder, deps.authority)
      : await findTenant(tenant, deps.finder, deps.authority);
  if (named instanceof Refusal) return named;
  const { pageSize, includeArtifacts, historyLength = 0 } = params;
  // Nobody is there by that name, or nobody that the caller may know of: then it has asked nothing there.
  if (tenant !== undefined && !named.agent) return { tasks: [], nextPageToken: '', pageSize, totalSize: 0 };
  const page = await deps.tasks.list(viewer, {
    thread: params.contextId ?? null,
    state: params.state ?? null,
    since: params.since ?? null,
    agentId: tenant === undefined ? null : (named.agent?.id ?? null),
    owner: named.agent?.memberId ?? null,
    pageSize,
    pageToken: params.pageToken,
  });
  if (page instanceof Refusal) return page;
  const { nextPageToken, totalSize } = page;
  const form = { historyLength, artifacts: includeArtifacts };
  return {
    tasks: page.tasks.map((task) => TaskFold.of(task, deps.files).task(form)),
    nextPageToken,
    pageSize,
    totalSize,
  };
}
