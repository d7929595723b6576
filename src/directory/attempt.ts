import type { Db, Tx } from '../db/types.ts';
import { Refusal } from '../lib/refusal.ts';

class RolledBack extends Error {
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.words);
    this.refusal = refusal;
  }
}

/** A transaction that a refusal rolls back: whatever was written before it is undone, and the refusal is the result. */
export async function attempt<T>(db: Db, work: (tx: Tx) => Promise<T | Refusal>): Promise<T | Refusal> {
  try {
    return await db.tx(async (tx) => {
      const result = await work(tx);
      if (result instanceof Refusal) throw new RolledBack(result);
      return result;
    });
  } catch (error) {
    if (error instanceof RolledBack) return error.refusal;
    throw error;
  }
}
