import type { Db, Queryable } from '../../db/types.ts';
import type { Sealer } from '../../identity/sealing.ts';
import type { Clock } from '../../lib/clock.ts';
import type { FetchRefused } from '../../lib/fetch-types.ts';
import { newId } from '../../lib/ids.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { seenBy, taskForAsker } from '../tasks.ts';
import type { TaskView, Viewer } from '../types.ts';
import * as store from './store.ts';

export type { PushRow } from './store.ts';

export interface PushConfig {
  taskId: string;
  id: string;
  url: string;
  /** Sent in a header of its own, so that the receiver knows us. */
  token?: string;
  authentication?: { scheme: string; credentials: string };
  /** Of A2A, as whoever registered it speaks it. */
  version: '1.0' | '0.3';
}

/** A config before it has a task. Without an id it gets one. */
export type NewPushConfig = Omit<PushConfig, 'taskId' | 'id'> & { id?: string };

/** What is owed to a webhook: the task as it stands now. */
export interface PushDue {
  config: PushConfig;
  /** The last push failed. */
  failed: boolean;
  task: TaskView;
}

export interface PushConfigsOptions {
  db: Db;
  clock: Clock;
  sealer: Pick<Sealer, 'seal' | 'open'>;
  /** What the guarded fetch would say of a URL now. */
  checkUrl(url: string): Promise<FetchRefused | undefined>;
}

const mostConfigs = 20;
const mostError = 300;
/** How long a config of an ended task is still shown; later its secrets are gone. Longer than anything waits in the outbox. */
const keptMs = 7 * 86_400_000;

/**
 * Where those who asked a task want to be told of its changes (A2A §3.1.7–10). The database owes each config a notification in the transaction that
 * changes the task (migrations/fn_tasks.sql); the outbox delivers it. Secrets are kept sealed.
 */
export class PushConfigs {
  readonly #options: PushConfigsOptions;

  constructor(options: PushConfigsOptions) {
    this.#options = options;
  }

  /** Checks what a subscriber wrote, whichever way it came (WEB-04). `at`: how it was called there. Refusal: `invalid_field`. */
  async check(config: NewPushConfig, at = ''): Promise<Refusal | undefined> {
    const { url, token, authentication } = config;
    const fault = url.length > 2048 ? 'It is too long.' : (await this.#options.checkUrl(url))?.message;
    if (fault !== undefined) return wrong(`${at}url`, `is not taken. ${fault}`);
    if (config.id !== undefined && !/^[\x21-\x7e]{1,256}$/.test(config.id))
      return wrong(`${at}id`, 'must have no blanks');
    if (token !== undefined && !isFieldValue(token, 4_096)) return wrong(`${at}token`, 'does not fit into a header');
    if (!authentication) return undefined;
    const { scheme, credentials } = authentication;
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/.test(scheme)) {
      return wrong(`${at}authentication.scheme`, 'must be a scheme of HTTP authentication');
    }
    return isFieldValue(credentials, 8_192)
      ? undefined
      : wrong(`${at}authentication.credentials`, 'does not fit into a header');
  }

  /** As the exchange takes it together with a message. `check` comes first. */
  row(config: NewPushConfig): store.PushRow {
    const { sealer, clock } = this.#options;
    const id = config.id ?? newId(clock);
    const { token, authentication } = config;
    const secrets = token === undefined && !authentication ? null : JSON.stringify({ token, ...authentication });
    return {
      id,
      url: config.url,
      destination: new URL(config.url).origin,
      secrets: secrets === null ? null : sealer.seal(Buffer.from(secrets), `push:${config.url}`).toString('base64'),
      version: config.version,
    };
  }

  async set(taskId: string, viewer: Viewer, config: NewPushConfig): Promise<PushConfig | Refusal> {
    const fault = await this.check(config);
    if (fault) return fault;
    const task = await seenBy(this.#options.db, taskId, viewer);
    if (task instanceof Refusal) return task;
    const row = this.row(config);
    const { db, clock } = this.#options;
    const q = { exchangeId: task.id, rows: [row], most: mostConfigs, now: clock.now() };
    return (await store.setConfigs(db, q)) ? { ...config, taskId: task.id, id: row.id } : tooMany();
  }

  async get(taskId: string, viewer: Viewer, id: string): Promise<PushConfig | Refusal> {
    const task = await seenBy(this.#options.db, taskId, viewer);
    if (task instanceof Refusal) return task;
    const stored = await store.configOf(this.#options.db, task.id, id);
    return stored ? this.#open(stored) : refuse('not_found', 'That task has no such push notification config.');
  }

  async list(taskId: string, viewer: Viewer): Promise<PushConfig[] | Refusal> {
    const task = await seenBy(this.#options.db, taskId, viewer);
    if (task instanceof Refusal) return task;
    return (await store.configsOf(this.#options.db, task.id)).map((stored) => this.#open(stored));
  }

  /** A second time is the same. */
  async remove(taskId: string, viewer: Viewer, id: string): Promise<Refusal | undefined> {
    const task = await seenBy(this.#options.db, taskId, viewer);
    if (task instanceof Refusal) return task;
    await store.removeConfig(this.#options.db, task.id, id);
    return undefined;
  }

  /** For the outbox. Null when the config is gone. */
  async due(taskId: string, id: string): Promise<PushDue | null> {
    const stored = await store.configOf(this.#options.db, taskId, id);
    const task = stored && (await taskForAsker(this.#options.db, taskId));
    return task ? { config: this.#open(stored), failed: stored.last_error !== null, task } : null;
  }

  /** What came of a push: its asker sees the last error with the task. Null: it was taken. */
  async record(taskId: string, id: string, error: string | null, db: Queryable = this.#options.db): Promise<void> {
    const q = { exchangeId: taskId, id, error: error?.slice(0, mostError) ?? null, now: this.#options.clock.now() };
    await store.recordPush(db, q);
  }

  async purge(): Promise<number> {
    return store.purgeConfigs(this.#options.db, this.#options.clock.now() - keptMs);
  }

  #open({ exchange_id, id, url, secrets, version }: store.StoredPush): PushConfig {
    const open = secrets && this.#options.sealer.open(secrets, `push:${url}`).toString();
    const { token, scheme, credentials } = open ? (JSON.parse(open) as Record<string, string | undefined>) : {};
    return {
      taskId: exchange_id,
      id,
      url,
      version,
      ...(token !== undefined && { token }),
      ...(scheme !== undefined && { authentication: { scheme, credentials: credentials ?? '' } }),
    };
  }
}

export function tooMany(): Refusal {
  return refuse('quota_exceeded', `A task takes at most ${mostConfigs} push notification configs.`, { status: 403 });
}

/** What may stand in a header: no line of its own can begin in it. */
function isFieldValue(text: string, most: number): boolean {
  return text.length <= most && /^[\t\x20-\x7e\x80-\xff]*$/.test(text);
}

function wrong(field: string, what: string): Refusal {
  return refuse('invalid_field', `\`${field}\` ${what}${what.endsWith('.') ? '' : '.'}`, { data: { field } });
}
