import { foregroundClock } from '../lib/clock.ts';
import { Http } from './http.ts';

/** Redeems the one-time code of an invitation for the token of a new node. */
export async function login(
  url: string,
  code: string,
  node: string,
): Promise<{ token: string; person: { id: string; email: string | null } }> {
  const http = new Http({
    url,
    token: null,
    fetch,
    clock: foregroundClock,
    retries: { tries: 1, baseMs: 0, capMs: 0 },
  });
  return http.call('POST', '/login', { code, node });
}
