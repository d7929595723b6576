import type { Db, Tx } from '../../db/types.ts';
import { plans } from '../../directory/plans.ts';
import type { Clock } from '../../lib/clock.ts';
import { derivedId, newToken, sameSecret, sha256Hex } from '../../lib/ids.ts';
import type { Outbox } from '../../outbox/index.ts';
import { endCanceled } from '../cancel/store.ts';
import { withZip } from '../files/files.ts';
import { insertFiles, lockPayer, waitingBytes } from '../files/store.ts';
import type { Envelope } from '../message.ts';
import { acceptMessages } from '../store.ts';
import * as store from './store.ts';
import type { Opened, RemoteAnswer, RemoteRequest, RemoteTask } from './types.ts';

export type { Opened, RemoteAnswer, RemoteRequest, RemoteTask } from './types.ts';

export interface RemoteTasksDeps {
  db: Db;
  clock: Clock;
  outbox: Pick<Outbox, 'enqueue'>;
}

/** How long an answer waits for whoever asked. */
const answerTtl = 7 * 86_400_000;
const startSpread = 3_000;
/** Things told of one request at most: a server that never stops talking fills no mailbox. */
const mostTold = 1_000;
/** A cancel is worth asking for after the request itself has expired. */
const cancelTtl = 3_600_000;
/** States in which the server waits for the asker (A2A §4.1.3): what it is sent next belongs to that task. */
const asking: ReadonlySet<string> = new Set(['input_required', 'auth_required']);

/**
 * Requests to agents on A2A servers (design §6), as the exchange has them: what is sent, where it stands there, and what the agent answered. It is
 * the one way by which such an answer gets in: it was asked for by the exchange's id, of a server that this exchange names.
 */
export class RemoteTasks {
  readonly #deps: RemoteTasksDeps;

  constructor(deps: RemoteTasksDeps) {
    this.#deps = deps;
  }

  /** Null when the message is gone. */
  async load(messageSeq: number): Promise<RemoteRequest | null> {
    const { db } = this.#deps;
    const row = await store.requestBySeq(db, messageSeq);
    if (!row) return null;
    const before = await store.lastIn(db, row);
    const waits = before !== null && !before.ended && asking.has(before.state);
    return {
      exchangeId: row.exchange_id,
      messageSeq,
      messageId: row.message_id,
      envelopeText: await withZip(db, messageSeq, row.envelope),
      ownerId: row.owner,
      orgId: row.org_id,
      thread: row.thread,
      agent: row.agent,
      expiresAt: row.expires_at,
      done: row.ended || row.sent,
      before: before && {
        exchangeId: before.exchange_id,
        endpoint: before.endpoint,
        contextId: before.context_id,
        taskId: waits ? before.task_id : null,
      },
    };
  }

