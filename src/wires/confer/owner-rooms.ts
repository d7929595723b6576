import { z } from 'zod';
import { roomOf } from '../../directory/rooms.ts';
import type { Agent } from '../../directory/types.ts';
import type { MemberRow, Rooms } from '../../federation/rooms/index.ts';
import type { Trust } from '../../federation/trust/index.ts';
import type { Route } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { json } from './errors.ts';
import { agentOf, agentSegments, namedAgent, type OwnerAgentDeps } from './owner-agent.ts';
import { bodyOf, iso, type OwnerCall, ownerCall } from './owner-call.ts';

export interface OwnerRoomsDeps extends OwnerAgentDeps {
  rooms: Pick<Rooms, 'members' | 'isMember' | 'add' | 'end'>;
  trust: Trust;
}

const addBody = z.object({ agent: z.string().min(1).max(500), note: z.string().max(500).default('') });
const path = `/api/v1/rooms/${agentSegments}/members`;

/** `/api/v1/rooms/<agent>/members`: who is in a room. Who lives elsewhere joins by an invitation of the room, or by asking it (`/api/v1/trust`). */
export function ownerRoomRoutes(deps: OwnerRoomsDeps): Route[] {
  const { rooms, trust } = deps;
  return [
    {
      method: 'GET',
      path,
      about: 'The members of a room: for its owner, and for owners of members',
      handler: ownerCall(deps, async (call) => {
        const room = await roomAt(deps, call);
        if (room instanceof Refusal) return room;
        const members = await rooms.members(room);
        const isInside = isOwner(room, call) || (await anyOf(deps, members, call)) !== undefined;
        return isInside ? json(200, { members: members.map(view) }) : noRoom();
      }),
    },
    {
      method: 'POST',
      path,
      about: "Adds an agent of the organisation to one's room, or lets one's agent join as the room allows",
      handler: ownerCall(deps, async (call) => {
        const body = bodyOf(addBody, call.request);
        if (body instanceof Refusal) return body;
        const room = await roomAt(deps, call);
        if (room instanceof Refusal) return room;
        const agent = await namedAgent(deps, call.node.members, body.agent);
        if (agent instanceof Refusal) return agent;
        if (isOwner(room, call)) {
          const added = await rooms.add(room, agent);
          return added instanceof Refusal ? added : json(201, { status: 'connected' });
        }
        if (!call.owners.includes(agent.memberId)) return refuse('forbidden', 'That agent is not yours.');
        const reach = { name: agent.address, url: null, relay: null, encPub: null };
        const asked = await trust.connect.request(room, await trust.didOf(agent), { ...reach, note: body.note });
        return asked instanceof Refusal ? asked : json(asked.status === 'connected' ? 201 : 202, asked);
      }),
    },
    {
      method: 'DELETE',
      path: `${path}/{did}`,
      about: 'Removes a member, or lets an agent of yours leave; by its did:key or its address',
      handler: ownerCall(deps, async (call) => {
        const room = await roomAt(deps, call);
        if (room instanceof Refusal) return room;
        const members = await rooms.members(room);
        const found = members.find(({ did, address }) => did === call.params.did || address === call.params.did);
        const own = found && (await anyOf(deps, [found], call)) !== undefined;
        if (!found || !(isOwner(room, call) || own)) return refuse('not_found', 'The room has no such member.');
        await rooms.end(room, found.did, own ? 'left' : 'removed');
        return json(200, { ok: true });
      }),
    },
  ];
}

async function roomAt(deps: OwnerRoomsDeps, call: OwnerCall): Promise<Agent | Refusal> {
  const agent = await agentOf(deps, call);
  if (agent instanceof Refusal) return agent;
  return roomOf(agent) ? agent : noRoom();
}

/** The first of these members that is an agent of the caller's. */
async function anyOf(
  { directory }: OwnerRoomsDeps,
  members: readonly MemberRow[],
  { node }: OwnerCall,
): Promise<MemberRow | undefined> {
  for (const member of members) {
    if (member.address === null) continue;
    const agent = await namedAgent({ directory }, node.members, member.address);
    if (!(agent instanceof Refusal) && node.members.some(({ id }) => id === agent.memberId)) return member;
  }
  return undefined;
}

function isOwner(room: Agent, { owners }: OwnerCall): boolean {
  return owners.includes(room.memberId);
}

function noRoom(): Refusal {
  return refuse('not_found', 'You have no such room.');
}

function view({ did, address, name, url, problem, joinedAt }: MemberRow): object {
  return { did, address, name, url, problem, joined_at: iso(joinedAt) };
}
