import type { PushConfig } from '../../exchange/push/index.ts';
import { Refusal } from '../../lib/refusal.ts';
import { taskSeen } from './get.ts';
import { readPushIdParams, readPushListParams, readPushSetParams } from './parse.ts';
import type { Answers, TaskPushNotificationConfig } from './protocol.ts';
import type { A2aDeps, Asked } from './send.ts';

/** CreateTaskPushNotificationConfig: the same id again replaces it. */
export async function pushSet(deps: A2aDeps, asked: Asked): Promise<Answers['pushSet'] | Refusal> {
  const params = readPushSetParams(asked.params);
  if (params instanceof Refusal) return params;
  const { taskId, id, url, token, authentication, tenant } = params;
  const seen = await taskSeen(deps, asked, { tenant, id: taskId });
  if (seen instanceof Refusal) return seen;
  const config = await deps.pushes.set(taskId, seen.viewer, {
    url,
    version: asked.version,
    ...(id !== undefined && { id }),
    ...(token !== undefined && { token }),
    ...(authentication && { authentication }),
  });
  return config instanceof Refusal ? config : shown(config);
}

/** GetTaskPushNotificationConfig. */
export async function pushGet(deps: A2aDeps, asked: Asked): Promise<Answers['pushGet'] | Refusal> {
  const params = readPushIdParams(asked.params);
  if (params instanceof Refusal) return params;
  const seen = await taskSeen(deps, asked, { tenant: params.tenant, id: params.taskId });
  if (seen instanceof Refusal) return seen;
  const config = await deps.pushes.get(params.taskId, seen.viewer, params.id);
  return config instanceof Refusal ? config : shown(config);
}

/** ListTaskPushNotificationConfigs. There are never so many that they need pages. */
export async function pushList(deps: A2aDeps, asked: Asked): Promise<Answers['pushList'] | Refusal> {
  const params = readPushListParams(asked.params);
  if (params instanceof Refusal) return params;
  const seen = await taskSeen(deps, asked, { tenant: params.tenant, id: params.taskId });
  if (seen instanceof Refusal) return seen;
  const configs = await deps.pushes.list(params.taskId, seen.viewer);
  return configs instanceof Refusal ? configs : { configs: configs.map(shown), nextPageToken: '' };
}

/** DeleteTaskPushNotificationConfig. A second time is the same. */
export async function pushDelete(deps: A2aDeps, asked: Asked): Promise<Answers['pushDelete'] | Refusal> {
  const params = readPushIdParams(asked.params);
  if (params instanceof Refusal) return params;
  const seen = await taskSeen(deps, asked, { tenant: params.tenant, id: params.taskId });
  if (seen instanceof Refusal) return seen;
  return (await deps.pushes.remove(params.taskId, seen.viewer, params.id)) ?? {};
}

function shown({ version: _, ...config }: PushConfig): TaskPushNotificationConfig {
  return config;
}
