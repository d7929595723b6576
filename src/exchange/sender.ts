import type { Agent, AgentIdentity, Member, NodeIdentity } from '../directory/types.ts';

/** The wires. For logs and metrics: no gate may ask which wire a message came by. */
export type WireName = 'redsyn' | 'a2a' | 'confer' | 'muretai' | 'replyslip' | 'mcp' | 'federation';

/** Who proved to be calling. */
export type Principal =
  /** A node token of this instance. */
  | { kind: 'node'; node: NodeIdentity }
  /** An agent's own key: it acts as that agent, and decides nothing that is its owner's to decide. */
  | ({ kind: 'agent' } & AgentIdentity)
  /** A foreign DID, by RFC 9421: `did` is the signer (an owner or an instance), `domain` its authority. */
  | { kind: 'signer'; did: string; domain: string; keyId: string; isInstance: boolean }
  /** A did:key by a muretai envelope. */
  | { kind: 'did-key'; did: string }
  /** Nobody in particular: only agents that take `anyone` may be reached. */
  | { kind: 'anonymous' };

/** The sender, once gate 4 has placed it. */
export type Sender =
  /** One of the caller's own agents here. */
  | { kind: 'local'; member: Member; agent: Agent | null; address: string }
  /** A foreign principal. `peerId` is set once consent let it in. */
  | { kind: 'peer'; did: string; domain: string; address: string; peerId: string | null; linkId: string | null }
  /** The other gateway itself, telling what became of a message (an error reply that no agent wrote). */
  | { kind: 'relay'; domain: string; address: string; linkId: string }
  | { kind: 'anonymous'; address: string };
