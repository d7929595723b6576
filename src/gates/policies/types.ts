export type Verdict = 'allow' | 'ask_user' | 'deny';

/** One rule, and where its owner finds it. */
export interface Rule {
  readonly verdict: Verdict;
  /** Whether the action is of its form. */
  readonly pattern: { readonly kind: 'glob' | 'prefix'; readonly text: string };
  /** `line 4`, `rules[2]`. */
  readonly at: string;
  /** JSON rules for one peer alone; null for any. */
  readonly peerDid: string | null;
}

/** The rules for one peer, as one section of a document has them. */
export interface Section {
  /** The name behind `peer.`; null in a contact's own policy, and in JSON, which is about whoever its rules name. */
  readonly peer: string | null;
  /** YAML: every rule counts, deny first. JSON: the first that matches alone (confer-wire-facts §10). */
  readonly order: 'deny_first' | 'first_match';
  readonly rules: readonly Rule[];
  readonly fallback: { readonly verdict: Verdict; readonly at: string } | null;
  /** `require_human_in_loop: true`: what would be allowed is asked. */
  readonly humanInLoop: { readonly at: string } | null;
}

export interface Policy {
  readonly sections: readonly Section[];
}

/** What an owner decided "always". `action` is `*` for any, `peerDid` '' for any peer. */
export interface DecidedRule {
  readonly action: string;
  readonly peerDid: string;
  readonly decision: 'allow' | 'deny';
  readonly createdAt: number;
}
