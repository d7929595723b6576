import { timingSafeEqual } from 'node:crypto';
import type { HttpRequest, HttpResponse, Route } from '../../lib/http.ts';
import { refuse } from '../../lib/refusal.ts';
import type { Part } from './protocol.ts';
import { renderRestRefusal } from './rest.ts';

export interface TaskFilesOptions {
  /** The public base URL. */
  base: string;
  /** A keyed hash under a secret of this instance, the same on every replica. */
  mac(text: string): Buffer;
  /** The zip of a message; null: it is no longer kept. */
  read(seq: number): Promise<Buffer | null>;
}

/** A reply's files as the reader of a task gets them. */
export interface FileParts {
  part(message: { seq: number }): Part;
}

const path = '/a2a/v1/files';

/**
 * The zips of replies, for askers that have no inbox. A task holds their URL, not their bytes: it is read, streamed and pushed many times over. The URL
 * is a capability, as clients fetch a part's URL without the credentials of the task; whoever sees the task has it, and nobody can guess it.
 */
export class TaskFiles implements FileParts {
  readonly #options: TaskFilesOptions;

  constructor(options: TaskFilesOptions) {
    this.#options = options;
  }

  part({ seq }: { seq: number }): Part {
    const url = `${this.#options.base}${path}/${seq}.${this.#mac(seq)}`;
    return { url, filename: 'files.zip', mediaType: 'application/zip' };
  }

  routes(): Route[] {
    const about = "The zip of an agent's reply, at the URL that the task names, for a day";
    return [{ method: 'GET', path: `${path}/{name}`, about, handler: (request) => this.#get(request) }];
  }

  async #get(request: HttpRequest): Promise<HttpResponse> {
    const [, seq, mac] = /^(\d{1,15})\.([A-Za-z0-9_-]{43})$/.exec(request.params.name ?? '') ?? [];
    const isOurs = seq !== undefined && timingSafeEqual(Buffer.from(mac!), Buffer.from(this.#mac(Number(seq))));
    const zip = isOurs ? await this.#options.read(Number(seq)) : null;
    if (!zip) return renderRestRefusal(refuse('not_found', 'There are no such files, or not any more.'), request);
    return {
      status: 200,
      headers: {
        'content-type': 'application/zip',
        'content-disposition': 'attachment; filename="files.zip"',
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
      },
      body: zip,
    };
  }

  #mac(seq: number): string {
    return this.#options.mac(`task-files:${seq}`).toString('base64url');
  }
}
