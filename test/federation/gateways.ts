import { randomBytes } from 'node:crypto';
import { bootstrap } from '../../src/directory/bootstrap.ts';
import { createDirectory, type Registry } from '../../src/directory/index.ts';
import { handleOfAuthority } from '../../src/directory/names.ts';
import type { PlanName } from '../../src/directory/plans.ts';
import type { NodeIdentity } from '../../src/directory/types.ts';
import { Limits } from '../../src/exchange/limits/index.ts';
import type { ExchangeLookups } from '../../src/exchange/lookups.ts';
import { createFederation, type FederationParts } from '../../src/federation/index.ts';
import type { LinkView } from '../../src/federation/types.ts';
import { createGateStore, createGates } from '../../src/gates/index.ts';
import { Policies } from '../../src/gates/policies/index.ts';
import { DidResolver } from '../../src/identity/resolver.ts';
import { Sealer } from '../../src/identity/sealing.ts';
import { ManualClock } from '../../src/lib/clock.ts';
import { type Fetch, type FetchInit, FetchRefused, type FetchResult } from '../../src/lib/fetch-types.ts';
import type { HeaderFields, HttpRequest, HttpResponse, Route } from '../../src/lib/http.ts';
import { refuse } from '../../src/lib/refusal.ts';
import { RouteTable } from '../../src/lib/routes.ts';
import { createOutbox, type Outbox } from '../../src/outbox/index.ts';
import { federationRoutes } from '../../src/wires/federation/routes.ts';
import { linkRoutes } from '../../src/wires/redsyn/links.ts';
import { didDocument } from '../../wellknown/did.ts';
import { caller, listening, ok } from '../directory/fixture.ts';
import { quiet } from '../mailbox/fixture.ts';
import { freshDatabase, type Lifetime } from '../support/database.ts';

/** Gateways that reach each other through memory instead of sockets; everything else is real. */
export class World {
  readonly clock = new ManualClock();
  readonly gateways = new Map<string, Gateway>();
  /** Authorities that nobody reaches. */
  readonly down = new Set<string>();
  /** Every request that went through, as it was sent. */
  readonly sent: Array<{ url: string; init: FetchInit; status: number }> = [];
  /** Called before a request is answered: to hold it, or to answer otherwise. */
  intercept: (url: string, init: FetchInit) => Promise<FetchResult | undefined> = async () => undefined;
  readonly #lifetime: Lifetime;

  constructor(lifetime: Lifetime) {
    this.#lifetime = lifetime;
  }

  readonly fetch: Fetch = async (url, init) => {
    const { host: authority, protocol } = new URL(url);
    if (this.down.has(authority)) throw new FetchRefused('connect', 'No connection could be made, or it broke off.');
    const other = await this.intercept(url, init);
    if (other) return other;
    const gateway = this.gateways.get(authority);
    if (!gateway) throw new FetchRefused('connect', 'No connection could be made, or it broke off.');
    const response = await gateway.handle(requestOf(url, protocol === 'http:' ? 'http' : 'https', authority, init));
    this.sent.push({ url, init, status: response.status });
    return resultOf(response);
  };

  async gateway(org: string, authority: string, more: { plan?: PlanName } = {}): Promise<Gateway> {
    const outboxes: Outbox[] = [];
    this.#lifetime.after(async () => void (await Promise.all(outboxes.map((outbox) => outbox.stop()))));
    const { db, notifier } = await freshDatabase(this.#lifetime);
    const { clock, fetch } = this;
    const registry = createDirectory({
      db,
      clock,
      sealer: new Sealer(randomBytes(32)),
      authority,
      plan: more.plan ?? 'enterprise',
      apiVersion: '2026-09-25',
    });
    const token = `ghn_admin-of-${handleOfAuthority(authority)}-1234567890`;
    await bootstrap({ db, clock, ...registry }, { org, admin: 'joel', adminToken: token });
    const outbox = createOutbox({ db, notifier, clock, log: quiet, random: () => 0.5 });
    outboxes.push(outbox);
    const resolver = new DidResolver({ fetch, clock, loopback: true, allowIp: true });
    const federation = createFederation({
      db,
      clock,
      log: quiet,
      fetch,
      resolver,
      registry,
      outbox,
      authority,
      base: `http://${authority}`,
      loopback: true,
    });
    const gates = createGates({
      clock,
      directory: registry.lookups,
      federation,
      lookups: {} as ExchangeLookups,
      resolver,
      store: createGateStore(db, clock),
      policies: new Policies({ db, clock }),
      limits: new Limits({ db, clock }),
      self: { domain: authority, authorities: [authority] },
      rates: { ip: 10_000, peer: 10_000 },
    });
    const { identify } = gates;
    const routes = [
      ...federationRoutes({
        identify,
        links: federation.links,
        exposed: federation.exposed,
        topics: { receive: async () => refuse('not_found') },
        heardFrom: (domain) => outbox.heardFrom(domain),
        dueNow: (domain) => outbox.dueNow(domain),
      }),
      ...linkRoutes({ identify, directory: registry.lookups, links: federation.links }),
    ];
    outbox.start(federation.senders);
    const gateway = new Gateway({ authority, org, token, registry, federation, outbox, routes, db });
    this.gateways.set(authority, gateway);
    return gateway;
  }

  /** Lets time pass until `promise` has come to its end. */
  async settle<T>(promise: Promise<T>): Promise<T> {
    let settled = false;
    const done = (): void => {
      settled = true;
    };
    promise.then(done, done);
    await this.pass(60_000, async () => settled);
    return promise;
  }

  /** Lets time pass in half seconds until it is so; whatever an outbox has under way comes to its end before the clock goes on. */
  async pass(ms: number, done: () => Promise<boolean>): Promise<void> {
    for (let at = 0; at < ms; at += 500) {
      if (await done()) return;
      this.clock.advance(500);
      do await new Promise((resolve) => setTimeout(resolve, 20));
      while ([...this.gateways.values()].some(({ outbox }) => outbox.stats().inFlight > 0));
    }
    if (!(await done())) throw new Error(`not so after ${ms} ms`);
  }
}

/** What a test reads of an answer's body. */
// biome-ignore lint/suspicious/noExplicitAny: each test knows what it asked for
export type Answered = Record<string, any>;

interface Parts {
  authority: string;
  org: string;
  token: string;
  registry: Registry;
  federation: FederationParts;
  outbox: Outbox;
  routes: readonly Route[];
  db: Awaited<ReturnType<typeof freshDatabase>>['db'];
}

export class Gateway {
  readonly authority: string;
  readonly org: string;
  readonly token: string;
  readonly registry: Registry;
  readonly federation: FederationParts;
  readonly outbox: Outbox;
  readonly db: Parts['db'];
  readonly #table: RouteTable;

