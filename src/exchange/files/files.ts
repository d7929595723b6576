import type { Db, Queryable, Tx } from '../../db/types.ts';
import { Batcher } from '../../lib/batch.ts';
import type { Clock } from '../../lib/clock.ts';
import { replaceValue } from '../../lib/json.ts';
import { type Refusal, refuse } from '../../lib/refusal.ts';
import type { AcceptItem, AcceptRow } from '../store.ts';
import { findFiles, insertFiles, lockPayer, readZip, waitingBytes } from './store.ts';

/** A zip that came with a message, and on whose account it waits (REDSYN "Límites"). */
export interface NewZip {
  zip: Buffer;
  /** Hex, of the zip's bytes: what the message's signature covers. */
  sha256: string;
  /** 'out:<org>' or 'in:<org>' (migrations/0009_files.sql). */
  payer: string;
  /** Bytes that may wait on that account. */
  limit: number;
}

/** Within this many bytes of the limit those who send files on one account take turns, so that it is met exactly; far from it nobody waits. */
const closeToLimit = 64 * 1024 * 1024;

/** Accepts the messages with files: each in a transaction of its own with its zip, two at a time. */
export class FileAcceptances {
  readonly #batcher: Batcher<{ item: AcceptItem; files: NewZip }, AcceptRow | Refusal>;

  /** `accept` is `accept_messages` within the transaction. */
  constructor(db: Db, clock: Clock, accept: (tx: Tx, item: AcceptItem) => Promise<AcceptRow>) {
    this.#batcher = new Batcher({
      max: 1,
      inFlight: 2,
      run: async ([one]) => [await this.#one(db, clock, accept, one!.item, one!.files)],
    });
  }

  submit(item: AcceptItem, files: NewZip): Promise<AcceptRow | Refusal> {
    return this.#batcher.submit({ item, files });
  }

  drain(): Promise<void> {
    return this.#batcher.drain();
  }

  async #one(
    db: Db,
    clock: Clock,
    accept: (tx: Tx, item: AcceptItem) => Promise<AcceptRow>,
    item: AcceptItem,
    files: NewZip,
  ): Promise<AcceptRow | Refusal> {
    try {
      return await db.tx(async (tx) => {
        const row = await accept(tx, item);
        // A repeat takes no space, so whether there is any is asked last.
        if (row.outcome !== 'accepted') return row;
        if (!(await hasRoom(tx, files))) throw new NoRoom();
        await insertFiles(tx, { seq: row.seq, id: item.id, ...files }, clock.now());
        return row;
      });
    } catch (fault) {
      if (fault instanceof NoRoom) return noRoom(files);
      throw fault;
    }
  }
}

/** Stays in this file: takes the message back with its transaction. */
class NoRoom extends Error {}

async function hasRoom(tx: Tx, { zip, payer, limit }: NewZip): Promise<boolean> {
  const fits = async (spare: number): Promise<boolean> => (await waitingBytes(tx, payer)) + zip.length + spare <= limit;
  if (await fits(closeToLimit)) return true;
  await lockPayer(tx, payer);
  return fits(0);
}

function noRoom({ payer, limit }: NewZip): Refusal {
  const whose = payer.startsWith('out:') ? 'your organisation' : 'the receiving organisation';
  const size = `${Math.round(limit / (1024 * 1024))} MB`;
  return refuse('quota_exceeded', `The plan of ${whose} lets ${size} of files wait for delivery, and they are full.`, {
    status: 403,
    data: { quota: true, limit },
  }).by('quota');
}

/** The text that leaves: with the zip where its size and hash stand, as its sender wrote it. */
export async function withZip(db: Queryable, seq: number, envelopeText: string): Promise<string> {
  const zip = /"files"/.test(envelopeText) ? await readZip(db, seq) : null;
  return zip === null
    ? envelopeText
    : (replaceValue(envelopeText, ['files'], `{"zip":"${zip.toString('base64')}"}`) ?? envelopeText);
}

/**
 * The zip of the message that goes by `id` to these members: one that they sent or got, else one of their orgs (REDSYN "Mensajes"). Senders
 * choose ids, so two may have used the same one: then `from` names the sender. Refusals: `not_found`, with 410 when it was here; `conflict`.
 */
export async function readFiles(
  db: Db,
  q: { id: string; from: string | null; memberIds: readonly string[]; orgIds: readonly string[] },
): Promise<Buffer | Refusal> {
  const known = (await findFiles(db, q)).filter(({ from }) => q.from === null || isAt(from, q.from));
  if (known.length === 0) return refuse('not_found', 'There is no message with files by that id.');
  const here = known.filter((row) => row.here);
  const mine = here.filter((row) => row.mine);
  const [first, another] = mine.length > 0 ? mine : here;
  if (another) {
    return refuse('conflict', 'Several senders used that id. Add ?from=<address of the sender>.', {
      data: { field: 'from' },
    });
  }
  return (first && (await readZip(db, first.seq))) ?? gone();
}

/** With or without the sender's session. */
function isAt(address: string, asked: string): boolean {
  return address === asked || address.replace(/#.*$/, '') === asked;
}

function gone(): Refusal {
  return refuse('not_found', 'Those files were delivered, or never will be: they are no longer here.', { status: 410 });
}
