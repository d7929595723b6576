import { Refusal } from '../lib/refusal.ts';
import type { Arrived, Column, Gate, Tools } from './facts.ts';

/** One row of the gate table. */
export interface Row {
  readonly name: string;
  /** What the gate asks, in a line. */
  readonly asks: string;
  readonly columns: ReadonlySet<Column>;
}

// biome-ignore lint/suspicious/noExplicitAny: rows of different gates stand in one list; `TableBuilder.row` checked each of them
type AnyRow = Row & { readonly gate: Gate<any, any> };

/** The rows in order, and `Proved`: all that a caller knows who came through every one of them. */
export interface Table<Proved> {
  readonly rows: readonly AnyRow[];
  /** Never set. Carries the type. */
  readonly proved?: Proved;
}

export interface TableBuilder<Have> extends Table<Have> {
  /** A gate that needs a fact which no earlier row proves does not compile here. */
  row<Proves>(
    name: string,
    columns: readonly Column[],
    asks: string,
    gate: Gate<Have, Proves>,
  ): TableBuilder<Have & Proves>;
}

export function table<Have = Arrived>(rows: readonly AnyRow[] = []): TableBuilder<Have> {
  return {
    rows,
    row: (name, columns, asks, gate) => table([...rows, { name, columns: new Set(columns), asks, gate }]),
  };
}

/**
 * Walks the rows of the facts' column in order, hands each gate what was proved so far and stops at the first refusal. It knows nothing
 * about any gate. A refusal that names its gate already keeps that name (unseen.ts says why).
 */
export async function walk<Proved>(
  table: Table<Proved>,
  arrived: Arrived,
  tools: Tools,
): Promise<Partial<Proved> | Refusal> {
  let facts: Arrived & Partial<Proved> = { ...arrived } as Arrived & Partial<Proved>;
  for (const { name, columns, gate } of table.rows) {
    if (!columns.has(arrived.column)) continue;
    const proved = await gate(facts, tools);
    if (proved instanceof Refusal) return proved.gate === undefined ? proved.by(name) : proved;
    facts = { ...facts, ...proved };
  }
  return facts;
}
