import type { Carrier } from '../../../exchange/carrier.ts';
import type { RemoteTask, RemoteTasks } from '../../../exchange/remote/index.ts';
import type { OutboxItem, SendResult } from '../../../outbox/types.ts';
import { answersOf } from './answers.ts';
import type { CallDeps, Endpoint } from './calls.ts';
import type { CardFinder } from './finder.ts';
import type { TaskNow } from './form.ts';

/** What the client of A2A servers needs of the house. */
export interface RemoteOptions extends CallDeps {
  tasks: RemoteTasks;
  /** Ends a request that never got there. */
  carrier: Pick<Carrier, 'givenUp'>;
  finder: Pick<CardFinder, 'find'>;
  /** Whether what an org here sends may go there: an admin may have blocked the domain while it waited. */
  mayLeave(orgId: string, domain: string): Promise<boolean>;
  /** Another way to somebody who has no card that can be used; null when there is none either. */
  otherwise?(item: OutboxItem, name: string, signal: AbortSignal): Promise<SendResult | null>;
  /** The public base URL, for push URLs. */
  base: string;
  loopback: boolean;
  log: { warn(fields: object, words: string): void };
}

export const callTimeoutMs = 15_000;

/** What a server says of a task, told to whoever asked. Answers whether that was the end. */
export function tell(
  { tasks }: Pick<RemoteOptions, 'tasks'>,
  exchangeId: string,
  now: TaskNow,
  options: { keep?: boolean } = {},
): Promise<boolean> {
  const { id: taskId, contextId, state } = now;
  const snapshot = options.keep ? { snapshot: JSON.stringify(now) } : {};
  return tasks.answered(exchangeId, answersOf(now), { state, taskId, contextId, ...snapshot });
}

export function endpointOfTask({ endpoint }: Pick<RemoteTask, 'endpoint'>): Endpoint {
  return JSON.parse(endpoint) as Endpoint;
}

export function isOutcome(value: object | symbol): value is SendResult {
  return typeof value === 'object' && 'outcome' in value;
}
