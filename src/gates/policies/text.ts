import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, type Pair, parseDocument } from 'yaml';
import { type Refusal, refuse } from '../../lib/refusal.ts';
import { actions, isAction, maxAction } from '../actions.ts';
import { maxPattern, maxWildcards } from './glob.ts';
import type { Policy, Rule, Section, Verdict } from './types.ts';

/** UTF-16 units of a policy's text; rules, sections and aliases in it. */
export const maxSource = 64 * 1024;
const maxRules = 500;
const maxAliases = 20;
const verdicts: readonly string[] = ['allow', 'ask_user', 'deny'];

/**
 * Reads a policy: the YAML of confer.md ("Políticas permanentes"), or the JSON form of confer-wire-facts §10. `contact`: it is one contact's own, so the
 * members of a section stand at its top. Refusal: `invalid_field` with `data` `{line, column}`, both from 1.
 */
export function readPolicy(source: string, kind: 'owner' | 'contact'): Policy | Refusal {
  if (source.length > maxSource) return at({ line: 1, col: 1 }, `The policy is longer than ${maxSource} characters.`);
  const lines = new LineCounter();
  // YAML 1.2 core: no custom tags, no merge keys, no dates; JSON is YAML.
  const document = parseDocument(source, { schema: 'core', version: '1.2', lineCounter: lines, prettyErrors: false });
  const fault = document.errors[0] ?? document.warnings[0];
  if (fault) return at(lines.linePos(fault.pos[0]), fault.message.split('\n')[0]!);
  const reader = new Reader(lines, (alias) => alias.resolve(document));
  try {
    return reader.policy(document.contents, kind);
  } catch (error) {
    if (error instanceof Fault) return error.refusal;
    throw error;
  }
}

type Alias = Extract<Node, { source: string; resolve: unknown }>;
type Entry = { name: string; key: Node; value: Node | null };

/** Ends the reading of a document; caught by `readPolicy`. */
class Fault extends Error {
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.words);
    this.refusal = refusal;
  }
}

class Reader {
  readonly #lines: LineCounter;
  readonly #resolve: (alias: Alias) => Node | undefined;
  #rules = 0;
  #aliases = 0;

  constructor(lines: LineCounter, resolve: (alias: Alias) => Node | undefined) {
    this.#lines = lines;
    this.#resolve = resolve;
  }

