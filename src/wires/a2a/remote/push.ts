import { finalStates } from '../../../exchange/types.ts';
import type { HttpRequest, HttpResponse, Route } from '../../../lib/http.ts';
import { readJson } from '../../../lib/json.ts';
import { Refusal } from '../../../lib/refusal.ts';
import { after, readEvent, unwrapData } from './form.ts';
import { endpointOfTask, type RemoteOptions, tell } from './options.ts';
import { snapshotOf } from './poll.ts';

const maxBody = 1024 * 1024;
/** An event is only kept as long as it is small: what it leaves out, the server is asked for. */
const maxKept = 256 * 1024;

/**
 * Where A2A servers push what becomes of our tasks (A2A §4.3): either dialect, with the token of that very URL in `X-A2A-Notification-Token` or as
 * a bearer token. All that is wrong with a call looks the same. An end that comes in pieces is read from the server itself.
 */
export function pushRoute(options: Pick<RemoteOptions, 'tasks'>): Route {
  return {
    method: 'POST',
    path: '/a2a/v1/push/{id}',
    maxBody,
    about: 'Takes push notifications of tasks on A2A servers; needs the token that came with the URL',
    handler: (request) => pushed(options, request),
  };
}

async function pushed({ tasks }: Pick<RemoteOptions, 'tasks'>, request: HttpRequest): Promise<HttpResponse> {
  const token = tokenOf(request);
  const task = token === null ? null : await tasks.pushed(request.params.id ?? '', token);
  if (!task) return answer(401, { error: { code: 'unauthenticated', message: 'That is no push URL with its token.' } });
  if (task.ended) return answer(200, {});
  const { exchangeId } = task;
  const json = readJson(request.body);
  if (json instanceof Refusal) return answer(400, { error: { code: json.code, message: json.words } });
  const { version, binding } = endpointOfTask(task);
  const event = readEvent(version === '0.3' && binding === 'HTTP+JSON' ? unwrapData(json.value) : json.value);
  if (event && event.kind !== 'message' && (event.kind === 'task' ? event.task.id : event.taskId) === task.taskId) {
    const now = after(snapshotOf(task), event);
    const isWhole = event.kind === 'task' || !finalStates.has(now.state);
    const keep = JSON.stringify(now).length <= maxKept;
    if (isWhole) await tell({ tasks }, exchangeId, now, { keep });
    else if (keep) {
      const { id: taskId, contextId, state } = now;
      await tasks.answered(exchangeId, [], { state, taskId, contextId, snapshot: JSON.stringify(now) });
    }
  }
  await tasks.look(exchangeId);
  return answer(200, {});
}

function tokenOf({ headers }: HttpRequest): string | null {
  const token = headers.get('x-a2a-notification-token');
  if (token !== undefined) return token;
  return /^bearer +(\S{1,512})$/i.exec(headers.get('authorization') ?? '')?.[1] ?? null;
}

function answer(status: number, body: object): HttpResponse {
  const headers = { 'content-type': 'application/json', 'cache-control': 'no-store' };
  return {
    status,
    headers: status === 401 ? { ...headers, 'www-authenticate': 'Bearer' } : headers,
    body: JSON.stringify(body),
  };
}
