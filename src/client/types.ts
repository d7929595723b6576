/** A body as REDSYN has it: `text/plain` with `text`, `application/json` with `data`, or a type of your own. */
export interface Body {
  type: string;
  text?: string;
  data?: unknown;
  [more: string]: unknown;
}

/** Context that does not travel: a URL, a repository, a query, with a note. */
export interface Reference {
  url?: string;
  note?: string;
  [more: string]: unknown;
}

export type Kind = 'request' | 'progress' | 'reply' | 'event';

/** An envelope as the relay delivers it (REDSYN "El sobre"). Times in Unix seconds. */
export interface DeliveredEnvelope {
  v: 1;
  id: string;
  kind: Kind;
  from: string;
  /** With the session: `org/team/user/agent#s3`. */
  to: string;
  thread: string;
  reply_to: string | null;
  ts: number;
  body: Body;
  refs: unknown[];
  /** What the zip is; its bytes are fetched apart, while the message is not confirmed. */
  files?: { bytes: number; sha256: string } | null;
  error: boolean;
  expires: number;
  attempts: number;
  /** The relay's word that a registered key signed it. Your own check is {@link Received.verified}. */
  signed: boolean;
  sig: { alg: string; key: string; value: string; payload: string; node: string | null; fingerprint: string } | null;
  /** Of an event. */
  topic?: string;
  [more: string]: unknown;
}

/** What `send` writes: one of `text`, `data` (JSON) and `body`. */
export interface Outgoing {
  /** One of your agents, full address, a session allowed. Default: the client's `agent`. */
  from?: string;
  /** Full address; a short form is read from `from`. */
  to: string;
  text?: string;
  data?: unknown;
  body?: Body;
  /** Default: a new one. The same id again is the same message, never a second one. */
  id?: string;
  thread?: string;
  /** Seconds it may wait; the plan sets the most. */
  ttl?: number;
  refs?: Reference[];
  /** A zip, at most 5 MB. */
  files?: Uint8Array;
  /** What this is asked because of: the request being handed on, or the addresses that it came through. A chain of requests ends after eight. */
  because?: Received | DeliveredEnvelope | readonly string[];
  /** Do not seal it although the agent has a key. */
  plain?: boolean;
  /** Fail when the agent has no key, instead of sending it readable for the relay. */
  sealed?: boolean;
}

export interface Sent {
  id: string;
  thread: string;
  /** With the session when the agent lives on this gateway. */
  to: string;
  signed: boolean;
  /** Whether only the addressee's machine can read it. */
  sealed: boolean;
  /** This id had been sent before: what came first stands. */
  duplicate?: boolean;
}

/** A string is a body of text/plain. Undefined: confirmed without an answer. */
export type Answer = string | Body | FullAnswer | undefined;

export interface FullAnswer {
  body: Body;
  /** The request failed, and the body says why. */
  error?: boolean;
  refs?: Reference[];
  /** A zip, at most 5 MB. */
  files?: Uint8Array;
}

/** Whose key signed: `person` is `org/user`. */
export interface Signer {
  person: string;
  /** 32 bytes, base64url. */
  key: string;
  fingerprint: string;
}

/** What came in: opened when it was sealed, and checked without trusting the relay. */
export interface Received {
  /** With body and references opened. */
  envelope: DeliveredEnvelope;
  /** As it arrived: what the signature covers. */
  raw: DeliveredEnvelope;
  /** The text of the body, or its data as JSON. */
  text: string;
  /** It came sealed for this machine. */
  sealed: boolean;
  /** Signed, over what the envelope says, with a key that is pinned for its sender (or was pinned now: first use). */
  verified: boolean;
  /** Who signed, also when that key is not the pinned one. */
  signer?: Signer;
  /** Why it is not verified although signed, or not readable although sealed. */
  trouble?: string;
  /** Where an answer is sealed to: the `reply_key` of a sealed request. */
  replyKey?: string;
  /** The zip, opened and checked against what was announced. Fetch it before you answer: delivered files are deleted. */
  files(): Promise<Buffer | undefined>;
}

export interface Incoming extends Received {
  /** Tells the asker how far it is; the request stays open. Sealed as the request was. */
  progress(text: string, data?: unknown): Promise<void>;
}

export type Handler = (incoming: Incoming) => Promise<Answer> | Answer;

/** What `PUT /agents/…` takes (REDSYN "Agentes y presencia"). The policy is replaced whole. */
export interface Announcement {
  description?: string;
  adapter?: string;
  /** Handles, `team:<team>`, `org`, `org:<linked org>`, `anyone`; nothing: your own team. */
  allow?: string[];
  trust?: 'none' | 'full';
  signed_only?: boolean;
  encrypted_only?: boolean;
  [more: string]: unknown;
}
