import type { AddressInfo } from 'node:net';
import { didDocument } from '../wellknown/did.ts';
import { extendedCard } from '../wellknown/extended-card.ts';
import type { Config } from './config.ts';
import { keep, loadSecret, makeDataFolder } from './db/data-folder.ts';
import { startEmbedded } from './db/embedded.ts';
import { isMigrated, migrate, readMigrations } from './db/migrate.ts';
import { openPool } from './db/pool.ts';
import { bootstrap } from './directory/bootstrap.ts';
import { Capabilities } from './directory/capabilities.ts';
import { Deliveries } from './directory/delivery.ts';
import { createDirectory } from './directory/index.ts';
import { storedAuthority } from './directory/keyring.ts';
import { readAddress } from './directory/names.ts';
import { Registrations } from './directory/registrations.ts';
import { dropRestoredSeed, readRestoredSeed } from './directory/restored-seed.ts';
import { Webhooks } from './directory/webhooks.ts';
import { Cancels } from './exchange/cancel/index.ts';
import { Letters } from './exchange/confer/index.ts';
import { createExchange } from './exchange/index.ts';
import { Limits } from './exchange/limits/index.ts';
import { PushConfigs } from './exchange/push/index.ts';
import { RemoteTasks } from './exchange/remote/index.ts';
import { RoomHub } from './exchange/rooms/index.ts';
import { Sessions } from './exchange/sessions/index.ts';
import { Tasks } from './exchange/task/index.ts';
import { Topics } from './exchange/topics/index.ts';
import { Tray } from './exchange/tray/index.ts';
import { mayLeave } from './federation/doors.ts';
import { createFederation } from './federation/index.ts';
import { lookUpPeers } from './federation/lookup.ts';
import { stillReaches } from './gates/consent.ts';
import { createGateStore, createGates, type Gates } from './gates/index.ts';
import { Policies } from './gates/policies/index.ts';
import { sealCard } from './identity/card-seal.ts';
import { DidResolver } from './identity/resolver.ts';
import { Sealer } from './identity/sealing.ts';
import { type Clock, systemClock } from './lib/clock.ts';
import { createFetch, createUrlCheck, type GuardedFetch } from './lib/fetch.ts';
import { newId } from './lib/ids.ts';
import { createLog, type Log, named } from './lib/log.ts';
import { every } from './lib/loop.ts';
import { Refusal } from './lib/refusal.ts';
import { createMailbox } from './mailbox/index.ts';
import { Pusher } from './mailbox/push/pusher.ts';
import { ModelAgents } from './model/index.ts';
import { Knowledge } from './model/knowledge/index.ts';
import { Memory } from './model/memory/index.ts';
import { ModelSettings } from './model/settings/index.ts';
import { createOutbox } from './outbox/index.ts';
import { Wakes } from './outbox/wakes.ts';
import { createCancelClient } from './wires/a2a/cancel-client.ts';
import { createRedsynClient, type RedsynClientOptions } from './wires/a2a/client.ts';
import { TaskFiles } from './wires/a2a/files.ts';
import { createPushClient } from './wires/a2a/push.ts';
import { createRemoteAgents } from './wires/a2a/remote/index.ts';
import { renderRefusal as a2aRefusal, a2aRoutes } from './wires/a2a/routes.ts';
import { capabilityRoutes } from './wires/confer/capabilities.ts';
import { ConferClient } from './wires/confer/client.ts';
import { consultRoutes } from './wires/confer/consult.ts';
import { renderRefusal as conferRefusal } from './wires/confer/errors.ts';
import { ownerPrefixes, ownerRoutes } from './wires/confer/owner.ts';
import { ownerKnowledgeRoutes } from './wires/confer/owner-knowledge.ts';
import { ownerModelRoutes } from './wires/confer/owner-model.ts';
import { conferPrefixes, conferRoutes } from './wires/confer/routes.ts';
import { renderRefusal as federationRefusal } from './wires/federation/errors.ts';
import { federationRoutes } from './wires/federation/routes.ts';
import { createFront } from './wires/front.ts';
import { healthRoutes, Metrics } from './wires/health.ts';
import { muretaiSenders } from './wires/muretai/outgoing.ts';
import { revocationRoutes } from './wires/muretai/revocations.ts';
import { agentRoutes } from './wires/redsyn/agents.ts';
import { currentVersion, renderRefusal as redsynRefusal } from './wires/redsyn/errors.ts';
import { fileRoutes } from './wires/redsyn/files.ts';
import { inboxRoutes } from './wires/redsyn/inbox.ts';
import { linkRoutes } from './wires/redsyn/links.ts';
import { loginRoutes } from './wires/redsyn/login.ts';
import { meRoutes } from './wires/redsyn/me.ts';
import { messageRoutes } from './wires/redsyn/messages.ts';
import { orgRoutes } from './wires/redsyn/orgs.ts';
import { checkEnvelope } from './wires/redsyn/parse.ts';
import { sessionRoutes } from './wires/redsyn/sessions.ts';
import { threadRoutes } from './wires/redsyn/threads.ts';
import { topicRoutes } from './wires/redsyn/topics.ts';
import { createWebhookClient } from './wires/redsyn/webhook-client.ts';
import { webhookRoutes } from './wires/redsyn/webhooks.ts';
import { renderRefusal as replySlipRefusal } from './wires/replyslip/errors.ts';
import { replySlipPrefixes, replySlipRoutes } from './wires/replyslip/routes.ts';
import { createWakeClient } from './wires/replyslip/wake-client.ts';
import { wellknownRoutes } from './wires/wellknown.ts';

