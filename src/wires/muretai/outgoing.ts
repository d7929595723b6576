import { randomUUID } from 'node:crypto';
import { agentUrlPath } from '../../directory/entries.ts';
import type { Keyring } from '../../directory/keyring.ts';
import { roomOf } from '../../directory/rooms.ts';
import type { Agent, Directory } from '../../directory/types.ts';
import type { RoomHub } from '../../exchange/rooms/index.ts';
import type { Rooms } from '../../federation/rooms/index.ts';
import { callKind, type Trust, type TrustCall } from '../../federation/trust/index.ts';
import { signMessage } from '../../identity/muretai-message.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Fetch, FetchRefused } from '../../lib/fetch-types.ts';
import { readJson } from '../../lib/json.ts';
import { Refusal } from '../../lib/refusal.ts';
import type { OutboxItem, Sender, SendResult } from '../../outbox/index.ts';

export interface OutgoingDeps {
  trust: Trust;
  rooms: Pick<Rooms, 'members' | 'noteProblem'>;
  hub: Pick<RoomHub, 'errand'>;
  directory: Pick<Directory, 'agentById'>;
  keyring: Pick<Keyring, 'agent' | 'signer'>;
  fetch: Fetch;
  clock: Clock;
  /** The public base URL without a slash at its end. */
  base: string;
}

const maxBytes = 256 * 1024;
const timeoutMs = 15_000;
const mostNamed = 200;
/** muretai.md "Códigos de error". */
const [REPLAYED, BUSY, CONNECTED] = [-32002, -32004, -32022];

/** Calls to muretai nodes elsewhere: what owners ask of them, answers to what they asked, and what rooms forward. Each is signed by the agent's did:key. */
export function muretaiSenders(deps: OutgoingDeps): Sender[] {
  return [callSender(deps), roomSender(deps)];
}

function callSender(deps: OutgoingDeps): Sender {
  const { trust, directory, base } = deps;
  return {
    kind: callKind,
    async send(item) {
      const { agentId, method, to, url, params } = callIn(item);
      const agent = await directory.agentById(agentId);
      if (!agent) return gone();
      const text = method;
      const answer = await post(deps, agent, {
        url,
        method,
        message: { to, text, messageId: newMessageId() },
        params: { ...params, name: nameOf(agent), url: base + agentUrlPath(agent), relay: base },
      });
      if ('outcome' in answer) return answer;
      if (answer.error?.code === CONNECTED) return { outcome: 'delivered', note: { status: 'connected' } };
      return answer.error ? refusedBy(answer.error) : { outcome: 'delivered', note: answer.result };
    },
    async onDelivered(tx, item, result) {
      const { agentId, method, to } = callIn(item);
      const agent = await directory.agentById(agentId);
      if (!agent || method === 'connect/respond') return;
      const { status } = ((result as { note?: unknown }).note ?? {}) as { status?: unknown };
      await trust.connect.answered(tx, { agent, did: to }, { status: status === 'connected' ? status : 'pending' });
    },
    async onGivenUp(tx, item, { words }) {
      const { agentId, method, to } = callIn(item);
      const agent = await directory.agentById(agentId);
      if (agent && method !== 'connect/respond')
        await trust.connect.answered(tx, { agent, did: to }, { problem: words });
    },
  };
}

