import type { Db } from '../db/types.ts';
import type { Sealer } from '../identity/sealing.ts';
import type { Clock } from '../lib/clock.ts';
import { newToken } from '../lib/ids.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import { lockOrg } from './agents/store.ts';
import { attempt } from './attempt.ts';
import { orgsById } from './people/store.ts';
import { plans } from './plans.ts';
import type { Address, Agent, Directory, NodeIdentity } from './types.ts';
import { type UrlRules, webhookUrlFault } from './webhook-url.ts';
import * as store from './webhooks/store.ts';

export interface WebhooksDeps extends UrlRules {
  db: Db;
  clock: Clock;
  sealer: Sealer;
  directory: Pick<Directory, 'agentAt'>;
}

export interface Webhook {
  url: string;
  lastError: string | null;
  /** Milliseconds. */
  lastErrorAt: number | null;
}

/** Where the messages of an agent are pushed (REDSYN "Webhooks"). */
export class Webhooks {
  readonly #deps: WebhooksDeps;

  constructor(deps: WebhooksDeps) {
    this.#deps = deps;
  }

  /** Sets or replaces it, with a new secret, which is told this once. What already waits is pushed. 403 with `quota` past the plan. */
  async set(
    node: NodeIdentity,
    address: Address,
    url: string,
  ): Promise<{ url: string; secret: string; created: boolean } | Refusal> {
    const agent = await this.#own(node, address);
    if (agent instanceof Refusal) return agent;
    if (agent.encryptedOnly) {
      return refuse(
        'conflict',
        `${agent.address} takes only encrypted requests, and nothing is encrypted for a webhook.`,
      );
    }
    const fault = await webhookUrlFault(url, this.#deps);
    if (fault !== undefined) return refuse('invalid_field', `\`url\` ${fault}`, { data: { field: 'url' } });
    const { db, clock, sealer } = this.#deps;
    const secret = newToken('whs_');
    const { id: agentId, orgId } = agent;
    const sealed = sealer.seal(Buffer.from(secret), purpose(agentId));
    const row = { agentId, orgId, url, host: new URL(url).host, secret: sealed, now: clock.now() };
    return attempt(db, async (tx): Promise<{ url: string; secret: string; created: boolean } | Refusal> => {
      await lockOrg(tx, orgId);
      const { plan } = (await orgsById(tx, [orgId]))[0]!;
      const created = await store.putWebhook(tx, row);
      const limit = plans[plan].webhooks;
      if (created && limit !== null && (await store.countWebhooks(tx, orgId)) > limit) {
        const many = `${limit} ${limit === 1 ? 'webhook' : 'webhooks'}`;
        return refuse('quota_exceeded', `The ${plan} plan of ${agent.org} allows ${many}.`, {
          status: 403,
          data: { quota: true, limit },
        });
      }
      return { url, secret, created };
    });
  }

  /** Back to the inbox, with all that still waits. */
  async remove(node: NodeIdentity, address: Address): Promise<Refusal | undefined> {
    const agent = await this.#own(node, address);
    if (agent instanceof Refusal) return agent;
    const done = await this.#deps.db.tx((tx) => store.dropWebhook(tx, agent.id));
    return done ? undefined : refuse('not_found', `${agent.address} has no webhook.`);
  }

  async show(node: NodeIdentity, address: Address): Promise<Webhook | Refusal> {
    const agent = await this.#own(node, address);
    if (agent instanceof Refusal) return agent;
    return (await store.webhookOf(this.#deps.db, agent.id)) ?? refuse('not_found', `${agent.address} has no webhook.`);
  }

  /** The HMAC key, as text. */
  secret(agentId: string, sealed: Uint8Array): string {
    return this.#deps.sealer.open(sealed, purpose(agentId)).toString();
  }

  async #own(node: NodeIdentity, address: Address): Promise<Agent | Refusal> {
    const agent = await this.#deps.directory.agentAt(address);
    if (agent?.personId === node.personId) return agent;
    if (agent && node.members.some((member) => member.orgId === agent.orgId)) {
      return refuse('forbidden', `${agent.address} is ${agent.user}'s: only ${agent.user} says where its messages go.`);
    }
    return refuse('address_not_found');
  }
}

function purpose(agentId: string): string {
  return `webhook:${agentId}`;
}
