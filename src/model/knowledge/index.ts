import { isUtf8 } from 'node:buffer';
import type { Db } from '../../db/types.ts';
import { attempt } from '../../directory/attempt.ts';
import type { Clock } from '../../lib/clock.ts';
import { newId } from '../../lib/ids.ts';
import { type Refusal, refuse } from '../../lib/refusal.ts';
import type { Audience } from '../types.ts';
import { queryOf, wordsOf } from '../words.ts';
import { chunksOf } from './chunks.ts';
import * as store from './store.ts';

export type { BaseRow, DocumentRow, FoundRow } from './store.ts';

/** Of one document, as text. */
export const maxDocumentBytes = 1024 * 1024;
/** Of all documents of one owner. */
export const maxOwnerBytes = 100 * 1024 * 1024;
const maxBases = 100;
const found = 5;

/** What owners let their agents look into: texts, cut into pieces that PostgreSQL searches. */
export class Knowledge {
  readonly #db: Db;
  readonly #clock: Clock;

  constructor(deps: { db: Db; clock: Clock }) {
    this.#db = deps.db;
    this.#clock = deps.clock;
  }

  list(owners: readonly string[]): Promise<store.BaseRow[]> {
    return store.basesOf(this.#db, owners);
  }

  /** `name`: its id or its name. Somebody else's is `not_found`. */
  async base(owners: readonly string[], name: string): Promise<store.BaseRow | Refusal> {
    return (await store.baseNamed(this.#db, owners, name)) ?? refuse('not_found', 'You have no such knowledge base.');
  }

  documents(base: store.BaseRow): Promise<store.DocumentRow[]> {
    return store.documentsOf(this.#db, base.id);
  }

  /** Refusals: `conflict` when there is one of that name, `quota_exceeded` past 100. */
  async make(owner: string, name: string, shared: boolean): Promise<store.BaseRow | Refusal> {
    return attempt(this.#db, async (tx): Promise<store.BaseRow | Refusal> => {
      const { bases } = await store.lockOwner(tx, owner);
      if (bases >= maxBases)
        return refuse('quota_exceeded', `There are ${maxBases} knowledge bases already.`, { status: 403 });
      const id = newId(this.#clock);
      if (!(await store.insertBase(tx, { id, owner, name, shared, now: this.#clock.now() }))) {
        return refuse('conflict', `You have a knowledge base ${name} already.`);
      }
      return (await store.baseNamed(tx, [owner], id))!;
    });
  }

  /** Acts on the next search. */
  async share(owners: readonly string[], name: string, shared: boolean): Promise<store.BaseRow | Refusal> {
    return attempt(this.#db, async (tx): Promise<store.BaseRow | Refusal> => {
      const base = await store.baseNamed(tx, owners, name);
      if (!base) return refuse('not_found', 'You have no such knowledge base.');
      await store.setShared(tx, base.id, shared);
      return { ...base, sharedWithPeers: shared };
    });
  }

  async remove(owners: readonly string[], name: string): Promise<Refusal | undefined> {
    const done = await attempt(this.#db, async (tx): Promise<true | Refusal> => {
      const base = await store.baseNamed(tx, owners, name);
      if (!base) return refuse('not_found', 'You have no such knowledge base.');
      await store.deleteBase(tx, base.id);
      return true;
    });
    return done === true ? undefined : done;
  }

  /**
   * Puts a text in, in the place of the one of that name. Refusals: `unsupported_media_type` for what is not UTF-8 text, `payload_too_large` past 1 MiB,
   * `quota_exceeded` past the owner's 100 MiB.
   */
  async put(
    base: store.BaseRow,
    document: { name: string; url: string | null; content: Buffer },
  ): Promise<{ created: boolean; chunks: number } | Refusal> {
    const { name, url, content } = document;
    if (content.length > maxDocumentBytes) {
      return refuse('payload_too_large', 'A document holds at most 1 MiB: cut it in parts.', {
        data: { limit: maxDocumentBytes },
      });
    }
    const text = isUtf8(content) ? content.toString().replace(/^\ufeff/, '') : '\0';
    if (text.includes('\0')) {
      return refuse('unsupported_media_type', 'A document is UTF-8 text: run a PDF through pdftotext first.');
    }
    const chunks = chunksOf(text).map((chunk) => ({
      ...chunk,
      words: wordsOf(`${name} ${chunk.place} ${chunk.text}`).join(' '),
    }));
    return attempt(this.#db, async (tx): Promise<{ created: boolean; chunks: number } | Refusal> => {
      const { bytes } = await store.lockOwner(tx, base.owner);
      if (bytes + content.length > maxOwnerBytes) {
        return refuse('quota_exceeded', 'Your documents hold 100 MiB together at most.', {
          status: 403,
          data: { limit: maxOwnerBytes },
        });
      }
      const row = {
        id: newId(this.#clock),
        baseId: base.id,
        name,
        url,
        bytes: content.length,
        chunks,
        now: this.#clock.now(),
      };
      return { created: await store.putDocument(tx, row), chunks: chunks.length };
    });
  }

  async drop(base: store.BaseRow, name: string): Promise<Refusal | undefined> {
    const done = await store.deleteDocument(this.#db, base.id, name);
    return done ? undefined : refuse('not_found', 'The knowledge base has no such document.');
  }

  /** The five best pieces that this audience may see. */
  async search(audience: Audience, q: { owner: string; question: string; base?: string }): Promise<store.FoundRow[]> {
    const query = queryOf(q.question);
    return query === ''
      ? []
      : store.search(this.#db, audience, { owner: q.owner, query, base: q.base ?? null, limit: found });
  }

  visible(audience: Audience, owner: string): Promise<store.BaseRow[]> {
    return store.visible(this.#db, audience, owner);
  }
}
