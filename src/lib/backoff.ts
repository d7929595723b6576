export interface Backoff {
  /** Milliseconds before the second try. */
  readonly baseMs: number;
  /** No delay is longer, jitter included. */
  readonly capMs: number;
}

const jitter = 0.2;

/**
 * Milliseconds to wait after the `attempt`-th failure (the first is 1): doubled each time up to the cap, ±20 % so that a thousand
 * senders do not come back in the same second (WEB-05). `random` gives numbers from 0 to below 1.
 */
export function backoff(attempt: number, { baseMs, capMs }: Backoff, random: () => number = Math.random): number {
  const centre = Math.min(baseMs * 2 ** (attempt - 1), capMs / (1 + jitter));
  return Math.round(centre * (1 + jitter * (2 * random() - 1)));
}

const imfFixdate = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/**
 * Milliseconds that a `Retry-After` field asks for (RFC 9110 §10.2.3: seconds, or a date), at most `capMs`; undefined when the field is
 * missing or says neither. A date that has passed asks for 0.
 */
export function retryAfter(field: string | undefined, now: number, capMs: number): number | undefined {
  if (field === undefined) return undefined;
  const text = field.trim();
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : imfFixdate.test(text) ? Date.parse(text) - now : Number.NaN;
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), capMs);
}
