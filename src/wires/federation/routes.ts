import { isName } from '../../directory/names.ts';
import type { Principal } from '../../exchange/sender.ts';
import type { ExposedDirectory, LinkOperations, Outcome } from '../../federation/types.ts';
import type { Inbound } from '../../gates/inbound.ts';
import type { Handler, HttpRequest, HttpResponse, Route } from '../../lib/http.ts';
import { type JsonText, readJson } from '../../lib/json.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { errorResponse } from './errors.ts';

export interface FederationWireDeps {
  /** The gates' reading of who calls (`createGates`). */
  identify(inbound: Inbound): Promise<Principal | Refusal>;
  links: Pick<LinkOperations, 'receive'>;
  exposed: ExposedDirectory;
  /** Who behind the caller listens to topics here. */
  topics: { receive(domain: string, message: unknown): Promise<Outcome<object>> };
  /** The outbox: what waits for a peer that calls is due at once (design §10). */
  heardFrom(domain: string): Promise<void>;
  /** The outbox: what waits for that peer is due at once, since one of its owners let somebody of ours in. */
  dueNow(domain: string): Promise<void>;
}

const maxBody = 256 * 1024;

/** What gateways say to each other about links, signed with the instances' keys (design §6). */
export function federationRoutes(deps: FederationWireDeps): Route[] {
  const { links, exposed, topics } = deps;
  const agent = '/federation/v1/agents/{team}/{user}/{agent}';
  return [
    {
      method: 'POST',
      path: '/federation/v1/links',
      about: "A gateway's side of a link; answers our side, or 202 while our org has not agreed",
      maxBody,
      handler: instance(deps, async (domain, request) => {
        const message = readMessage(request);
        if (message instanceof Refusal) return message;
        const heard = await links.receive(domain, message.value);
        if (heard instanceof Refusal) return heard;
        return heard.side ? answer(200, heard.side) : { status: 202 };
      }),
    },
    {
      method: 'POST',
      path: '/federation/v1/subscriptions',
      about: 'Whether an org of the calling gateway listens to a topic here',
      handler: instance(deps, async (domain, request) => {
        const message = readMessage(request);
        return message instanceof Refusal ? message : ok(await topics.receive(domain, message.value));
      }),
    },
    {
      method: 'POST',
      path: '/federation/v1/consent',
      about: 'An owner behind the calling gateway let somebody of this one in: what waits for it is sent',
      handler: instance(deps, async (domain, request) => {
        const message = readMessage(request);
        if (message instanceof Refusal) return message;
        await deps.dueNow(domain);
        return { status: 202 };
      }),
    },
    {
      method: 'GET',
      path: '/federation/v1/directory',
      about: 'The agents that an org exposes to an org of the calling gateway',
      handler: instance(deps, async (domain, request) => ok(await exposed.list(domain, orgs(request)))),
    },
    {
      method: 'GET',
      path: agent,
      about: 'One exposed agent',
      handler: instance(deps, async (domain, request) => {
        const path = pathOf(request);
        return path === null ? refuse('not_found') : ok(await exposed.agent(domain, orgs(request), path));
      }),
    },
    {
      method: 'GET',
      path: `${agent}/key`,
      about: 'The keys to seal a message for an exposed agent with',
      handler: instance(deps, async (domain, request) => {
        const path = pathOf(request);
        return path === null
          ? refuse('not_found')
          : ok(await exposed.key(domain, { ...orgs(request), by: by(request) }, path));
      }),
    },
  ];
}

function readMessage(request: HttpRequest): JsonText | Refusal {
  const type = request.headers.get('content-type');
  if (type !== undefined && !/^application\/json\s*(?:;|$)/i.test(type)) return refuse('unsupported_media_type');
  return readJson(request.body);
}

/** Only the key of a gateway itself speaks here: an owner's, though of the same domain, does not. */
function instance(
  deps: FederationWireDeps,
  handler: (domain: string, request: HttpRequest) => Promise<HttpResponse | Refusal>,
): Handler {
  return async (request) => {
    const principal = await deps.identify({
      wire: 'federation',
      operation: 'instance',
      request,
      answers: 'poll',
      idempotent: false,
    });
    if (principal instanceof Refusal) return errorResponse(principal);
    if (principal.kind !== 'signer' || !principal.isInstance) {
      return errorResponse(refuse('forbidden', 'These calls are signed with the key of a gateway itself.'));
    }
    void deps.heardFrom(principal.domain);
    const result = await handler(principal.domain, request);
    return result instanceof Refusal ? errorResponse(result) : result;
  };
}

function orgs(request: HttpRequest): { org: string; for: string } {
  const query = new URLSearchParams(request.search);
  return { org: query.get('org') ?? '', for: query.get('for') ?? '' };
}

function by(request: HttpRequest): string | null {
  return new URLSearchParams(request.search).get('by');
}

function pathOf({ params }: HttpRequest): string | null {
  const names = [params.team ?? '', params.user ?? '', params.agent ?? ''];
  return names.every(isName) ? names.join('/') : null;
}

function ok(outcome: Outcome<object>): HttpResponse | Refusal {
  return outcome instanceof Refusal ? outcome : answer(200, outcome);
}

function answer(status: number, value: object): HttpResponse {
  return {
    status,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
    body: JSON.stringify(value),
  };
}
