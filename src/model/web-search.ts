import { z } from 'zod';
import { type Fetch, FetchRefused } from '../lib/fetch-types.ts';
import { readJson } from '../lib/json.ts';
import { Refusal } from '../lib/refusal.ts';

export interface WebResult {
  title: string;
  url: string;
  content: string;
}

const answer = z.object({
  results: z.array(z.object({ title: z.string().nullish(), url: z.string(), content: z.string().nullish() })).max(50),
});
const most = 5;
const mostContent = 1_500;
const mostQuery = 400;

/** Tavily's search (docs.tavily.com/documentation/api-reference/endpoint/search), or what speaks its API at another URL. Null when it cannot be had. */
export async function searchWeb(
  { url, key }: { url: string; key: string },
  query: string,
  q: { fetch: Fetch; signal: AbortSignal },
): Promise<WebResult[] | null> {
  try {
    const { status, body } = await q.fetch(`${url}/search`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify({ query: query.slice(0, mostQuery), max_results: most }),
      maxBytes: 512 * 1024,
      timeoutMs: 15_000,
      signal: q.signal,
    });
    const json = status === 200 ? readJson(body) : null;
    const read = answer.safeParse(json === null || json instanceof Refusal ? null : json.value);
    if (!read.success) return null;
    return read.data.results
      .filter((result) => /^https?:\/\//i.test(result.url) && result.url.length <= 2_000)
      .slice(0, most)
      .map(({ title, url: at, content }) => ({
        title: (title || at).slice(0, 300),
        url: at,
        content: (content ?? '').slice(0, mostContent),
      }));
  } catch (error) {
    if (error instanceof FetchRefused) return null;
    throw error;
  }
}
