/** One measurement of one contender in one round. */
export interface Sample {
  rate: number;
  p50: number;
  p99: number;
  /** Microseconds of a core per message, of the server's process and of its database's: what a busy neighbour does not change much. */
  server?: number;
  database?: number;
}

export interface Row {
  name: string;
  samples: Sample[];
}

/** `ratio`: the median of the ratios, round by round, to the row that is named `reference`. */
export function print(title: string, unit: string, rows: readonly Row[], reference: string): void {
  const base = rows.find((row) => row.name === reference);
  const body = rows.map(({ name, samples }) => {
    const rates = samples.map((sample) => sample.rate);
    const ratios = base ? samples.map((sample, i) => sample.rate / base.samples[i]!.rate) : [];
    return [
      name,
      median(rates).toFixed(0),
      median(samples.map((sample) => sample.p50)).toFixed(2),
      median(samples.map((sample) => sample.p99)).toFixed(2),
      base ? median(ratios).toFixed(2) : '',
      micros(samples.map((sample) => sample.server)),
      micros(samples.map((sample) => sample.database)),
      Math.min(...rates).toFixed(0),
      Math.max(...rates).toFixed(0),
    ];
  });
  const head = ['name', unit, 'p50', 'p99', 'ratio', 'server µs', 'database µs', 'min', 'max'];
  const widths = head.map((cell, i) => Math.max(cell.length, ...body.map((line) => line[i]!.length)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join(' | ')} |`;
  console.log(`\n${title}\n`);
  console.log(line(head));
  console.log(`|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`);
  for (const cells of body) console.log(line(cells));
}

function micros(values: readonly (number | undefined)[]): string {
  const known = values.filter((value) => value !== undefined);
  return known.length > 0 ? median(known).toFixed(0) : '';
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

export function quantile(values: Iterable<number>, q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(Math.floor(sorted.length * q), sorted.length - 1)] ?? Number.NaN;
}

/** The word after `--name` on the command line. */
export function word(name: string): string | undefined {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? undefined : process.argv[at + 1];
}

/** `--rounds 7` on the command line, else BENCH_ROUNDS, else `fallback`. */
export function option(name: string, fallback: number): number {
  const text = word(name) ?? process.env[`BENCH_${name.toUpperCase()}`];
  const value = text === undefined ? fallback : Number(text);
  if (!Number.isFinite(value) || value <= 0) throw new Error(`--${name} takes a number`);
  return value;
}
