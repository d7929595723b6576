/** The gateway said no. `status` and `code` are its own; `quota` and what else it told stand in `data`. */
export class GatehouseError extends Error {
  override name = 'GatehouseError';
  readonly status: number;
  readonly code: string;
  readonly data: Record<string, unknown>;
  /** The `Retry-After` field as it came. */
  readonly retryAfter: string | undefined;

  constructor(status: number, data: Record<string, unknown>, retryAfter?: string) {
    super(typeof data.error === 'string' ? data.error : `the gateway answered ${status}`);
    this.status = status;
    this.code = typeof data.code === 'string' ? data.code : 'unknown';
    this.data = data;
    this.retryAfter = retryAfter;
  }

  /** REDSYN "Límites": a 5xx or a plain 429 may be repeated with the same id; a quota may not. */
  get retryable(): boolean {
    return (this.status >= 500 || this.status === 429) && this.data.quota !== true;
  }
}

/** No answer came from the gateway: it is away, or the way to it is. May be repeated with the same id. */
export class NoAnswerError extends Error {
  override name = 'NoAnswerError';
}

/** A person's key is not the one that was pinned. Nothing is sent until somebody accepts it. */
export class KeyChangedError extends Error {
  override name = 'KeyChangedError';
  /** `org/user` */
  readonly person: string;
  readonly fingerprint: string;

  constructor(person: string, fingerprint: string) {
    super(
      `the key of ${person} is not the one that was accepted: another machine of theirs, or somebody in between. ` +
        `Compare the fingerprint ${fingerprint} with them, then: gatehouse keys accept ${person}`,
    );
    this.person = person;
    this.fingerprint = fingerprint;
  }
}

/** A message cannot be sealed, or a sealed one not opened. */
export class SealError extends Error {
  override name = 'SealError';
}

/** `sendAndWait` ran out of time. The answer may still come: `waitFor` with the same id. */
export class NotAnsweredError extends Error {
  override name = 'NotAnsweredError';
  readonly id: string;

  constructor(id: string, seconds: number) {
    super(`no answer to ${id} within ${seconds} s`);
    this.id = id;
  }
}

/** Whether the same call may succeed later, unchanged. */
export function mayPass(fault: unknown): boolean {
  return fault instanceof NoAnswerError || (fault instanceof GatehouseError && fault.retryable);
}
