import { z } from 'zod';
import { readAddress } from '../../directory/names.ts';
import type { Agent, Directory } from '../../directory/types.ts';
import type { LimitRow, Limits } from '../../exchange/limits/index.ts';
import type { Route } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { json } from './errors.ts';
import { bodyOf, iso, type OwnerCallDeps, ownerCall } from './owner-call.ts';

export interface OwnerLimitsDeps extends OwnerCallDeps {
  limits: Pick<Limits, 'list' | 'choose' | 'resume'>;
  directory: Pick<Directory, 'agentAt' | 'agentByDid'>;
  now(): number;
}

const pair = {
  agent: z.string('must be the address or DID of an agent of yours').min(1, 'is empty').max(600, 'is too long'),
  /** Absent or null: all peers of the agent together. */
  peer: z.string('must be a DID, org/user or anonymous').min(1, 'is empty').max(600, 'is too long').nullish(),
};
const count = z.int('must be a whole number').min(0, 'must be 0 or more').max(Number.MAX_SAFE_INTEGER, 'is too large');
const resumeBody = z.object(pair);
const chooseBody = z.object({
  ...pair,
  messages: count.nullish(),
  bytes: count.nullish(),
  tokens: count.nullish(),
  turns: count.min(1, 'must be 1 or more').max(1_000_000, 'is too large').nullish(),
});

/** `/api/v1/limits…` (design §4 "Loops"): what agents and peers use, what they may use, and what waits for the owner to let it go on. */
export function ownerLimitRoutes(deps: OwnerLimitsDeps): Route[] {
  const { limits } = deps;
  return [
    {
      method: 'GET',
      path: '/api/v1/limits',
      about: 'What your agents and their peers used today and may use, and who is paused; paused ones first',
      handler: ownerCall(deps, async ({ owners }) => {
        const rows = await limits.list(owners);
        const day = iso(deps.now()).slice(0, 10);
        return json(200, { day, limits: rows.map((row) => viewOf(row, owners)) });
      }),
    },
    {
      method: 'PUT',
      path: '/api/v1/limits',
      about: 'Chooses the limits of an agent of yours, with one peer or with all; null is the usual one again',
      handler: ownerCall(deps, async ({ owners, request }) => {
        const body = bodyOf(chooseBody, request);
        if (body instanceof Refusal) return body;
        const { peer, messages, bytes, tokens, turns } = body;
        const agent = await ownAgent(body.agent, owners, deps);
        if (agent instanceof Refusal) return agent;
        const most = Object.fromEntries(
          Object.entries({ messages, bytes, tokens, turns }).filter(([, value]) => value !== undefined),
        );
        const chosen = await limits.choose(agent.id, peer ?? null, most);
        return chosen instanceof Refusal ? chosen : json(200, { ok: true });
      }),
    },
    {
      method: 'POST',
      path: '/api/v1/limits/resume',
      about: 'Lets an agent of yours and a peer go on; the count of today begins anew',
      handler: ownerCall(deps, async ({ owners, request }) => {
        const body = bodyOf(resumeBody, request);
        if (body instanceof Refusal) return body;
        const agent = await ownAgent(body.agent, owners, deps);
        if (agent instanceof Refusal) return agent;
        const resumed = await limits.resume(agent.id, body.peer ?? null);
        return resumed instanceof Refusal ? resumed : json(200, { ok: true, resumed });
      }),
    },
  ];
}

/** Somebody else's agent and none at all are one answer. */
async function ownAgent(
  name: string,
  owners: readonly string[],
  { directory }: OwnerLimitsDeps,
): Promise<Agent | Refusal> {
  const address = name.startsWith('did:') ? null : readAddress(name);
  if (address instanceof Refusal) return address;
  const agent = address ? await directory.agentAt({ ...address, session: null }) : await directory.agentByDid(name);
  return agent && owners.includes(agent.memberId) ? agent : refuse('not_found', 'You have no agent by that name.');
}

const warnAt = 0.8;

function viewOf(row: LimitRow, owners: readonly string[]): object {
  const { agent, owner, peerName: peer, used, most, turns, chosen, pausedFor, pausedAt } = row;
  const isNear = (['messages', 'bytes', 'tokens'] as const).some((of) => {
    const limit = most[of];
    return limit !== null && used[of] >= limit * warnAt;
  });
  return {
    agent,
    peer,
    /** False: the agent is somebody else's, and you are its peer. */
    yours: owners.includes(owner),
    state: pausedFor !== null ? 'paused' : isNear ? 'warning' : 'ok',
    ...(pausedFor !== null && { paused_for: pausedFor, paused_at: iso(pausedAt!) }),
    used,
    limits: { ...most, turns },
    ...(owners.includes(owner) && { chosen }),
  };
}
