import { randomUUID } from 'node:crypto';
import type { Db } from '../../db/types.ts';
import type { Keyring } from '../../directory/keyring.ts';
import { roomOf } from '../../directory/rooms.ts';
import type { Agent } from '../../directory/types.ts';
import { pythonJson } from '../../identity/canonical.ts';
import type { KeyPair } from '../../identity/keys.ts';
import type { Clock } from '../../lib/clock.ts';
import { type JsonText, readJson } from '../../lib/json.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import type { Admission } from '../admitted.ts';
import type { Envelope } from '../message.ts';
import type { Beside } from '../types.ts';
import * as store from './store.ts';

export interface RoomHubDeps {
  db: Db;
  clock: Clock;
  keyring: Pick<Keyring, 'agent' | 'signer'>;
}

/** What one post writes beside its exchange (migrations/fn_rooms.sql). */
export interface RoomPost {
  /** Of the room's own message, as muretai mints ids. */
  id: string;
  envelope: string;
  /** Every DID that the author goes by, and the agent here that it is: neither gets a copy. */
  dids: readonly string[];
  skip: string | null;
  expires: number;
  /** The room's answer to the author. */
  reply: string;
}

/** What a forwarded message carries of the room (the `room` of its envelope). */
export interface RoomNote {
  address: string;
  did: string;
  name: string;
  /** Whose words these are: the member's DID, or its address here. */
  author: string;
  messageId: string;
  /** Unix seconds. */
  timestamp: number;
  text: string;
  /** The room's own signature, over muretai's six fields with the room as both ends. */
  sig: string;
  /** The member's message as it was signed, wherever it came from. */
  original: unknown;
}

const ephemeralMs = 3_600_000;

/** A member must not be told from a stranger by whoever is neither. */
export function notInRoom(): Refusal {
  return refuse('policy_denied', 'Only members of the room write to it.').by('consent');
}

/** The six fields that muretai signs (muretai-wire-facts §4), as bytes. Throws on what has no canonical form. */
export function signedFields(fields: {
  contextId: string | null;
  from: string;
  messageId: string;
  text: string;
  timestamp: number;
  to: string;
}): Buffer {
  const bytes = pythonJson(fields);
  if (bytes instanceof Refusal) throw new TypeError(`a message without a canonical form: ${bytes.words}`);
  return Buffer.from(bytes);
}

/** The room's own part: it signs what it forwards, keeps what the member signed, and answers the member. */
export class RoomHub {
  readonly #deps: RoomHubDeps;

  constructor(deps: RoomHubDeps) {
    this.#deps = deps;
  }

  /** Null when the message is not for a room. Refusals: `policy_denied`, `invalid_field`, `exchange_closed`. */
  async post(admission: Admission, { goesOn }: Beside): Promise<RoomPost | null | Refusal> {
    const { target, envelope, sender } = admission;
    const room = target.kind === 'agent' ? target.agent : null;
    const axes = room && roomOf(room);
    if (!room || !axes) return null;
    if (envelope.kind !== 'request')
      return refuse('invalid_field', 'A room takes requests.', { data: { field: 'kind' } });
    if (goesOn) return refuse('exchange_closed', 'A room has answered when it took the message: post a new one.');
    if (admission.files) return refuse('invalid_field', 'A room takes no files.', { data: { field: 'files' } });
    const text = textOf(envelope);
    if (axes.confidentiality === 'member-only' && !admission.sealed && !isBox(text)) {
      return refuse('policy_denied', 'Only its members may read this room: seal the message for them.', {
        data: { encrypted_only: true },
      });
    }
    if (axes.confidentiality === 'hub-trusted' && admission.sealed) {
      return refuse('policy_denied', 'It is sealed for the room and not for its members: post it unsealed.');
    }
    const { clock, keyring } = this.#deps;
    const { pair } = await keyring.signer(keyring.agent(room));
    const now = clock.now();
    const local = sender.kind === 'local' ? sender.agent : null;
    const author = sender.kind === 'peer' ? sender.did : sender.address;
    const note = noteOf(room, pair, { author, text, now, original: originalOf(admission) });
    return {
      id: note.messageId,
      envelope: JSON.stringify(forwarded(envelope, room, note)),
      dids: sender.kind === 'peer' ? [sender.did] : [],
      skip: local?.id ?? null,
      expires: axes.lifetime === 'ephemeral' ? Math.min(admission.expiresAt, now + ephemeralMs) : admission.expiresAt,
      reply: JSON.stringify(answer(envelope, room, now)),
    };
  }

  /** What waits for a member elsewhere; null when it is gone, or the member is. */
  async errand(messageSeq: number, q: { room: string; did: string }): Promise<{ note: RoomNote; url: string } | null> {
    const row = await store.errandBySeq(this.#deps.db, { seq: messageSeq, ...q });
    if (!row) return null;
    const { room } = JSON.parse(row.envelope) as { room: RoomNote };
    return { note: room, url: row.url };
  }
}

function noteOf(
  room: Agent,
  pair: KeyPair,
  { author, text, now, original }: { author: string; text: string; now: number; original: unknown },
): RoomNote {
  const messageId = randomUUID().replaceAll('-', '');
  const timestamp = Math.floor(now / 1000);
  const sig = pair
    .sign(signedFields({ contextId: null, from: pair.did, messageId, text, timestamp, to: pair.did }))
    .toString('base64');
  const { name } = room.profile;
  return {
    address: room.address,
    did: pair.did,
    name: typeof name === 'string' ? name.slice(0, 200) : room.handle,
    author,
    messageId,
    timestamp,
    text,
    sig,
    original,
  };
}

/** An event, so that nobody's agent takes it for a question of its own. */
function forwarded({ from, body, refs, ts }: Envelope, room: Agent, note: RoomNote): object {
  return {
    v: 1,
    id: note.messageId,
    kind: 'event',
    from,
    to: room.address,
    ts: ts ?? note.timestamp,
    body,
    ...(refs && { refs }),
    room: note,
  };
}

function answer({ id, thread }: Envelope, room: Agent, now: number): object {
  const body = { type: 'text/plain', text: 'Posted to the room.' };
  return {
    v: 1,
    id: `posted-${id}`,
    kind: 'reply',
    from: room.address,
    thread,
    reply_to: id,
    ts: Math.floor(now / 1000),
    body,
  };
}

function originalOf({ a2aText, envelopeText }: Admission): unknown {
  const read = readJson(a2aText ?? envelopeText);
  return read instanceof Refusal ? null : (read as JsonText).value;
}

function textOf({ body }: Envelope): string {
  if (body.type === 'text/plain') return body.text ?? '';
  return body.text ?? JSON.stringify(body.data ?? body.enc ?? null);
}

/** A sealed box (muretai-wire-facts §15): canonical base64 of a nonce, a tag and what is between them. */
function isBox(text: string): boolean {
  const bytes = Buffer.from(text, 'base64');
  return bytes.length >= 28 && bytes.toString('base64') === text;
}
