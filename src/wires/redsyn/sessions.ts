import { z } from 'zod';
import type { Agent, Directory, NodeIdentity } from '../../directory/types.ts';
import type { SessionMessage, Sessions, SessionView, SessionViewer } from '../../exchange/sessions/index.ts';
import type { Route } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { addressOf, type CallDeps, call, json } from './common.ts';
import { deliveredEnvelope } from './render.ts';

export interface SessionsWireDeps extends CallDeps {
  directory: Pick<Directory, 'orgById' | 'agentAt'>;
  sessions: Pick<Sessions, 'read' | 'setTitle' | 'close'>;
}

const titled = z.object({ title: z.string().max(200).nullable() });
const path = '/redsyn/v1/agents/{org}/{team}/{user}/{agent}/sessions/{sid}';

/** REDSYN "Sesiones". */
export function sessionRoutes(deps: SessionsWireDeps): Route[] {
  const { sessions } = deps;
  return [
    {
      method: 'GET',
      path,
      about:
        'One conversation of an agent, as far as you may see it; the newest 500 messages, older ones with `before`',
      handler: call(deps, async ({ node, params, query }) => {
        const seen = await find(deps, node, params);
        return seen instanceof Refusal
          ? seen
          : shown(await sessions.read(seen.agent, params.sid!, seen.viewer, query.get('before')));
      }),
    },
    {
      method: 'PUT',
      path,
      about: 'Gives a session of one of your agents a title; null takes it away',
      handler: call(deps, titled, async ({ node, params, body }) => {
        const seen = await find(deps, node, params);
        if (seen instanceof Refusal) return seen;
        return shown(await sessions.setTitle(seen.agent, params.sid!, seen.viewer, body.title || null));
      }),
    },
    {
      method: 'POST',
      path: `${path}/close`,
      about: 'Closes a session of one of your agents',
      handler: call(deps, async ({ node, params }) => {
        const seen = await find(deps, node, params);
        return seen instanceof Refusal ? seen : shown(await sessions.close(seen.agent, params.sid!, seen.viewer));
      }),
    },
  ];
}

/** Whether the agent may be seen is the session's question: who took part in it may. */
async function find(
  deps: SessionsWireDeps,
  node: NodeIdentity,
  params: Readonly<Record<string, string>>,
): Promise<{ agent: Agent; viewer: SessionViewer } | Refusal> {
  const address = addressOf(params);
  const agent = address instanceof Refusal ? null : await deps.directory.agentAt(address);
  if (!agent) return refuse('not_found', 'There is no such session.');
  const memberIds = node.members.map((member) => member.id);
  return { agent, viewer: { memberIds, isColleague: node.members.some(({ orgId }) => orgId === agent.orgId) } };
}

function shown(view: SessionView | Refusal) {
  if (view instanceof Refusal) return view;
  const { id, agent, state, createdAt, lastAt, title, thread, messages, before } = view;
  return json(200, {
    id,
    agent,
    state,
    created_at: Math.floor(createdAt / 1000),
    last_at: Math.floor(lastAt / 1000),
    ...(thread !== null && { title, thread }),
    ...(messages && { messages: messages.map((message) => opaque(storedEnvelope(message, thread!))) }),
    ...(before !== null && { before }),
  });
}

/** A message that is kept, as its delivered envelope; of a request also what became of it. */
export function storedEnvelope(row: SessionMessage, thread: string): Record<string, unknown> {
  const envelope = deliveredEnvelope({
    id: row.id,
    from: row.from_addr,
    to: row.to_addr,
    thread,
    replyTo: row.reply_to,
    envelope: row.envelope,
    sigPayload: row.sig_payload,
    sigNode: row.sig_node,
    a2a: row.a2a,
    topic: row.kind === 'event' ? row.to_addr : null,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
  });
  return row.state === null ? envelope : { ...envelope, state: row.state };
}

/** "Sus páginas de sesión muestran que un mensaje está cifrado, no lo que dice": not even the ciphertext, which the signed text repeats. */
function opaque(envelope: Record<string, unknown>): Record<string, unknown> {
  const { type } = envelope.body as { type?: unknown };
  if (type !== 'application/redsyn+encrypted') return envelope;
  const { payload: _payload, ...sig } = (envelope.sig ?? {}) as Record<string, unknown>;
  return { ...envelope, encrypted: true, body: { type }, sig: envelope.sig ? sig : null };
}
