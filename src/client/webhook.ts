import { createHmac, timingSafeEqual } from 'node:crypto';
import { systemClock } from '../lib/clock.ts';

const window = 300;

/**
 * Whether a webhook delivery is genuine (REDSYN "Webhooks"): `Redsyn-Signature: t=…,v1=…` holds over the raw body, and `t` lies within 300 s of
 * `now` (milliseconds). Constant time. `secret` is what `setWebhook` answered, `body` the very bytes that came, before any JSON parser.
 */
export function verifyWebhook(
  headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>,
  body: string | Uint8Array,
  secret: string,
  now: number = systemClock.now(),
): boolean {
  const field = headerOf(headers, 'redsyn-signature');
  if (field === undefined || field.length > 1_000) return false;
  const parts = field.split(',').map((part) => part.trim().split('='));
  const times = parts.filter(([name]) => name === 't').map(([, value]) => value ?? '');
  const [t = ''] = times;
  if (times.length !== 1 || !/^\d{1,15}$/.test(t) || Math.abs(now / 1000 - Number(t)) > window) return false;
  const expected = createHmac('sha256', secret).update(`${t}.`).update(body).digest();
  return parts.some(([name, value = '']) => {
    if (name !== 'v1' || !/^[0-9a-f]{64}$/i.test(value)) return false;
    return timingSafeEqual(expected, Buffer.from(value, 'hex'));
  });
}

function headerOf(
  headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>,
  name: string,
): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined;
  const key = Object.keys(headers).find((each) => each.toLowerCase() === name);
  const value = key === undefined ? undefined : headers[key];
  return typeof value === 'string' ? value : value?.[0];
}
