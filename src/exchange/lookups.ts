import type { Refusal } from '../lib/refusal.ts';

/** An exchange as a gate needs to see it. */
export interface ExchangeRef {
  id: string;
  requestId: string;
  /** 'm:…' or 'p:…' */
  asker: string;
  askerAgent: string | null;
  askerOwner: string | null;
  askerAddr: string;
  askerVia: string | null;
  asked: string;
  askedAgent: string | null;
  askedAddr: string;
  ended: boolean;
}

/** What the address and thread gates ask of the exchange. */
export interface ExchangeLookups {
  /**
   * The exchange that a local agent's progress or reply belongs to. Ids are unique per sender only, so two askers may have used the same one:
   * then `thread` (the agent's own) or `to` decides, and without either it is `conflict`. Unknown: `not_found`.
   */
  answerableByAgent(q: {
    agentId: string;
    replyTo: string;
    thread: string | null;
    to: string | null;
  }): Promise<ExchangeRef | Refusal>;
  /** The exchange that a progress or reply from a linked gateway belongs to: asked of `from` behind `domain`, by the local agent `askerAgent`. */
  answerableByPeer(q: {
    domain: string;
    from: string;
    replyTo: string;
    askerAgent: string | null;
  }): Promise<ExchangeRef | Refusal>;
  /**
   * The oldest open exchange that somebody of `owner` asked of one of these DIDs in that thread, for an answer that names no request (Confer). Null when
   * there is none.
   */
  openInThread(q: { owner: string; dids: readonly string[]; thread: string }): Promise<ExchangeRef | null>;
  /** Session `n` of an agent, if `participant` ('m:…', 'p:…') takes part in it or owns it. Closed: `session_closed`; else `address_not_found`. */
  session(q: { agentId: string; n: number; participant: string }): Promise<{ conversation: string } | Refusal>;
  /**
   * The caller without a proof that takes part in a conversation of `owner`: its sender key, or null. The id of such a conversation is one that this
   * gateway made and told nobody else; one that a caller made up is never the id of a conversation.
   */
  anonymousIn(q: { owner: string; thread: string }): Promise<string | null>;
}
