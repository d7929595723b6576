import type { Db, Queryable } from '../db/types.ts';
import { importKey } from '../identity/algorithms.ts';
import { fromBase64url } from '../identity/encoding.ts';
import { readEncryptionKey } from '../identity/redsyn-cipher.ts';
import type { Clock } from '../lib/clock.ts';
import { newId, newToken, sha256 } from '../lib/ids.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import * as store from './nodes/store.ts';
import type { NodeIdentity } from './types.ts';

export type { NodeKey, NodeRow } from './nodes/store.ts';

export interface NewNode {
  id: string;
  name: string;
  /** `ghn_…`, told once: only its SHA-256 is kept. */
  token: string;
}

export interface KeyRegistration {
  publicKey: string;
  encKey: string | null;
  encSig: string | null;
  rotate: boolean;
}

export interface NodesDeps {
  db: Db;
  clock: Clock;
}

/** Nodes per person; a token that is no longer needed is revoked. */
const MAX_NODES = 1_000;

export function tokenHash(token: string): Buffer {
  return sha256(token);
}

export class Nodes {
  readonly #deps: NodesDeps;

  constructor(deps: NodesDeps) {
    this.#deps = deps;
  }

  async make(personId: string, name: string): Promise<NewNode | Refusal> {
    const { db } = this.#deps;
    if ((await store.countNodes(db, personId)) >= MAX_NODES) {
      return refuse('quota_exceeded', `There are ${MAX_NODES} nodes already: revoke one first.`, {
        status: 403,
        data: { quota: true },
      });
    }
    return this.insert(db, personId, name);
  }

  /** In a transaction of the caller's. */
  async insert(db: Queryable, personId: string, name: string, token = newToken('ghn_')): Promise<NewNode> {
    const { clock } = this.#deps;
    const node = { id: newId(clock), name, token };
    await store.insertNode(db, { id: node.id, personId, name, tokenHash: tokenHash(token), now: clock.now() });
    return node;
  }

  list(personId: string): Promise<store.NodeRow[]> {
    return store.nodesOf(this.#deps.db, personId);
  }

  /** Acts at once, on every replica: tokens are looked up, never cached. */
  async revoke(personId: string, id: string): Promise<Refusal | undefined> {
    const done = await store.revokeNode(this.#deps.db, personId, id, this.#deps.clock.now());
    return done ? undefined : refuse('not_found', 'You have no such node.');
  }

  /** REDSYN "Firmas": registers the public half of the calling node's key. */
  async setKey(node: NodeIdentity, key: KeyRegistration): Promise<Refusal | undefined> {
    const raw = fromBase64url(key.publicKey);
    if (raw?.length !== 32) return invalid('public_key', 'must be 32 bytes as base64url');
    const imported = importKey('ed25519', raw);
    if (typeof imported === 'string') return invalid('public_key', `is not accepted: ${imported}`);
    if ((key.encKey === null) !== (key.encSig === null)) {
      return invalid(key.encKey === null ? 'enc_key' : 'enc_sig', 'is missing: `enc_key` and `enc_sig` come together');
    }
    if (key.encKey !== null && key.encSig !== null) {
      const point = readEncryptionKey(key.encKey, key.encSig, imported);
      if (point instanceof Refusal) return point;
    }
    const { db, clock } = this.#deps;
    const done = await store.setNodeKey(db, { nodeId: node.nodeId, ...key, now: clock.now() });
    if (done) return undefined;
    return refuse('conflict', 'This node has another key registered. Say `"rotate": true` to replace it.');
  }

  /**
   * The keys of the node that listened last for an agent; null when it has none to encrypt for. `reader` ('m:<member id>', 'd:<did>') is told
   * them: what it seals next for the agent is for that node, whichever listens by then.
   */
  async keyOfListener(agentId: string, readers: readonly string[] = []): Promise<store.NodeKey | null> {
    const { db, clock } = this.#deps;
    const key = (await store.keyOfListener(db, agentId)) ?? null;
    if (key && readers.length > 0)
      await store.noteServed(db, { agentId, readers, nodeId: key.nodeId, now: clock.now() });
    return key;
  }
}

function invalid(field: string, why: string): Refusal {
  return refuse('invalid_field', `\`${field}\` ${why}.`, { data: { field } });
}
