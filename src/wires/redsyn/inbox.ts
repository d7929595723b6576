import { z } from 'zod';
import { formatAddress } from '../../directory/names.ts';
import type { Agent, Directory, NodeIdentity } from '../../directory/types.ts';
import type { Route } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { type Delivered, longestLeaseMs, type Mailbox } from '../../mailbox/index.ts';
import { addressOf, type CallDeps, call, flag, json } from './common.ts';
import { deliveredEnvelope } from './render.ts';

export interface InboxDeps extends CallDeps {
  directory: Pick<Directory, 'orgById' | 'agentAt'>;
  mailbox: Pick<Mailbox, 'take' | 'peek' | 'ack' | 'release'>;
}

const path = '/redsyn/v1/inbox/{org}/{team}/{user}/{agent}';
const longestWait = 25;
const ackBody = z.object({ ids: z.array(z.string().max(256)).max(1_000) });

/** REDSYN "Mensajes": taking with a lease, and confirming. */
export function inboxRoutes(deps: InboxDeps): Route[] {
  const { mailbox } = deps;
  return [
    {
      method: 'GET',
      path,
      about: 'Takes what waits, for as long as a lease; `wait` holds the call until something comes',
      hot: true,
      handler: call(deps, async ({ node, params, query, request }) => {
        const agent = await ownAgent(deps, node, params);
        if (agent instanceof Refusal) return agent;
        const asked = readTake(query);
        if (asked instanceof Refusal) return asked;
        const take = { agentId: agent.id, nodeId: node.nodeId, max: asked.max, replyTo: asked.replyTo };
        if (flag(query, 'peek')) return json(200, { items: (await mailbox.peek(take)).map(item) });
        const leases = await mailbox.take({
          ...take,
          leaseMs: asked.leaseMs,
          waitMs: asked.waitMs,
          gone: request.gone,
        });
        if (leases instanceof Refusal) return leases;
        // What could not be written was not taken (REL-01).
        const written = (ok: boolean): void =>
          void (ok || mailbox.release(leases.map((lease) => ({ ...lease, nodeId: node.nodeId }))));
        return json(200, { items: leases.map(item) }, { written });
      }),
    },
    {
      method: 'POST',
      path: `${path}/ack`,
      about: 'Confirms what was taken',
      hot: true,
      handler: call(deps, ackBody, async ({ node, params, body }) => {
        const agent = await ownAgent(deps, node, params);
        if (agent instanceof Refusal) return agent;
        const acked = await mailbox.ack({ agentId: agent.id, nodeId: node.nodeId, ids: body.ids });
        return json(200, { acked });
      }),
    },
  ];
}

/** Only the agent's person takes for it. Colleagues are told so; to others it does not exist. */
async function ownAgent(
  deps: InboxDeps,
  node: NodeIdentity,
  params: Readonly<Record<string, string>>,
): Promise<Agent | Refusal> {
  const address = addressOf(params);
  if (address instanceof Refusal) return address;
  const agent = await deps.directory.agentAt(address);
  if (agent?.personId === node.personId) return agent;
  if (agent && node.members.some((member) => member.orgId === agent.orgId)) {
    return refuse('forbidden', `${agent.address} is ${agent.user}'s: only her nodes take for it.`);
  }
  return refuse(
    'address_not_found',
    `You have no agent ${formatAddress({ ...address, session: null })}. Announce it first.`,
  );
}

function item(delivered: Delivered): Record<string, unknown> {
  return deliveredEnvelope(delivered);
}

interface Take {
  waitMs: number;
  leaseMs: number | undefined;
  max: number | undefined;
  replyTo: string | null;
}

/** Longer than the bound is the bound; what is no number of seconds is refused. */
function readTake(query: URLSearchParams): Take | Refusal {
  const wait = seconds(query, 'wait', 0, longestWait);
  if (wait instanceof Refusal) return wait;
  const lease = seconds(query, 'lease', 1, longestLeaseMs / 1000);
  if (lease instanceof Refusal) return lease;
  const max = seconds(query, 'max', 1, 100);
  if (max instanceof Refusal) return max;
  return {
    waitMs: (wait ?? 0) * 1000,
    leaseMs: lease === undefined ? undefined : lease * 1000,
    max,
    replyTo: query.get('reply_to') || null,
  };
}

function seconds(query: URLSearchParams, name: string, least: number, most: number): number | undefined | Refusal {
  const text = query.get(name);
  if (text === null || text === '') return undefined;
  const value = Number(text);
  if (!/^\d{1,9}$/.test(text) || value < least) {
    return refuse('invalid_field', `\`${name}\` must be a whole number of at least ${least}.`, {
      data: { field: name },
    });
  }
  return Math.min(value, most);
}