  policy(root: Node | null, kind: 'owner' | 'contact'): Policy {
    if (root === null || (isScalar(root) && root.value === null)) return { sections: [] };
    const entries = this.#map(root, 'A policy');
    if (entries.some(({ name }) => name === 'rules') || (kind === 'owner' && entries.some((e) => e.name === 'default')))
      return { sections: [this.#jsonSection(entries)] };
    if (kind === 'contact') return { sections: [this.#section(null, entries)] };
    return {
      sections: entries.map(({ name, key, value }) => {
        const peer = /^peer\.(\S.{0,599})$/.exec(name)?.[1];
        if (peer === undefined) this.#fail(key, `\`${name}\` is not known here: a section is called peer.<name>.`);
        return this.#section(peer!, this.#map(value ?? key, `\`${name}\``));
      }),
    };
  }

  #section(peer: string | null, entries: readonly Entry[]): Section {
    const rules: Rule[] = [];
    let fallback: Section['fallback'] = null;
    let humanInLoop: Section['humanInLoop'] = null;
    for (const { name, key, value } of entries) {
      switch (name) {
        case 'allow':
        case 'deny':
          rules.push(...this.#globs(name, value ?? key));
          break;
        case 'always_consult':
          if (this.#flag(name, value ?? key))
            rules.push(this.#rule('allow', { kind: 'prefix', text: 'ask' }, key, null));
          break;
        case 'require_human_in_loop':
          if (this.#flag(name, value ?? key)) humanInLoop = { at: this.#line(key) };
          break;
        case 'default':
          fallback = { verdict: this.#verdict(name, value ?? key), at: this.#line(key) };
          break;
        default:
          this.#fail(
            key,
            `\`${name}\` is not known here: allow, deny, always_consult, default or require_human_in_loop.`,
          );
      }
    }
    return { peer, order: 'deny_first', rules, fallback, humanInLoop };
  }

  /** `- ask: "technical:*"` */
  #globs(verdict: 'allow' | 'deny', list: Node): Rule[] {
    const node = this.#real(list);
    if (!isSeq(node)) return this.#fail(list, `\`${verdict}\` must be a list.`);
    return node.items.flatMap((item) =>
      this.#map(item as Node, `An entry of \`${verdict}\``).map(({ name, key, value }) => {
        if (!Object.hasOwn(actions, name)) {
          return this.#fail(key, `\`${name}\` is no action: ${Object.keys(actions).join(', ')}.`);
        }
        const glob = this.#text(value ?? key, `\`${name}\``);
        const wildcards = glob.match(/\*+|\?/g)?.length ?? 0;
        if (glob === '' || glob.length > maxPattern || wildcards > maxWildcards) {
          return this.#fail(
            value ?? key,
            `A pattern has 1 to ${maxPattern} characters and at most ${maxWildcards} wildcards.`,
          );
        }
        return this.#rule(verdict, { kind: 'glob', text: `${name}:${glob}` }, value ?? key, null);
      }),
    );
  }

  /** `{default?, rules?: [{action, peer_did?, decision}]}` */
  #jsonSection(entries: readonly Entry[]): Section {
    let rules: Rule[] = [];
    let fallback: Section['fallback'] = null;
    for (const { name, key, value } of entries) {
      if (name === 'default') fallback = { verdict: this.#verdict(name, value ?? key), at: this.#line(key) };
      else if (name === 'rules') {
        const list = this.#real(value ?? key);
        if (!isSeq(list)) return this.#fail(value ?? key, '`rules` must be a list.');
        rules = list.items.map((item) => this.#jsonRule(item as Node));
      } else this.#fail(key, `\`${name}\` is not known here: default or rules.`);
    }
    return { peer: null, order: 'first_match', rules, fallback, humanInLoop: null };
  }

  #jsonRule(item: Node): Rule {
    let action: string | undefined;
    let verdict: Verdict | undefined;
    let peerDid: string | null = null;
    for (const { name, key, value } of this.#map(item, 'A rule')) {
      const node = value ?? key;
      if (name === 'action') {
        action = this.#text(node, '`action`');
        if (action !== '*' && !isAction(action))
          this.#fail(node, `\`action\` must be * or an action, at most ${maxAction} characters.`);
      } else if (name === 'decision') verdict = this.#verdict(name, node);
      else if (name === 'peer_did') {
        peerDid = this.#text(node, '`peer_did`');
        if (!/^did:[a-z]+:\S{1,600}$/.test(peerDid)) this.#fail(node, '`peer_did` must be a DID.');
      } else this.#fail(key, `\`${name}\` is not known here: action, peer_did or decision.`);
    }
    if (action === undefined || verdict === undefined) return this.#fail(item, 'A rule has an action and a decision.');
    return this.#rule(verdict, { kind: 'prefix', text: action === '*' ? '' : action }, item, peerDid);
  }

  #rule(verdict: Verdict, pattern: Rule['pattern'], node: Node, peerDid: string | null): Rule {
    if (++this.#rules > maxRules) this.#fail(node, `A policy has at most ${maxRules} rules.`);
    return { verdict, pattern, at: this.#line(node), peerDid };
  }

  #map(given: Node, what: string): Entry[] {
    const node = this.#real(given);
    if (!isMap(node)) return this.#fail(given, `${what} must be a mapping.`);
    return (node.items as Pair<Node, Node | null>[]).map(({ key, value }) => ({
      name: this.#text(key, 'A key'),
      key,
      value,
    }));
  }

  #text(given: Node, what: string): string {
    const node = this.#real(given);
    if (!isScalar(node) || typeof node.value !== 'string') return this.#fail(given, `${what} must be text.`);
    if (node.value.includes('\0')) return this.#fail(given, `${what} holds U+0000.`);
    return node.value;
  }

  #flag(name: string, given: Node): boolean {
    const node = this.#real(given);
    if (!isScalar(node) || typeof node.value !== 'boolean')
      return this.#fail(given, `\`${name}\` must be true or false.`);
    return node.value;
  }

  #verdict(name: string, given: Node): Verdict {
    const text = this.#text(given, `\`${name}\``);
    return verdicts.includes(text)
      ? (text as Verdict)
      : this.#fail(given, `\`${name}\` must be allow, ask_user or deny.`);
  }

  #real(node: Node): Node {
    if (!isAlias(node)) return node;
    if (++this.#aliases > maxAliases) return this.#fail(node, `A policy has at most ${maxAliases} aliases.`);
    return this.#resolve(node as Alias) ?? this.#fail(node, 'The alias leads nowhere.');
  }

  #line(node: Node): string {
    return `line ${this.#lines.linePos(node.range?.[0] ?? 0).line}`;
  }

  #fail(node: Node, words: string): never {
    throw new Fault(at(this.#lines.linePos(node.range?.[0] ?? 0), words));
  }
}

function at({ line, col }: { line: number; col: number }, words: string): Refusal {
  return refuse('invalid_field', `Line ${line}, column ${col}: ${words}`, {
    data: { field: 'policy', line, column: col },
  });
}
