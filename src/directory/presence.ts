import type { Queryable } from '../db/types.ts';
import { lastSeen } from './agents/store.ts';
import type { Presence } from './types.ts';

/** REDSYN "Agentes y presencia": 60 s after the last take or accepted webhook delivery an agent is shown as disconnected. */
export const ONLINE_MS = 60_000;

const absent: Presence = { online: false, lastSeen: null, node: null };

/** By agent id; an agent that never took anything is absent. */
export async function presenceOf(
  db: Queryable,
  agentIds: readonly string[],
  now: number,
): Promise<(agentId: string) => Presence> {
  const rows = agentIds.length === 0 ? [] : await lastSeen(db, agentIds);
  const known = new Map(
    rows.map(({ agentId, lastSeen: at, node }): [string, Presence] => [
      agentId,
      { online: at > 0 && now - at < ONLINE_MS, lastSeen: at > 0 ? Math.floor(at / 1000) : null, node },
    ]),
  );
  return (agentId) => known.get(agentId) ?? absent;
}