/** What tests put in the place of the world. */
export interface Overrides {
  clock?: Clock;
  fetch?: GuardedFetch;
  log?: Log;
}

export interface Gateway {
  /** The public base URL and the port that is listened on. */
  readonly url: string;
  readonly port: number;
  readonly did: string;
  readonly org: string;
  /** The first admin, and her token when this very start made it. */
  readonly admin: { readonly user: string; readonly newToken: string | null };
  /** Takes nothing new, ends held polls with an empty list, lets work in flight end. A second call waits for the first. */
  stop(): Promise<void>;
}

const poolSize = 12;
const purgeEvery = 60_000;
/** Design §10: expiry is noticed within 5 s. */
const overdueEvery = 4_000;
const wakesEvery = 4_000;

/** Config -> a running gateway. The one place that knows everybody; it decides nothing. */
export async function startGateway(config: Config, overrides: Overrides = {}): Promise<Gateway> {
  const undo: Array<() => Promise<unknown>> = [];
  try {
    return await build(config, overrides, undo);
  } catch (error) {
    for (const step of undo.reverse()) await step().catch(() => undefined);
    throw error;
  }
}

async function build(config: Config, overrides: Overrides, undo: Array<() => Promise<unknown>>): Promise<Gateway> {
  const clock = overrides.clock ?? systemClock;
  const log = overrides.log ?? createLog({ level: config.logLevel });
  const { authority, loopback } = config;

  await makeDataFolder(config.data);
  const sealer = new Sealer(await loadSecret(config));

  let databaseUrl = config.databaseUrl;
  if (databaseUrl === undefined) {
    const embedded = await startEmbedded({ data: config.data, log: named(log, 'postgres') });
    undo.push(() => embedded.stop());
    databaseUrl = embedded.url;
  }
  await migrate({ url: databaseUrl, clock, log: named(log, 'migrate') });
  const db = await openPool({ url: databaseUrl, max: poolSize, clock, log: named(log, 'db') });
  undo.push(() => db.close());
  const { notifier } = db;

  const fetch = overrides.fetch ?? createFetch({ allowLoopback: loopback, clock });
  undo.push(() => fetch.close());

  const registry = createDirectory({ db, clock, sealer, authority, plan: config.plan, apiVersion: currentVersion });
  const { lookups: directory, keyring, people, nodes, facts } = registry;
  const before = await storedAuthority(db);
  if (before !== null && before !== authority) {
    log.warn(
      { before, now: authority },
      'this instance had another GATEHOUSE_URL: its DIDs change, its links and pins break, its org stays',
    );
  }
  if (config.scheme === 'http' && !loopback)
    log.warn(
      { url: config.url },
      'GATEHOUSE_URL is http, but did:web is read over https alone: others will not find this instance',
    );
  const restoredSeed = await readRestoredSeed(config.data, sealer);
  const { admin, newToken } = await bootstrap(
    { db, clock, keyring, nodes, people },
    {
      org: config.org,
      admin: config.admin,
      ...(config.adminToken !== undefined && { adminToken: config.adminToken }),
      ...(restoredSeed && { ownerSeed: restoredSeed }),
    },
  );
  if (restoredSeed) await dropRestoredSeed(config.data);
  if (newToken !== null) await keep(config.data, 'admin-token', () => newToken);
  const primary = (await directory.orgById(admin.orgId))!;

  const place = { base: config.url, authority };
  const own = keyring.instance().did;
  const resolver = new DidResolver({
    fetch,
    clock,
    loopback,
    // This instance need not call itself to read its own instance document.
    own: async (did) => (did === own ? didDocument(place, await facts.instance()) : undefined),
  });

  const outbox = createOutbox({ db, notifier, clock, log: named(log, 'outbox') });
  const federation = createFederation({
    db,
    clock,
    log: named(log, 'federation'),
    fetch,
    resolver,
    registry,
    outbox,
    authority,
    base: config.url,
    loopback,
  });
  const roomHub = new RoomHub({ db, clock, keyring });
  const exchange = createExchange({ db, notifier, clock, outbox, rooms: roomHub });
  const topics = new Topics({ db, clock, directory, federation, client: federation.client, outbox });
  const cancels = new Cancels({ db, clock, notifier, outbox });
  const tasks = new Tasks({ db, notifier, clock, cancels });
  const letters = new Letters({ db, clock });
  const mailbox = createMailbox({
    db,
    notifier,
    clock,
    log: named(log, 'mailbox'),
    giveUp: async (tx, ended) => {
      for (const { messageSeq, reason } of ended) await exchange.deliveryEnded(tx, messageSeq, reason);
    },
  });

  const checkUrl = createUrlCheck({ allowLoopback: loopback, clock });
  const pushes = new PushConfigs({ db, clock, sealer, checkUrl });
  const webhooks = new Webhooks({ db, clock, sealer, directory, checkUrl, loopback });
  const pusher = new Pusher({
    db,
    notifier,
    clock,
    log: named(log, 'webhooks'),
    open: (agentId, sealed) => webhooks.secret(agentId, sealed),
    push: createWebhookClient({ fetch, clock }),
    sweep: () => mailbox.sweep(),
  });

  const deliveries = new Deliveries({ db, clock, sealer, checkUrl, loopback });
  const registrations = new Registrations({ ...registry, db, clock, deliveries });
  const wakes = new Wakes({ db, clock, deliveries, outbox });
  const gateStore = createGateStore(db, clock);
  const policies = new Policies({ db, clock });
  const limits = new Limits({ db, clock });
  const tray = new Tray({ db, clock, stillReaches: (q) => stillReaches(q, { directory, federation }) });
  const metrics = new Metrics({ heldPolls: () => mailbox.stats().held, outboxInFlight: () => outbox.stats().inFlight });
  const gates = watched(
    createGates({
      clock,
      directory,
      federation,
      lookups: exchange.lookups,
      resolver,
      store: gateStore,
      policies,
      limits,
      self: { domain: authority, authorities: [authority] },
      rates: { ip: config.rateIp, peer: config.ratePeer },
    }),
    metrics,
    (domain) => void outbox.heardFrom(domain),
  );

  const ofOwner = async (ownerId: string): ReturnType<typeof keyring.signer> => {
    const member = await directory.member(ownerId);
    return keyring.signer(member ? keyring.owner(member) : keyring.instance());
  };
  const conferClient = new ConferClient({
    letters,
    signer: ofOwner,
    async didOf(address) {
      const at = readAddress(address);
      const agent = at instanceof Refusal ? null : await directory.agentAt(at);
      return agent && keyring.agent(agent).did;
    },
    mayLeave: async (orgId, domain) => !(await federation.isDomainBlocked(orgId, domain)),
    resolver,
    fetch,
    clock,
    loopback,
  });

  const remote = createRemoteAgents({
    otherwise: (item, name, signal) => conferClient.ask(item, name, signal),
    tasks: new RemoteTasks({ db, clock, outbox }),
    carrier: exchange.carrier,
    cancels,
    async signer(ownerId) {
      const member = await directory.member(ownerId);
      return keyring.signer(member ? keyring.owner(member) : keyring.instance());
    },
    mayLeave: async (orgId, domain) => !(await federation.isDomainBlocked(orgId, domain)),
    resolver,
    fetch,
    clock,
    base: config.url,
    loopback,
    log: named(log, 'a2a'),
  });

  const models = new ModelSettings({ db, clock, sealer, directory, checkUrl });
  const knowledge = new Knowledge({ db, clock });
  const memory = new Memory({ db, clock });
  const modelAgents = new ModelAgents({
    db,
    notifier,
    clock,
    log: named(log, 'model'),
    fetch,
    directory,
    mailbox,
    admit: gates.admit,
    exchange,
    metrics,
    signer: async (agent) => (await keyring.signer(keyring.agent(agent))).pair,
    authority,
    settings: models,
    knowledge,
    memory,
    limits,
  });

  const migrations = await readMigrations();
  const finder = directory;
  const redsyn = { identify: gates.identify, directory, registry };
  const signCard = async <T extends object>(card: T, plain: object): Promise<T> =>
    sealCard(card, plain, {
      ...(await keyring.signer(keyring.instance())),
      jku: `${config.url}/.well-known/jwks.json`,
    });
  const files = new TaskFiles({
    base: config.url,
    mac: (text) => sealer.mac(text),
    read: (seq) => exchange.zipOf(seq),
  });
  const front = createFront({
    routes: [
      ...healthRoutes({ metrics, ready: () => isMigrated(db, migrations) }),
      ...loginRoutes(redsyn),
      ...meRoutes(redsyn),
      ...orgRoutes(redsyn),
      ...agentRoutes({ ...redsyn, federation, remote: federation.remote }),
      ...linkRoutes({ ...redsyn, links: federation.links }),
      ...messageRoutes({ ...redsyn, admit: gates.admit, exchange }),
      ...fileRoutes({ ...redsyn, exchange }),
      ...inboxRoutes({ ...redsyn, mailbox }),
      ...webhookRoutes({ ...redsyn, webhooks }),
      ...topicRoutes({ ...redsyn, topics }),
      ...sessionRoutes({ ...redsyn, sessions: new Sessions(db) }),
      ...threadRoutes({ ...redsyn, exchange, cancels }),
      ...federationRoutes({
        identify: gates.identify,
        links: federation.links,
        exposed: federation.exposed,
        topics,
        heardFrom: (domain) => outbox.heardFrom(domain),
        dueNow: (domain) => outbox.dueNow(domain),
      }),
      ...ownerRoutes({
        identify: gates.identify,
        explain: gates.explain,
        directory,
        tray,
        consent: federation,
        trust: federation.trust,
        rooms: federation.rooms,
        policies,
        limits,
        lookUp: (method, value) => lookUpPeers(method, value, { fetch, resolver, loopback }),
        async localPeer(member, user) {
          const found = await directory.memberNamed(member.org, user);
          const did = found && keyring.owner(found).did;
          const bare = { description: '', primaryLanguage: null, style: null, capabilities: [], endpoint: null };
          return did ? { ...bare, did, name: found.handle } : null;
        },
        now: () => clock.now(),
      }),
      ...ownerModelRoutes({
        identify: gates.identify,
        models,
        limits,
      }),
      ...ownerKnowledgeRoutes({ identify: gates.identify, knowledge, memory }),
      ...capabilityRoutes({ gates, capabilities: new Capabilities({ keyring, clock }) }),
      ...consultRoutes({ gates, exchange, letters, federation, directory, clock }),
      ...conferRoutes({ gates, exchange, directory, authority, tasks, letters, clock }),
      ...replySlipRoutes({
        identify: gates.identify,
        watcher: gates.watcher,
        registry,
        registrations,
        deliveries,
        directory,
        wakes,
        base: config.url,
      }),
      ...remote.routes,
      ...files.routes(),
      ...a2aRoutes({
        files,
        gates,
        exchange,
        tasks,
        pushes,
        cancels,
        finder,
        checkEnvelope,
        extendedCard: (agent, audience, form) => extendedCard({ place, facts, sign: signCard }, agent, audience, form),
        clock,
        authority,
      }),
      ...revocationRoutes({ trust: federation.trust, directory, authority }),
      ...wellknownRoutes(
        {
          place,
          org: primary.handle,
          facts,
          frontDesk: () => directory.frontDesk(),
          publicAgents: () => directory.publicAgents(),
          sign: signCard,
        },
        clock,
      ),
    ],
    renderers: {
      '/': federationRefusal,
      '/redsyn': redsynRefusal,
      '/federation': federationRefusal,
      '/a2a': a2aRefusal,
      ...Object.fromEntries(ownerPrefixes.map((prefix) => [prefix, conferRefusal])),
      ...Object.fromEntries(conferPrefixes.map((prefix) => [prefix, conferRefusal])),
      ...Object.fromEntries(replySlipPrefixes.map((prefix) => [prefix, replySlipRefusal])),
      '/agents': a2aRefusal,
      '/orgs': a2aRefusal,
      '/v1': a2aRefusal,
    },
    trustProxy: config.trustProxy,
    scheme: config.scheme,
    requestId: () => newId(clock),
    log: named(log, 'http'),
    clock,
  });

  const purge = every(
    purgeEvery,
    async () => void (await Promise.all([gateStore.purge(), pushes.purge(), exchange.purge(), wakes.purge()])),
    {
      clock,
      log: named(log, 'purge'),
      name: 'purge of seen proofs, of secrets of ended tasks, of files that were polled for and of ended wakes',
    },
  );

  const overdue = every(overdueEvery, async () => void (await tray.expire()), {
    clock,
    log: named(log, 'tray'),
    name: 'end of what nobody decided in time',
  });

  const wakeRetries = every(wakesEvery, async () => void (await wakes.retryDue(0)), {
    clock,
    log: named(log, 'wakes'),
    name: 'retries of wakes that are due',
  });

  await new Promise<void>((resolve, reject) => {
    front.server.once('error', reject);
    front.server.listen(config.port, config.host, resolve);
  });
  undo.push(() => front.close());
  const { port } = front.server.address() as AddressInfo;

  const carrying: Omit<RedsynClientOptions, 'carrier'> = {
    async signer(ownerId) {
      const member = ownerId === null ? null : await directory.member(ownerId);
      return keyring.signer(member ? keyring.owner(member) : keyring.instance());
    },
    async mayLeave({ orgId, ownerId, to }) {
      return orgId === null || (await mayLeave({ orgId, owner: ownerId, to }, federation));
    },
    fetch,
    clock,
    loopback,
  };
  outbox.start([
    ...federation.senders,
    topics.sender,
    createRedsynClient({ ...carrying, carrier: exchange.carrier }),
    createRedsynClient({ ...carrying, kind: 'event', carrier: exchange.eventCarrier }),
    createCancelClient({ ...carrying, cancels }),
    createPushClient({ pushes, fetch, files }),
    createWakeClient({ wakes, fetch, clock }),
    ...remote.senders,
    conferClient,
    ...muretaiSenders({
      trust: federation.trust,
      rooms: federation.rooms,
      hub: roomHub,
      directory,
      keyring,
      fetch,
      clock,
      base: config.url,
    }),
  ]);
  await remote.start();
  await outbox.tryAll();
  mailbox.start();
  pusher.start();
  modelAgents.start();
  purge.start();
  overdue.start();
  if (config.wakesCron) wakeRetries.start();

  let stopping: Promise<void> | undefined;
  return {
    url: config.url,
    port,
    did: own,
    org: primary.handle,
    admin: { user: admin.handle, newToken },
    stop() {
      stopping ??= (async () => {
        const closed = front.close();
        tasks.close();
        exchange.endWaits();
        const steps: Array<() => Promise<unknown>> = [
          () => modelAgents.stop(),
          () => mailbox.drain(),
          () => closed,
          () => exchange.drain(),
          () =>
            Promise.all([
              mailbox.stop(),
              pusher.stop(),
              remote.stop(),
              outbox.stop(),
              purge.stop(),
              overdue.stop(),
              wakeRetries.stop(),
            ]),
          () => fetch.close(),
          () => db.close(),
          ...undo.reverse(),
        ];
        // What one part fails at must not keep the others from ending: a process that half stopped holds its database and never exits.
        const faults: unknown[] = [];
        for (const step of steps) await step().catch((fault) => faults.push(fault));
        if (faults.length > 0) throw faults[0];
      })();
      return stopping;
    },
  };
}

/** Counts what the gates say, and lets the outbox know that a peer is there. */
function watched(gates: Gates, metrics: Metrics, heardFrom: (domain: string) => void): Gates {
  return {
    rows: gates.rows,
    explain: gates.explain,
    async admit(inbound) {
      const admitted = await gates.admit(inbound);
      if (admitted instanceof Refusal) metrics.refused(admitted);
      else {
        metrics.accepted(admitted.wire, admitted.envelope.kind);
        const { sender } = admitted;
        if ((sender.kind === 'peer' || sender.kind === 'relay') && sender.domain !== '') heardFrom(sender.domain);
      }
      return admitted;
    },
    async identify(inbound) {
      const principal = await gates.identify(inbound);
      if (principal instanceof Refusal) metrics.refused(principal);
      return principal;
    },
    async watcher(inbound) {
      const watcher = await gates.watcher(inbound);
      if (watcher instanceof Refusal) metrics.refused(watcher);
      return watcher;
    },
  };
}
