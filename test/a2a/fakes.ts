import type { Agent } from '../../src/directory/types.ts';
import type { Admission, Admitted } from '../../src/exchange/admitted.ts';
import type { Sender } from '../../src/exchange/sender.ts';
import { type Accepted, type Exchange, finalStates, type TaskView, type Viewer } from '../../src/exchange/types.ts';
import type { Inbound } from '../../src/gates/index.ts';
import { ManualClock } from '../../src/lib/clock.ts';
import type { HeaderFields, HttpRequest, HttpResponse, Route } from '../../src/lib/http.ts';
import { type Refusal, refuse } from '../../src/lib/refusal.ts';
import { RouteTable } from '../../src/lib/routes.ts';
import { type A2aDeps, a2aRoutes } from '../../src/wires/a2a/routes.ts';
import { checkEnvelope } from '../../src/wires/redsyn/parse.ts';

export const authority = 'acme.test';

export function agent(over: Partial<Agent> = {}): Agent {
  const { user = 'ana', team = 'finance', handle = 'close', org = 'acme' } = over;
  return {
    id: `agent-${user}-${handle}`,
    orgId: 'org-acme',
    org,
    orgIsPrimary: true,
    teamId: 'team-1',
    team,
    memberId: `member-${user}`,
    personId: 'person-1',
    user,
    handle,
    name: handle,
    address: `${org}/${team}/${user}/${handle}`,
    description: 'Closes the books.',
    adapter: '',
    profile: {},
    isDefault: true,
    isFrontDesk: false,
    isListed: false,
    allow: ['anyone'],
    trust: 'none',
    signedOnly: false,
    encryptedOnly: false,
    ...over,
  };
}

export function headerFields(fields: Record<string, string>): HeaderFields {
  const raw = Object.entries(fields);
  const all = (name: string): string[] =>
    raw.filter(([key]) => key.toLowerCase() === name.toLowerCase()).map(([, value]) => value);
  return { raw, all, get: (name) => (all(name).length > 0 ? all(name).join(', ') : undefined) };
}

export interface Ask {
  method?: string;
  headers?: Record<string, string>;
  body?: string | Buffer | object;
  gone?: AbortSignal;
}

