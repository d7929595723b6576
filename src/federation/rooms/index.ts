import type { Db, Tx } from '../../db/types.ts';
import { attempt } from '../../directory/attempt.ts';
import type { Keyring } from '../../directory/keyring.ts';
import { type RoomAxes, roomOf } from '../../directory/rooms.ts';
import type { Agent, Directory } from '../../directory/types.ts';
import type { Clock } from '../../lib/clock.ts';
import { newId } from '../../lib/ids.ts';
import { type Refusal, refuse } from '../../lib/refusal.ts';
import * as store from './store.ts';

export type { MemberRow } from './store.ts';

export interface RoomsDeps {
  db: Db;
  clock: Clock;
  directory: Pick<Directory, 'agentByDid'>;
  keyring: Pick<Keyring, 'agent' | 'didKey'>;
}

export interface NewMember {
  did: string;
  name: string;
  /** Where a member elsewhere is sent what is posted. */
  url: string | null;
}

/** The `muretai.room` block of a card (muretai.md "Agent Card"): of a private room the number of its members and no more. */
export type RoomBlock = RoomAxes & { members: number; member_list?: Array<{ did: string; name: string }> };

export const maxMembers = 1_000;

/** Who is in a room. Being in is what lets a message in; it is no contact of the owner's, and opens none of her other agents. */
export class Rooms {
  readonly #deps: RoomsDeps;

  constructor(deps: RoomsDeps) {
    this.#deps = deps;
  }

  members(room: Agent): Promise<store.MemberRow[]> {
    return store.membersOf(this.#deps.db, room.id);
  }

  isMember(room: Agent, who: { dids: readonly string[]; localAgent: string | null }): Promise<boolean> {
    return store.isMember(this.#deps.db, { agentId: room.id, ...who });
  }

  /** For the card; null for an agent that is no room. */
  async block(agent: Agent): Promise<RoomBlock | null> {
    const axes = roomOf(agent);
    if (!axes) return null;
    if (axes.visibility === 'private') return { ...axes, members: await store.countMembers(this.#deps.db, agent.id) };
    const members = await this.members(agent);
    return { ...axes, members: members.length, member_list: members.map(({ did, name }) => ({ did, name })) };
  }

  /** In the transaction that decides it. `quota_exceeded` when the room is full; who is in already stays. */
  async letIn(tx: Tx, room: Agent, { did, name, url }: NewMember): Promise<true | Refusal> {
    const { clock, directory } = this.#deps;
    const now = clock.now();
    const here = await directory.agentByDid(did);
    if (here?.id === room.id)
      return refuse('invalid_field', 'A room is no member of itself.', { data: { field: 'did' } });
    await store.lockRoom(tx, room.id);
    const isNew = await store.insertMember(tx, {
      agentId: room.id,
      did,
      localAgent: here?.id ?? null,
      name: name || here?.address || '',
      url: here ? null : url,
      now,
    });
    if (!isNew) return true;
    if ((await store.countMembers(tx, room.id)) > maxMembers) {
      return refuse('quota_exceeded', `A room has ${maxMembers} members at most.`, {
        status: 403,
        data: { quota: true, limit: maxMembers },
      });
    }
    if (here) await this.#listen(tx, room, here.id, true);
    return true;
  }

  /** The owner lets an agent of this instance in without asking it: they are one organisation. */
  add(room: Agent, agent: Agent): Promise<true | Refusal> {
    const { db, keyring } = this.#deps;
    if (agent.orgId !== room.orgId)
      return Promise.resolve(refuse('forbidden', 'That agent is of another organisation: invite it.'));
    return attempt(db, async (tx) =>
      this.letIn(tx, room, { did: await keyring.didKey(keyring.agent(agent)), name: agent.address, url: null }),
    );
  }

  /** It gets nothing that is posted from now on, and what it posts is refused. False when it was no member. */
  async end(room: Agent, did: string, state: 'left' | 'removed'): Promise<boolean> {
    return this.#deps.db.tx((tx) => this.endIn(tx, room, did, state));
  }

  async endIn(tx: Tx, room: Agent, did: string, state: 'left' | 'removed'): Promise<boolean> {
    const now = this.#deps.clock.now();
    await store.lockRoom(tx, room.id);
    const here = await store.endMember(tx, { agentId: room.id, did, state, now });
    if (here === undefined) return false;
    if (here !== null) await this.#listen(tx, room, here, false);
    const isOver = roomOf(room)?.lifetime === 'ephemeral' && (await store.countMembers(tx, room.id)) === 0;
    if (isOver) await store.endInvites(tx, room.id, now);
    return true;
  }

  /** `problem`: why a member elsewhere could not be reached; null when it was. */
  noteProblem(tx: Tx, q: { agentId: string; did: string; problem: string | null }): Promise<void> {
    return store.noteProblem(tx, q);
  }

  async #listen(tx: Tx, room: Agent, agentId: string, on: boolean): Promise<void> {
    const { clock } = this.#deps;
    const now = clock.now();
    const { team, handle: name } = room;
    const topicId = await store.topicOfRoom(tx, { agentId: room.id, team, name, newId: newId(clock), now });
    await store.setListening(tx, { topicId, agentId, on, conversation: newId(clock), now });
  }
}

/** The connect policy that a room's `join` stands for (muretai-wire-facts §12): a request is how one asks to join. */
export function connectOf({ join }: RoomAxes): 'closed' | 'filtered' | 'open' {
  return join === 'open' ? 'open' : join === 'request' ? 'filtered' : 'closed';
}
