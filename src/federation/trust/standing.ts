import type { Queryable } from '../../db/types.ts';
import { roomOf } from '../../directory/rooms.ts';
import type { Agent } from '../../directory/types.ts';
import { type Standing, standing } from './store.ts';

/** How a did:key stands with the agent. */
export function standingOf(db: Queryable, agent: Agent, did: string, now: number): Promise<Standing> {
  return standing(db, { agentId: agent.id, owner: agent.memberId, did, now, isRoom: roomOf(agent) !== null });
}
