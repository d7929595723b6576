import type { Db } from '../db/types.ts';
import type { Sealer } from '../identity/sealing.ts';
import type { Clock } from '../lib/clock.ts';
import { AgentKeys } from './agent-keys.ts';
import { Agents } from './agents.ts';
import { Entries } from './entries.ts';
import { Facts } from './facts.ts';
import { JoinCodes } from './join-codes.ts';
import { Keyring } from './keyring.ts';
import { Lookups } from './lookups.ts';
import { Nodes } from './nodes.ts';
import { People } from './people.ts';
import type { PlanName } from './plans.ts';
import { WatcherKeys } from './watcher-keys.ts';

export interface DirectoryOptions {
  db: Db;
  clock: Clock;
  /** Seals the seeds of key pairs with GATEHOUSE_SECRET. */
  sealer: Sealer;
  /** Of GATEHOUSE_URL: `acme.com`, `localhost:8080`. */
  authority: string;
  plan: PlanName;
  /** The REDSYN date that is current now. */
  apiVersion: string;
  orgCreation?: 'anyone' | 'operator';
}

/** Who exists here. `lookups` is the `Directory` of the gates; the rest is what the wires offer people. */
export interface Registry {
  lookups: Lookups;
  keyring: Keyring;
  people: People;
  nodes: Nodes;
  agents: Agents;
  agentKeys: AgentKeys;
  joinCodes: JoinCodes;
  watcherKeys: WatcherKeys;
  entries: Entries;
  facts: Facts;
}

export function createDirectory(options: DirectoryOptions): Registry {
  const { db, clock, sealer, authority, plan, apiVersion, orgCreation } = options;
  const keyring = new Keyring({ db, clock, sealer, authority });
  const lookups = new Lookups({ db, clock, authority });
  const nodes = new Nodes({ db, clock });
  const people = new People({
    db,
    clock,
    keyring,
    nodes,
    authority,
    plan,
    apiVersion,
    ...(orgCreation !== undefined && { orgCreation }),
  });
  return {
    lookups,
    keyring,
    people,
    nodes,
    agents: new Agents({ db, clock, keyring, people }),
    agentKeys: new AgentKeys({ db, clock, directory: lookups }),
    joinCodes: new JoinCodes({ db, clock, people }),
    watcherKeys: new WatcherKeys({ db, clock, people }),
    entries: new Entries({ db, clock, keyring }),
    facts: new Facts({ keyring, lookups, authority }),
  };
}