function roomSender(deps: OutgoingDeps): Sender {
  const { rooms, hub, directory } = deps;
  return {
    kind: 'muretai-room',
    async send(item) {
      const { room: id, did } = errandIn(item);
      const [room, errand] = await Promise.all([
        directory.agentById(id),
        hub.errand(item.messageSeq!, { room: id, did }),
      ]);
      if (!room || !roomOf(room) || !errand) return gone();
      const { note, url } = errand;
      const members = (await rooms.members(room)).slice(0, mostNamed);
      const group = {
        room_id: note.did,
        name: note.name,
        host: note.did,
        author: note.author,
        members: members.map((one) => ({ did: one.did, name: one.name, role: 'member' })),
        mentions: [],
        original: note.original,
      };
      const answer = await post(deps, room, {
        url,
        method: 'message/send',
        message: { to: did, text: note.text, messageId: note.messageId, more: { auto: true, group } },
        params: {},
      });
      if ('outcome' in answer) return answer;
      // A repeat of what it has is refused as a replay.
      const has = answer.error === null || (answer.error.code === REPLAYED && item.attempts > 1);
      return has ? { outcome: 'delivered' } : refusedBy(answer.error!);
    },
    async onDelivered(tx, item) {
      const { room, did } = errandIn(item);
      await rooms.noteProblem(tx, { agentId: room, did, problem: null });
    },
    async onGivenUp(tx, item, { words }) {
      const { room, did } = errandIn(item);
      await rooms.noteProblem(tx, { agentId: room, did, problem: words });
    },
  };
}

interface RpcFault {
  code: number;
  message: string;
}

type Answer = { result: unknown; error: null } | { result: null; error: RpcFault };

async function post(
  { keyring, fetch, clock }: OutgoingDeps,
  agent: Agent,
  q: {
    url: string;
    method: string;
    message: { to: string; text: string; messageId: string; more?: Readonly<Record<string, unknown>> };
    params: object;
  },
): Promise<Answer | Extract<SendResult, { outcome: 'retry' | 'refused' }>> {
  const { pair } = await keyring.signer(keyring.agent(agent));
  const message = signMessage({ role: 'user', contextId: null, now: clock.now(), ...q.message }, pair);
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: q.message.messageId,
    method: q.method,
    params: { ...q.params, message },
  });
  try {
    const headers = { 'content-type': 'application/json', accept: 'application/json' };
    const { status, body: bytes } = await fetch(q.url, { method: 'POST', headers, body, maxBytes, timeoutMs });
    const where = new URL(q.url).host;
    if (status === 429 || status >= 500)
      return { outcome: 'retry', reason: `${where} answered ${status}`, destinationDown: status >= 500 };
    const answer = answerIn(bytes);
    if (answer?.error?.code === BUSY)
      return { outcome: 'retry', reason: `${where} takes no more now`, destinationDown: false };
    return (
      answer ?? { outcome: 'refused', code: 'not_found', words: `${where} answered ${status}, and no JSON-RPC`, status }
    );
  } catch (fault) {
    if (!(fault instanceof FetchRefused)) throw fault;
    const isOurs = fault.reason === 'scheme' || fault.reason === 'host' || fault.reason === 'address';
    if (isOurs) return { outcome: 'refused', code: 'unreachable', words: fault.message, status: 502 };
    return { outcome: 'retry', reason: fault.message, destinationDown: true };
  }
}

function answerIn(bytes: Buffer): Answer | undefined {
  const json = readJson(bytes);
  if (json instanceof Refusal || typeof json.value !== 'object' || json.value === null) return undefined;
  const { result, error } = json.value as { result?: unknown; error?: Partial<RpcFault> | null };
  if (result !== undefined && result !== null) return { result, error: null };
  if (typeof error !== 'object' || error === null || typeof error.code !== 'number') return undefined;
  return { result: null, error: { code: error.code, message: String(error.message ?? '').slice(0, 300) } };
}

function refusedBy({ code, message }: RpcFault): SendResult {
  return { outcome: 'refused', code: 'forbidden', words: `the other side said no: ${message} (${code})`, status: 403 };
}

function gone(): SendResult {
  return { outcome: 'refused', code: 'not_found', words: 'it is there no longer', status: 404 };
}

function callIn({ body }: OutboxItem): TrustCall {
  return JSON.parse(body ?? '{}') as TrustCall;
}

function errandIn({ body }: OutboxItem): { room: string; did: string } {
  return JSON.parse(body ?? '{}') as { room: string; did: string };
}

function nameOf({ profile, handle }: Agent): string {
  return typeof profile.name === 'string' ? profile.name.slice(0, 200) : handle;
}

/** As its nodes mint them (muretai-wire-facts §7). */
function newMessageId(): string {
  return randomUUID().replaceAll('-', '');
}
