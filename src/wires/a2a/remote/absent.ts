import type { FetchResult } from '../../../lib/fetch-types.ts';
import { readJson } from '../../../lib/json.ts';
import { Refusal } from '../../../lib/refusal.ts';
import { isRecord } from '../protocol.ts';

const notFound = -32001;
const notCancelable = -32002;

/** TaskNotFoundError of either binding (A2A §5.4). Plain servers of 0.3's REST have nothing but the status. */
export function isUnknownTask(answer: FetchResult): boolean {
  return saysError(answer, notFound, 'TASK_NOT_FOUND') || (answer.status === 404 && errorOf(answer) !== null);
}

/** TaskNotCancelableError: it has ended, or its agent cannot stop. */
export function isNotCancelable(answer: FetchResult): boolean {
  return saysError(answer, notCancelable, 'TASK_NOT_CANCELABLE');
}

function saysError(answer: FetchResult, code: number, reason: string): boolean {
  const error = errorOf(answer);
  if (!error) return false;
  const details: unknown[] = [error.data, error.details].flat();
  return error.code === code || details.some((detail) => isRecord(detail) && detail.reason === reason);
}

function errorOf({ body, status }: FetchResult): Record<string, unknown> | null {
  const json = readJson(body);
  if (json instanceof Refusal || !isRecord(json.value)) return null;
  const { error } = json.value;
  return isRecord(error) ? error : status >= 400 ? json.value : null;
}
