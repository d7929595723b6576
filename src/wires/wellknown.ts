import { LRUCache } from 'lru-cache';
import { type PublicDocument, publicDocuments, type Sources } from '../../wellknown/index.ts';
import type { Clock } from '../lib/clock.ts';
import type { HttpRequest, HttpResponse, Route } from '../lib/http.ts';
import { sha256 } from '../lib/ids.ts';

/** Anybody's page may read what the instance says about itself to strangers. */
const cors = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': 'ETag',
  'x-content-type-options': 'nosniff',
};

/** Serves the public documents with ETag, Last-Modified, Cache-Control and 304 (A2A §8.6, RFC 9110 §13). GET answers HEAD too. */
export function wellknownRoutes(sources: Sources, clock: Clock): Route[] {
  const changes = new Changes(clock);
  return publicDocuments.flatMap((document) =>
    document.paths.map((path): Route => {
      return {
        method: 'GET',
        path,
        handler: (request) => serve(document, sources, request, changes),
        about: document.about,
      };
    }),
  );
}

/** When each document was first served as it is: nobody writes down when what it is made of changed, so it may be later than that, never earlier. */
class Changes {
  readonly #clock: Clock;
  readonly #seen = new LRUCache<string, { etag: string; at: number }>({ maxSize: 10_000, sizeCalculation: () => 1 });

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  last(document: string, etag: string): number {
    const known = this.#seen.get(document);
    const change = known?.etag === etag ? known : { etag, at: this.#clock.now() };
    this.#seen.set(document, change);
    return change.at;
  }
}

async function serve(
  document: PublicDocument,
  sources: Sources,
  request: HttpRequest,
  changes: Changes,
): Promise<HttpResponse> {
  const form = isVersion1(request.headers.get('a2a-version')) ? '1.0' : 'hybrid';
  const built = await document.build(sources, { params: request.params, form });
  const vary = document.versioned ? { vary: 'A2A-Version' } : {};
  if (!built) {
    const error = { code: 'not_found', message: 'There is nothing here by that name.' };
    const headers = { ...cors, ...vary, 'content-type': 'application/json', 'cache-control': 'max-age=10' };
    return { status: 404, headers, body: JSON.stringify({ error }) };
  }
  const body = JSON.stringify(built);
  const etag = `"${sha256(body).toString('base64url').slice(0, 27)}"`;
  const headers = {
    ...cors,
    ...vary,
    etag,
    'last-modified': new Date(changes.last(`${form} ${request.path}`, etag)).toUTCString(),
    'cache-control': `public, max-age=${document.maxAge}`,
  };
  if (matches(request.headers.get('if-none-match'), etag)) return { status: 304, headers };
  return { status: 200, headers: { ...headers, 'content-type': document.mediaType }, body };
}

/** A2A §3.6: the patch number of a version counts for nothing. */
function isVersion1(version: string | undefined): boolean {
  return version !== undefined && /^1\.0(\.\d+)?$/.test(version.trim());
}

/** RFC 9110 §13.1.2: weak comparison. */
function matches(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  return ifNoneMatch.trim() === '*' || ifNoneMatch.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag);
}
