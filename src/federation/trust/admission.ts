import type { Tx } from '../../db/types.ts';
import { roomOf } from '../../directory/rooms.ts';
import type { Agent } from '../../directory/types.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Refusal } from '../../lib/refusal.ts';
import type { Contacts } from '../contacts/contacts.ts';
import type { Rooms } from '../rooms/index.ts';
import { type Reach, savePeer } from './store.ts';

/** Lets a did:key in: into a room as its member, to any other agent as a contact of its owner. */
export class Admission {
  readonly #clock: Clock;
  readonly #contacts: Pick<Contacts, 'letIn'>;
  readonly #rooms: Pick<Rooms, 'letIn'>;

  constructor(deps: { clock: Clock; contacts: Pick<Contacts, 'letIn'>; rooms: Pick<Rooms, 'letIn'> }) {
    this.#clock = deps.clock;
    this.#contacts = deps.contacts;
    this.#rooms = deps.rooms;
  }

  /** In the transaction that decides it. Refusals: `quota_exceeded` for a room that is full. */
  async letIn(
    tx: Tx,
    agent: Agent,
    did: string,
    { reach, via }: { reach: Reach; via: string },
  ): Promise<true | Refusal> {
    await savePeer(tx, { agentId: agent.id, did, reach, now: this.#clock.now() });
    const { name, url } = reach;
    if (roomOf(agent)) return this.#rooms.letIn(tx, agent, { did, name, url });
    await this.#contacts.letIn(tx, agent.memberId, did, { alias: name || null, via });
    return true;
  }
}
