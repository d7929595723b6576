import { Command, InvalidArgumentError } from 'commander';

export interface JsonOption {
  json?: boolean;
}

/** A command that prints, for people or with `--json` for programs. */
export function command(name: string, description: string): Command {
  return new Command(name).description(description).option('--json', 'print JSON');
}

/** One object as JSON, or lines for people. */
export function print({ json }: JsonOption, value: unknown, lines: string | readonly string[]): void {
  if (json) console.log(JSON.stringify(value));
  else for (const line of [lines].flat()) console.log(line);
}

/** Columns that line up. */
export function table(rows: ReadonlyArray<readonly string[]>): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}

/** What came from elsewhere must not steer the terminal. */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, (character) =>
    character === '\r' ? '' : '\ufffd',
  );
}

/** A whole number of at least `least`, for options. */
export function wholeNumber(name: string, least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d{1,9}$/.test(text) || value < least)
      throw new InvalidArgumentError(`${name} must be a whole number of at least ${least}.`);
    return value;
  };
}

/** Seconds of a time as people write it: 90s, 15m, 12h, 30d. */
export function secondsOf(option: string): (text: string) => number {
  return (text) => {
    const [, count, unit] = /^(\d{1,8})([smhd])$/.exec(text) ?? [];
    if (count === undefined) throw new InvalidArgumentError(`write ${option} as 90s, 15m, 12h or 30d.`);
    return Number(count) * { s: 1, m: 60, h: 3_600, d: 86_400 }[unit as 's' | 'm' | 'h' | 'd'];
  };
}

export function collect(value: string, before: string[] | undefined): string[] {
  return [...(before ?? []), value];
}
