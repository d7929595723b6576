import type { Route } from './http.ts';

/** The routes of one path, whatever their method. */
export interface PathMatch {
  /** Methods that this path takes. */
  readonly methods: readonly string[];
  route(method: string): RouteMatch | undefined;
}

export interface RouteMatch {
  readonly route: Route;
  /** Percent-decoded values by the names in the route's path. */
  readonly params: Readonly<Record<string, string>>;
}

interface Entry {
  readonly route: Route;
  readonly names: readonly string[];
}

interface Node {
  readonly literals: Map<string, Node>;
  /** `{id}:cancel` under its suffix `:cancel`, `{id}` under the empty one. */
  readonly captures: Map<string, Node>;
  readonly routes: Map<string, Entry>;
}

/**
 * Path templates to routes. Paths are split on `/` before they are percent-decoded, so an escaped slash stays inside its segment. In each
 * segment a literal wins over `{name}:literal`, which wins over `{name}`; one slash at the end makes no difference.
 */
export class RouteTable {
  readonly #root = newNode();

  /** Throws when two routes take the same method on the same shape of path. */
  constructor(routes: readonly Route[]) {
    for (const route of routes) this.#add(route);
  }

  /** `path` as it is on the request line, its escapes already found valid. */
  find(path: string): PathMatch | undefined {
    const segments = split(path);
    const decoded = path.includes('%') ? segments.map(decodeURIComponent) : segments;
    const values: string[] = [];
    const node = walk(this.#root, decoded, 0, values);
    if (!node) return undefined;
    return {
      methods: [...node.routes.keys()],
      route(method) {
        const entry = node.routes.get(method);
        return (
          entry && { route: entry.route, params: Object.fromEntries(entry.names.map((name, i) => [name, values[i]!])) }
        );
      },
    };
  }

  #add(route: Route): void {
    const names: string[] = [];
    let node = this.#root;
    for (const segment of split(route.path)) {
      const [, name, suffix = ''] = /^\{([^}]+)\}(:.+)?$/.exec(segment) ?? [];
      if (name !== undefined) names.push(name);
      node = name === undefined ? child(node.literals, segment) : child(node.captures, suffix);
    }
    if (node.routes.has(route.method)) throw new Error(`two routes for ${route.method} ${route.path}`);
    node.routes.set(route.method, { route, names });
  }
}

/** The node that the rest of the segments leads to; what was captured on the way stands in `values`. */
function walk(node: Node, segments: readonly string[], at: number, values: string[]): Node | undefined {
  const segment = segments[at];
  if (segment === undefined) return node.routes.size > 0 ? node : undefined;
  const literal = node.literals.get(segment);
  const found = literal && walk(literal, segments, at + 1, values);
  if (found) return found;

  for (const [suffix, next] of node.captures) {
    if (suffix === '' || segment.length <= suffix.length || !segment.endsWith(suffix)) continue;
    const end = capture(next, segment.slice(0, -suffix.length), segments, at, values);
    if (end) return end;
  }
  const any = node.captures.get('');
  return any && segment !== '' ? capture(any, segment, segments, at, values) : undefined;
}

function capture(
  next: Node,
  value: string,
  segments: readonly string[],
  at: number,
  values: string[],
): Node | undefined {
  values.push(value);
  const end = walk(next, segments, at + 1, values);
  if (!end) values.pop();
  return end;
}

function split(path: string): string[] {
  const segments = path.split('/').slice(1);
  if (segments.at(-1) === '') segments.pop();
  return segments;
}

function child(nodes: Map<string, Node>, key: string): Node {
  const node = nodes.get(key) ?? newNode();
  nodes.set(key, node);
  return node;
}

function newNode(): Node {
  return { literals: new Map(), captures: new Map(), routes: new Map() };
}