  constructor(parts: Parts) {
    this.authority = parts.authority;
    this.org = parts.org;
    this.token = parts.token;
    this.registry = parts.registry;
    this.federation = parts.federation;
    this.outbox = parts.outbox;
    this.db = parts.db;
    this.#table = new RouteTable(parts.routes);
  }

  async handle(request: HttpRequest): Promise<HttpResponse> {
    if (request.path === '/.well-known/did.json') {
      const place = { base: `http://${this.authority}`, authority: this.authority };
      const body = JSON.stringify(didDocument(place, await this.registry.facts.instance()));
      return { status: 200, headers: { 'content-type': 'application/did+json' }, body };
    }
    const match = this.#table.find(request.path)?.route(request.method);
    if (!match) return { status: 404, body: '{}' };
    return match.route.handler({ ...request, params: match.params });
  }

  admin(): Promise<NodeIdentity> {
    return caller(this.registry, this.token);
  }

  /** A REDSYN call with the admin's token, or another one. */
  async call(
    method: string,
    path: string,
    body?: unknown,
    token = this.token,
  ): Promise<{ status: number; json: Answered }> {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const init = {
      method: method as 'GET',
      headers,
      maxBytes: 0,
      timeoutMs: 0,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    };
    const response = await this.handle(
      requestOf(`http://${this.authority}/redsyn/v1${path}`, 'http', this.authority, init),
    );
    return { status: response.status, json: JSON.parse(String(response.body)) };
  }

  async links(token = this.token): Promise<LinkView[]> {
    return (await this.call('GET', '/links', undefined, token)).json.links;
  }

  async only(): Promise<LinkView> {
    const links = await this.links();
    if (links.length !== 1) throw new Error(`${links.length} links at ${this.authority}`);
    return links[0]!;
  }

  propose(other: string): Promise<{ status: number; json: Answered }> {
    return this.call('POST', `/orgs/${this.org}/links`, { other });
  }

  /** Announces an agent of the admin. */
  async announce(name: string, allow: string[] = []): Promise<void> {
    const address = { org: this.org, team: 'general', user: 'joel', agent: name, session: null };
    const said = { ...listening, description: `${name} of ${this.org}`, policy: { ...listening.policy, allow } };
    ok(await this.registry.agents.announce(await this.admin(), address, said));
  }
}

class Fields implements HeaderFields {
  readonly raw: ReadonlyArray<readonly [string, string]>;

  constructor(raw: ReadonlyArray<readonly [string, string]>) {
    this.raw = raw;
  }

  all(name: string): readonly string[] {
    return this.raw.filter(([key]) => key.toLowerCase() === name.toLowerCase()).map(([, value]) => value);
  }

  get(name: string): string | undefined {
    const values = this.all(name);
    return values.length === 0 ? undefined : values.join(', ');
  }
}

export function requestOf(url: string, scheme: 'http' | 'https', authority: string, init: FetchInit): HttpRequest {
  const target = url.slice(url.indexOf(authority) + authority.length);
  const cut = target.indexOf('?');
  return {
    method: init.method ?? 'GET',
    target,
    path: cut < 0 ? target : target.slice(0, cut),
    search: cut < 0 ? '' : target.slice(cut),
    params: {},
    headers: new Fields([['Host', authority], ...Object.entries(init.headers ?? {})]),
    authority,
    scheme,
    ip: '127.0.0.1',
    body: Buffer.from(init.body ?? ''),
    gone: new AbortController().signal,
  };
}

export function resultOf(response: HttpResponse): FetchResult {
  const headers = new Map(Object.entries(response.headers ?? {}).map(([key, value]) => [key.toLowerCase(), value]));
  return { status: response.status, headers, body: Buffer.from(response.body ?? '') };
}
