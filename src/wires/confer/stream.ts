import type { Letters } from '../../exchange/confer/index.ts';
import type { Principal } from '../../exchange/sender.ts';
import type { Tasks, TaskWatch } from '../../exchange/task/index.ts';
import { type ExchangeState, finalStates, type TaskMessage, type Viewer } from '../../exchange/types.ts';
import type { Gates } from '../../gates/index.ts';
import type { Clock } from '../../lib/clock.ts';
import type { HttpRequest, HttpResponse } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { errorResponse, ofSignature } from './errors.ts';
import { citationsOf, contentOf, failureOf, tokenOf } from './render.ts';

export interface StreamDeps {
  gates: Pick<Gates, 'identify'>;
  tasks: Pick<Tasks, 'watch'>;
  letters: Pick<Letters, 'isTold'>;
  clock: Clock;
}

/** Proxies close what is silent for a minute. */
const heartbeatMs = 15_000;
/** A follower that does not ask for a stream hears at once how it stands, unless words come within this time. */
const glanceMs = 1_000;
/** Then `pending`: whoever still cares asks again. */
const longestMs = 600_000;

const headers = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  // nginx would keep events until its buffer is full.
  'x-accel-buffering': 'no',
};

/**
 * GET /a2a/v1/stream/{id} (confer-wire-facts §4). What is there is told at once: `token` and `citation` of what was said in between, then `message` and
 * `done`. Who accepts `text/event-stream` follows until the end; anybody else is told `pending` when nothing comes. What waits for the owner, who
 * may be away for days, is `pending` for both.
 */
export async function getStream(deps: StreamDeps, request: HttpRequest): Promise<HttpResponse> {
  const principal = await deps.gates.identify({
    wire: 'confer',
    operation: 'read',
    request,
    answers: 'poll',
    idempotent: false,
  });
  if (principal instanceof Refusal) return errorResponse(ofSignature(principal, request));
  const viewer = viewerOf(principal);
  const id = request.params.id ?? '';
  const watch = viewer === null ? refuse('not_found') : await deps.tasks.watch(id, viewer);
  if (!(watch instanceof Refusal)) return streamed(deps, request, watch);
  if (principal.kind === 'signer' && (await deps.letters.isTold(id, principal.did))) {
    return { status: 200, headers, body: event('done', { message_id: id, status: 'pending' }) };
  }
  return errorResponse(refuse('not_found', 'Message not found'));
}

function viewerOf(principal: Principal): Viewer | null {
  switch (principal.kind) {
    case 'node':
      return { kind: 'member', memberIds: principal.node.members.map(({ id }) => id) };
    case 'agent':
      return { kind: 'agent', memberId: principal.member.id, address: principal.agent.address };
    case 'signer':
    case 'did-key':
      return { kind: 'peer', did: principal.did };
    case 'anonymous':
      return null;
  }
}

function streamed({ clock }: StreamDeps, request: HttpRequest, watch: TaskWatch): HttpResponse {
  const follows = /\btext\/event-stream\b/i.test(request.headers.get('accept') ?? '');
  const last = request.headers.get('last-event-id') ?? '';
  const after = /^\d{1,15}$/.test(last) ? Number(last) : 0;
  return {
    status: 200,
    headers,
    stream: async (write, gone) => {
      const close = (): void => watch.close();
      gone.addEventListener('abort', close, { once: true });
      try {
        await pump(watch, { write, clock, follows, after });
      } finally {
        gone.removeEventListener('abort', close);
        close();
      }
    },
    // Also when the stream was never begun: the caller had gone before, or asked with HEAD.
    written: () => watch.close(),
  };
}

interface Follower {
  write: (chunk: string) => Promise<void>;
  clock: Clock;
  follows: boolean;
  /** The last event that the caller has had. */
  after: number;
}

async function pump(watch: TaskWatch, { write, clock, follows, after }: Follower): Promise<void> {
  const { id, thread } = watch.view;
  const end = clock.now() + longestMs;
  let hasWords = false;
  let now: { state: ExchangeState; reason: string | null; messages: readonly TaskMessage[]; more?: boolean } =
    watch.view;
  for (;;) {
    for (const message of now.messages) {
      const told = message.seq > after ? betweenOf(message) : '';
      if (told !== '') {
        hasWords = true;
        await write(told);
      }
    }
    if (finalStates.has(now.state) && !now.more) return write(endOf(now, id, thread, after));
    const waits = follows ? heartbeatMs : hasWords ? heartbeatMs : glanceMs;
    const next =
      now.state === 'auth_required'
        ? null
        : await nextOf(watch, waits, { write, clock, goesOn: follows || hasWords, end });
    if (next === null) return write(event('done', { message_id: id, status: 'pending', thread_id: thread }));
    now = next;
  }
}

/** Null when there is no more to wait for. */
async function nextOf(
  watch: TaskWatch,
  waitMs: number,
  q: { write: Follower['write']; clock: Clock; goesOn: boolean; end: number },
): Promise<Awaited<ReturnType<TaskWatch['next']>>> {
  const coming = watch.next();
  for (;;) {
    const change = await within(coming, waitMs, q.clock);
    if (change !== 'late') return change;
    if (!q.goesOn || q.clock.now() >= q.end) return null;
    await q.write(': still here\n\n');
  }
}

/** What a progress says: partial text or where it comes from. */
function betweenOf(message: TaskMessage): string {
  if (message.fromAsker || message.kind !== 'progress') return '';
  const text = tokenOf(message.envelope);
  const cited = citationsOf(message.envelope.body).map((citation) => event('citation', citation, message.seq));
  return (text === null ? '' : event('token', { text }, message.seq)) + cited.join('');
}

function endOf(
  { state, reason, messages }: { state: ExchangeState; reason: string | null; messages: readonly TaskMessage[] },
  id: string,
  thread: string,
  after: number,
): string {
  const reply = messages.findLast(({ fromAsker, kind }) => !fromAsker && kind === 'reply');
  const error = failureOf(state, reason);
  const outcome = {
    message_id: reply?.id ?? id,
    status: error === null ? 'done' : 'failed',
    ...(error !== null && { error }),
  };
  const done = event('done', { ...outcome, thread_id: thread });
  // A caller that has had it is told the end alone.
  if (reply && reply.seq <= after) return done;
  const cited = reply ? citationsOf(reply.envelope.body).map((citation) => event('citation', citation)) : [];
  const content = reply ? contentOf(reply.envelope.body) : '';
  return cited.join('') + event('message', { ...outcome, content }, reply?.seq) + done;
}

function event(name: string, data: object, id?: number): string {
  return `${id === undefined ? '' : `id: ${id}\n`}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}

async function within<T>(work: Promise<T>, ms: number, clock: Clock): Promise<T | 'late'> {
  let cancel = (): void => {};
  const late = new Promise<'late'>((resolve) => {
    cancel = clock.after(ms, () => resolve('late'));
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    cancel();
  }
}