/** Routes as the front would call them, without a socket. */
export async function ask(routes: readonly Route[], target: string, options: Ask = {}): Promise<HttpResponse> {
  const { method = 'POST', headers = {}, body = '', gone = new AbortController().signal } = options;
  const [path = '', query] = target.split('?');
  const found = new RouteTable(routes).find(path)?.route(method === 'HEAD' ? 'GET' : method);
  if (!found) return { status: 404 };
  const request: HttpRequest = {
    method,
    target,
    path,
    search: query === undefined ? '' : `?${query}`,
    params: found.params,
    headers: headerFields(headers),
    authority: headers.host ?? authority,
    scheme: 'https',
    ip: '203.0.113.7',
    body: Buffer.isBuffer(body) ? body : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
    gone,
  };
  return found.route.handler(request);
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of many shapes
export function json(response: HttpResponse): any {
  return JSON.parse(String(response.body));
}

export interface Fake {
  routes: Route[];
  clock: ManualClock;
  inbounds: Inbound[];
  accepted: Admitted[];
  views: Map<string, TaskView>;
  viewers: Viewer[];
  waits: { ms: number; wake: () => void }[];
  /** What the gates say instead of letting a message in. */
  refusal: Refusal | undefined;
  sender: Sender;
  duplicate: boolean;
  change(id: string, over: Partial<TaskView>): void;
}

/** The wire on gates and an exchange that remember what they were asked. */
export function fakeWire(agents: readonly Agent[] = [agent()]): Fake {
  const clock = new ManualClock();
  const fake: Fake = {
    routes: [],
    clock,
    inbounds: [],
    accepted: [],
    views: new Map(),
    viewers: [],
    waits: [],
    refusal: undefined,
    sender: { kind: 'anonymous', address: 'anonymous' },
    duplicate: false,
    change(id, over) {
      const view = fake.views.get(id);
      if (!view) throw new Error(`no task ${id}`);
      fake.views.set(id, { ...view, updatedAt: view.updatedAt + 1, ...over });
      for (const wait of fake.waits.splice(0)) wait.wake();
    },
  };
  const deps: A2aDeps = {
    gates: {
      async admit(inbound) {
        fake.inbounds.push(inbound);
        if (fake.refusal) return fake.refusal;
        const envelope = { ...inbound.envelope!, thread: inbound.thread ?? inbound.envelope!.thread ?? 'made-thread' };
        const to = inbound.addressee;
        if (!to && envelope.kind === 'request') return refuse('address_not_found').by('address');
        const target =
          envelope.kind === 'request'
            ? { kind: 'agent', agent: to!, session: null, thread: { asked: null, derived: 'd', mayOpen: false } }
            : { kind: 'asker', exchangeId: 'task-0' };
        return {
          envelope,
          sender: fake.sender,
          target,
          idempotent: inbound.idempotent,
          a2aText: inbound.a2aText ?? null,
        } as unknown as Admission as Admitted;
      },
      async identify(inbound) {
        fake.inbounds.push(inbound);
        if (inbound.request.headers.get('authorization') === 'Bearer ana') {
          const member = {
            id: 'member-ana',
            orgId: 'org-acme',
            org: 'acme',
            orgIsPrimary: true,
            personId: 'p',
            handle: 'ana',
            role: 'member' as const,
          };
          return {
            kind: 'node',
            node: {
              nodeId: 'n',
              nodeName: 'n',
              personId: 'p',
              isOperator: false,
              email: null,
              members: [member],
              publicKey: null,
              encKey: null,
              encSig: null,
            },
          };
        }
        return refuse('unauthenticated').by('authenticate');
      },
    },
    exchange: {
      async accept(admitted, { goesOn } = {}): Promise<Accepted | Refusal> {
        const { envelope, target } = admitted;
        if (goesOn) {
          const task = fake.views.get(goesOn.taskId);
          if (!task || (target.kind === 'agent' && task.asked.agentId !== target.agent.id)) return refuse('not_found');
          if (finalStates.has(task.state)) return refuse('exchange_closed');
          fake.accepted.push(admitted);
          const { id, thread, state } = task;
          return {
            duplicate: false,
            exchangeId: id,
            id: envelope.id,
            thread,
            to: task.asked.address,
            signed: false,
            state,
          };
        }
        fake.accepted.push(admitted);
        const id = `task-${fake.accepted.length}`;
        const now = clock.now();
        const asked =
          target.kind === 'agent'
            ? { agentId: target.agent.id, address: target.agent.address }
            : { agentId: null, address: '' };
        const message = {
          seq: 1,
          id: envelope.id,
          kind: envelope.kind,
          fromAsker: true,
          envelope,
          a2aText: admitted.a2aText,
          createdAt: now,
        };
        fake.views.set(id, {
          id,
          thread: envelope.thread!,
          asked,
          state: 'submitted',
          reason: null,
          createdAt: now,
          updatedAt: now,
          messages: [message],
        });
        return {
          duplicate: fake.duplicate,
          exchangeId: id,
          id: envelope.id,
          thread: envelope.thread!,
          to: `${asked.address}#s1`,
          signed: false,
          state: 'submitted',
        };
      },
      async task(id, viewer) {
        fake.viewers.push(viewer);
        return fake.views.get(id) ?? refuse('not_found', 'Task not found.');
      },
      waitForChange: (_id, _since, ms, gone) =>
        new Promise((resolve) => {
          const cancel = clock.after(ms, () => resolve(true));
          const wake = (): void => {
            cancel();
            resolve(true);
          };
          gone.addEventListener('abort', wake, { once: true });
          fake.waits.push({ ms, wake });
        }),
    } satisfies Exchange,
    // What they do is tested over a real gateway.
    tasks: {
      list: async () => ({ tasks: [...fake.views.values()], nextPageToken: '', totalSize: fake.views.size }),
      watch: async () => refuse('not_found'),
      cancel: async () => refuse('exchange_closed'),
    },
    pushes: {
      check: async () => undefined,
      row: ({ url, version }) => ({ id: 'c', url, destination: url, secrets: null, version }),
      set: async () => refuse('not_found'),
      get: async () => refuse('not_found'),
      list: async () => refuse('not_found'),
      remove: async () => undefined,
    },
    files: { part: ({ seq }) => ({ url: `https://${authority}/a2a/v1/files/${seq}` }) },
    extendedCard: async () => null,
    cancels: { cancel: async () => refuse('not_found') },
    finder: {
      frontDesk: async () => agents[0] ?? null,
      agentAt: async ({ team, user, agent: handle }) =>
        agents.find((one) => one.team === team && one.user === user && one.handle === handle) ?? null,
      agentByDid: async (did) => agents.find((one) => did === `did:web:${authority}:agents:${one.user}`) ?? null,
    },
    checkEnvelope,
    clock,
    authority,
  };
  fake.routes = a2aRoutes(deps);
  return fake;
}
