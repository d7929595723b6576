const DAY = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)';
const LONG_DAY = '(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day';
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const MONTH = `(?<month>${MONTHS.join('|')})`;
const TIME = '(?<hour>\\d\\d):(?<minute>\\d\\d):(?<second>\\d\\d)';

/** RFC 9110 §5.6.7: IMF-fixdate, and the two obsolete forms that a recipient has to read. */
const forms = [
  new RegExp(`^${DAY}, (?<day>\\d\\d) ${MONTH} (?<year>\\d{4}) ${TIME} GMT$`),
  new RegExp(`^${LONG_DAY}, (?<day>\\d\\d)-${MONTH}-(?<year>\\d\\d) ${TIME} GMT$`),
  new RegExp(`^${DAY} ${MONTH} (?<day>[ \\d]\\d) ${TIME} (?<year>\\d{4})$`),
];

/** Milliseconds since 1970, or undefined for what is in none of the three forms: an ISO date is no HTTP date. */
export function parseHttpDate(text: string, now: number): number | undefined {
  for (const form of forms) {
    const parts = form.exec(text)?.groups;
    if (!parts) continue;
    const [day, hour, minute, second] = [parts.day, parts.hour, parts.minute, parts.second].map(Number) as [
      number,
      number,
      number,
      number,
    ];
    if (hour > 23 || minute > 59 || second > 59) return undefined;
    const month = MONTHS.indexOf(parts.month!);
    const date = new Date(Date.UTC(fullYear(parts.year!, now), month, day, hour, minute, second));
    return date.getUTCDate() === day && date.getUTCMonth() === month ? date.getTime() : undefined;
  }
  return undefined;
}

export function formatHttpDate(time: number): string {
  return new Date(time).toUTCString();
}

/** Two digits mean the last year of that ending that is not more than 50 years ahead. */
function fullYear(digits: string, now: number): number {
  if (digits.length === 4) return Number(digits);
  const thisYear = new Date(now).getUTCFullYear();
  const year = thisYear - (thisYear % 100) + Number(digits);
  return year > thisYear + 50 ? year - 100 : year;
}
