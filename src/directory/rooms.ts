import { type Refusal, refuse } from '../lib/refusal.ts';
import type { Agent } from './types.ts';

/** The policies of a room (muretai.md "Agent Card"); the first of each axis is what an absent one means. */
export const roomAxes = {
  visibility: ['private', 'public'],
  lifetime: ['persistent', 'ephemeral'],
  join: ['invite', 'request', 'open'],
  confidentiality: ['hub-trusted', 'member-only'],
} as const;

export type RoomAxes = { [A in keyof typeof roomAxes]: (typeof roomAxes)[A][number] };

/** The axes of an agent that is a room, or null for one that is none. */
export function roomOf({ profile }: Pick<Agent, 'profile'>): RoomAxes | null {
  const { room } = profile;
  if (typeof room !== 'object' || room === null) return null;
  const said = room as Record<string, unknown>;
  const entries = Object.entries(roomAxes).map(([axis, [standard, ...others]]) => [
    axis,
    others.find((value) => value === said[axis]) ?? standard,
  ]);
  return Object.fromEntries(entries) as RoomAxes;
}

/** What is wrong with the `room` of an announcement: a misspelt axis must not become its default unseen. */
export function roomFault(profile: Readonly<Record<string, unknown>> | undefined): Refusal | undefined {
  const room = profile?.room;
  if (room === undefined) return undefined;
  if (typeof room !== 'object' || room === null || Array.isArray(room)) return invalid('room', 'must be an object');
  for (const [axis, value] of Object.entries(room)) {
    const known = Object.hasOwn(roomAxes, axis) ? roomAxes[axis as keyof RoomAxes] : undefined;
    if (!known) return invalid(`room.${axis}`, `is no axis: ${Object.keys(roomAxes).join(', ')}`);
    if (!(known as readonly unknown[]).includes(value))
      return invalid(`room.${axis}`, `must be one of: ${known.join(', ')}`);
  }
  return undefined;
}

function invalid(field: string, why: string): Refusal {
  return refuse('invalid_field', `\`${field}\` ${why}.`, { data: { field } });
}