  task(exchangeId: string): Promise<RemoteTask | null> {
    return store.taskById(this.#deps.db, exchangeId);
  }

  taskOfRequest(messageSeq: number): Promise<RemoteTask | null> {
    return store.taskByRequest(this.#deps.db, messageSeq);
  }

  /** For a push URL of ours: `token` goes into the configuration, and comes back with every call. */
  newPush(): { id: string; token: string } {
    return { id: newToken(''), token: newToken('') };
  }

  /** The task that a push is about; null when the URL is not ours, or the token is not that URL's: nobody can tell which. */
  async pushed(pushId: string, token: string): Promise<RemoteTask | null> {
    const task = pushId.length <= 64 ? await store.taskByPush(this.#deps.db, pushId) : null;
    return sameSecret(sha256Hex(token), task?.pushToken ?? '') ? task : null;
  }

  /** The server has the request. From now on its task is followed, until the request expires. */
  async opened(request: RemoteRequest, opened: Opened): Promise<void> {
    const { db, clock, outbox } = this.#deps;
    const { exchangeId, messageSeq, ownerId: owner, thread, agent, before } = request;
    // A send whose answer is still waited for may have to be made again, with its files.
    const isOpen = opened.heldUntil > 0;
    await db.tx(async (tx) => {
      const push = opened.push && { id: opened.push.id, token: sha256Hex(opened.push.token) };
      const asker = await store.lockAsker(tx, exchangeId);
      await store.upsertTask(tx, { ...opened, push, exchangeId, owner, thread, agent, now: clock.now() });
      if (before?.taskId && before.taskId === opened.taskId)
        await store.continueTask(tx, before.exchangeId, exchangeId);
      // It was withdrawn while it was on its way.
      if (!asker) return this.#cancel(tx, exchangeId, opened.destination);
      if (await store.isFollowed(tx, exchangeId)) return;
      await outbox.enqueue(tx, {
        kind: 'a2a-task',
        destination: opened.destination,
        lane: store.laneOf(exchangeId),
        ...(isOpen && { messageSeq }),
        body: JSON.stringify({ exchange: exchangeId }),
        expiresAt: request.expiresAt,
      });
      if (isOpen) await store.keepFiles(tx, messageSeq);
    });
  }

  /** The process that waits for the answer to a send says that it still does. */
  holdOn(exchangeId: string, until: number): Promise<void> {
    return store.holdOn(this.#deps.db, exchangeId, until);
  }

  /** Nobody waits any more for the answer to a send: the request is sent again, under the same id. */
  async sendAgain(exchangeId: string): Promise<void> {
    await this.#deps.db.tx(async (tx) => {
      const lost = await store.forgetSend(tx, exchangeId);
      if (!lost) return;
      const { seq, expiresAt, destination, lane, card } = lost;
      const body = JSON.stringify({ card });
      await this.#deps.outbox.enqueue(tx, { kind: 'a2a', destination, lane, messageSeq: seq, body, expiresAt });
      await store.keepFiles(tx, seq);
    });
  }

  /** The server is asked at once. */
  async look(exchangeId: string): Promise<void> {
    await this.#deps.db.tx(async (tx) => {
      await store.dueNow(tx, exchangeId, this.#deps.clock.now());
      tx.notify('outbox');
    });
  }

  /** At a start: pushes that came while nobody was here are lost, so that their tasks are asked after. */
  async lookAtAll(): Promise<void> {
    const { db, clock } = this.#deps;
    await db.tx(async (tx) => {
      if ((await store.dueSoon(tx, clock.now(), startSpread)) > 0) tx.notify('outbox');
    });
  }

  /**
   * What the remote agent answered, as envelopes to whoever asked. Told twice it is told once; a reply ends the exchange, and those whose requests
   * went on with the same task. Answers whether the task is over.
   */
  answered(
    exchangeId: string,
    answers: readonly RemoteAnswer[],
    now: { state: string; taskId: string | null; contextId: string | null; snapshot?: string },
  ): Promise<boolean> {
    return this.#deps.db.tx(async (tx) => {
      const task = await store.lockTask(tx, exchangeId);
      if (!task) return true;
      const fresh = answers.filter(
        ({ key, kind }) => !task.told.includes(key) && (kind === 'reply' || task.told.length < mostTold),
      );
      await store.recordState(tx, {
        ...now,
        exchangeId,
        told: fresh.map(({ key }) => key),
        snapshot: now.snapshot ?? null,
      });
      for (const answer of fresh) {
        if (answer.kind === 'reply') {
          await this.#end(tx, exchangeId, answer);
          return true;
        }
        await this.#tell(tx, exchangeId, answer);
      }
      return false;
    });
  }

  /** Ends what the server will not answer any more, in the given words, and lets the server know. */
  async abandoned(tx: Tx, exchangeId: string, why: { words: string; reason: string }): Promise<void> {
    const known = (await store.lockTask(tx, exchangeId)) && (await store.taskById(tx, exchangeId));
    if (!known) return;
    const { words, reason } = why;
    await this.#end(tx, exchangeId, {
      key: `abandoned ${reason}`,
      kind: 'reply',
      state: 'failed',
      reason,
      body: { type: 'text/plain', text: words },
      a2aText: null,
      zip: null,
    });
    if (known.taskId && !known.continued) await this.#cancel(tx, exchangeId, known.destination);
  }

  /** Its own transaction. */
  fail(exchangeId: string, why: { words: string; reason: string }): Promise<void> {
    return this.#deps.db.tx((tx) => this.abandoned(tx, exchangeId, why));
  }

  /** The server has canceled it, or never had it. */
  async canceled(tx: Tx, exchangeId: string): Promise<void> {
    await store.endTasks(tx, [exchangeId], this.#deps.clock.now());
  }

  /** A reply ends the exchange, and those whose requests went on with the same task. */
  async #end(tx: Tx, exchangeId: string, reply: RemoteAnswer): Promise<void> {
    const all = [...(await store.earlierOf(tx, exchangeId)), exchangeId];
    for (const one of all) await this.#tell(tx, one, reply);
    await store.endTasks(tx, all, this.#deps.clock.now());
  }

  async #cancel(tx: Tx, exchangeId: string, destination: string): Promise<void> {
    await this.#deps.outbox.enqueue(tx, {
      kind: 'a2a-cancel',
      destination,
      lane: `a2a-cancel ${exchangeId}`,
      body: JSON.stringify({ exchange: exchangeId }),
      expiresAt: this.#deps.clock.now() + cancelTtl,
    });
  }

  async #tell(tx: Tx, exchangeId: string, answer: RemoteAnswer): Promise<void> {
    const asker = await store.lockAsker(tx, exchangeId);
    if (!asker) return;
    const now = this.#deps.clock.now();
    // Who withdrew it waits for no answer.
    if (answer.state === 'canceled' && (await store.isWithdrawn(tx, asker.request_seq))) {
      if (await endCanceled(tx, exchangeId, now)) tx.notify(`exchange:${exchangeId}`);
      return;
    }
    const id = derivedId(['a2a-answer', exchangeId, answer.key]);
    const { zip } = answer;
    const keeps =
      zip !== null && asker.org_id !== null && (await this.#hasRoom(tx, asker.org_id, asker.plan, zip.length));
    const envelope: Envelope = {
      v: 1,
      id,
      kind: answer.kind,
      from: asker.asked_addr,
      thread: asker.asker_thread,
      reply_to: asker.request_id,
      ts: Math.floor(now / 1000),
      body: answer.body,
      ...(keeps && { files: { bytes: zip.length, sha256: sha256Hex(zip) } }),
      ...(answer.kind === 'reply' && answer.state !== 'completed' && { error: true }),
    };
    const [row] = await acceptMessages(
      tx,
      [
        {
          sender: asker.asked,
          id,
          kind: answer.kind,
          from_addr: asker.asked_addr,
          to_addr: '',
          reply_to: asker.request_id,
          envelope: JSON.stringify(envelope),
          sig_payload: null,
          sig_node: null,
          a2a: answer.a2aText,
          wire: 'a2a',
          expires_at: now + answerTtl,
          proof: null,
          proof_expires: null,
          quota_org: null,
          reserved_for: null,
          target: 'asker',
          exchange_id: exchangeId,
          state: answer.state,
          reason: answer.reason,
        },
      ],
      // The statement's own NOTIFY goes to the other replicas; this process is woken when the transaction has committed.
      '',
      now,
    );
    if (row?.outcome === 'accepted' && keeps) {
      await insertFiles(tx, { seq: row.seq, id, zip, sha256: sha256Hex(zip), payer: `in:${asker.org_id}` }, now);
    }
    for (const topic of row?.wakes ?? []) tx.notify(topic);
  }

  /** What comes from elsewhere waits in a space apart (src/gates/quota.ts). An answer that does not fit comes without its files. */
  async #hasRoom(tx: Tx, orgId: string, plan: keyof typeof plans, bytes: number): Promise<boolean> {
    await lockPayer(tx, `in:${orgId}`);
    return (await waitingBytes(tx, `in:${orgId}`)) + bytes <= plans[plan].fileBytes;
  }
}
