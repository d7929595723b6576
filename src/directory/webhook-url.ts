import type { FetchRefused } from '../lib/fetch-types.ts';

export interface UrlRules {
  /** What the guarded fetch says of a URL (src/lib/fetch.ts). */
  checkUrl(url: string): Promise<FetchRefused | undefined>;
  /** GATEHOUSE_URL is loopback: a webhook may be on loopback too, over http. */
  loopback: boolean;
}

const longestUrl = 2_000;
/** Names that nobody on the Internet can look up (RFC 6761, RFC 6762, RFC 8375, and `internal`, set aside by ICANN in 2024). */
const neverPublic = /(?:^|\.)(?:local|localhost|internal|invalid|onion|home\.arpa)$/;

/** What is wrong with the URL of a webhook, in words that follow its name. The sender of each push looks again (WEB-04). */
export async function webhookUrlFault(url: string, { checkUrl, loopback }: UrlRules): Promise<string | undefined> {
  if (url.length > longestUrl) return `is longer than ${longestUrl} characters.`;
  if (/[^\x21-\x7e]/.test(url) || url.includes('#') || !URL.canParse(url)) {
    return 'must be a URL in printable ASCII, without blanks and without a fragment.';
  }
  const refused = await checkUrl(url);
  if (refused) return `is not taken: ${refused.message}`;
  const { hostname } = new URL(url);
  const name = hostname.replace(/\.$/, '');
  const isLocal = /^(?:(?:.+\.)?localhost|127\.[\d.]+|\[::1\])$/.test(name);
  if (isLocal && loopback) return undefined;
  return !name.includes('.') || neverPublic.test(name) ? 'must name a public host.' : undefined;
}
