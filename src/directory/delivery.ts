import type { Db, Tx } from '../db/types.ts';
import type { Sealer } from '../identity/sealing.ts';
import type { Clock } from '../lib/clock.ts';
import { type Refusal, refuse } from '../lib/refusal.ts';
import * as store from './delivery/store.ts';
import type { Agent } from './types.ts';
import { type UrlRules, webhookUrlFault } from './webhook-url.ts';

export interface DeliveriesDeps extends UrlRules {
  db: Db;
  clock: Clock;
  sealer: Pick<Sealer, 'seal' | 'open'>;
}

/** How a webhook is told that it is us. */
export type WebhookAuth =
  | { type: 'none' }
  | { type: 'bearer'; token: string }
  | { type: 'headers'; headers: Readonly<Record<string, string>> }
  /** HMAC-SHA256 of the raw body, hex. The secret is the key as text. */
  | { type: 'hmac'; secret: string };

export interface WakeWebhook {
  url: string;
  auth: WebhookAuth;
}

/** How an agent is to be woken (replyslip.md "How agents get woken"). */
export type DeliveryOrder =
  | { mode: 'none' }
  | { mode: 'local'; driver: string; target: string }
  | { mode: 'webhook'; webhook: WakeWebhook };

/** A secret as every read shows it: never itself, and of a short one not even its end. */
export interface Shown {
  set: true;
  last4: string;
}

export type ShownAuth =
  | { type: 'none' }
  | { type: 'bearer'; token: Shown }
  | { type: 'headers'; headers: Record<string, Shown> }
  | { type: 'hmac'; secret: Shown };

export type ShownDelivery =
  | { mode: 'none' }
  | { mode: 'local'; driver: string; target: string }
  /** `url`: `scheme://host`. `last4`: of its path. */
  | { mode: 'webhook'; webhook: { url: string; url_set: true; last4: string; auth: ShownAuth } };

const mostHeaders = 20;
/** They frame the request, or are ours to say. */
const ours =
  /^(?:host|content-length|content-type|transfer-encoding|connection|keep-alive|upgrade|te|trailer|expect|user-agent|proxy-.*|x-replyslip-.*)$/i;
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/;
/** What RFC 9110 §5.5 takes as a value, without what could end it: no CR, LF or NUL (WEB-04). */
const fieldValue = /^[\x21-\x7e](?:[\x20-\x7e]{0,1998}[\x21-\x7e])?$/;

/** Where agents' wakes go. Who may say so was judged before (`AgentKeys.managed`). Secrets are kept sealed, and are only ever written. */
export class Deliveries {
  readonly #deps: DeliveriesDeps;

  constructor(deps: DeliveriesDeps) {
    this.#deps = deps;
  }

  /** What is wrong with an order, whichever way it came (WEB-04): `invalid_field`. */
  async fault(order: DeliveryOrder): Promise<Refusal | undefined> {
    if (order.mode === 'none') return undefined;
    if (order.mode === 'local') {
      if (!/^[a-z][a-z0-9_-]{0,63}$/.test(order.driver)) return invalid('driver', 'must be the id of a driver');
      return /^[^\p{Cc}\p{Zl}\p{Zp}]{1,200}$/u.test(order.target)
        ? undefined
        : invalid('target', 'must have 1 to 200 characters, and no control characters');
    }
    const { url, auth } = order.webhook;
    const fault = await webhookUrlFault(url, this.#deps);
    if (fault !== undefined)
      return refuse('invalid_field', `\`webhook.url\` ${fault}`, { data: { field: 'webhook.url' } });
    const { username, password } = new URL(url);
    if (username !== '' || password !== '') {
      return invalid('webhook.url', 'must hold no password: say it in `auth`');
    }
    return authFault(auth);
  }

  /** In a transaction of the caller's, after `fault`. */
  async put(tx: Tx, agent: Agent, order: DeliveryOrder): Promise<void> {
    const { clock, sealer } = this.#deps;
    if (order.mode === 'none') return store.dropDelivery(tx, agent.id);
    const none = { origin: null, sealed: null, shown: null, driver: null, target: null };
    if (order.mode === 'local') {
      const { mode, driver, target } = order;
      return store.putDelivery(tx, agent.id, { ...none, mode, driver, target }, clock.now());
    }
    const { url, auth } = order.webhook;
    const { origin, pathname } = new URL(url);
    const shown = JSON.stringify({ last4: pathname.length > 4 ? pathname.slice(-4) : '', auth: showAuth(auth) });
    const sealed = sealer.seal(Buffer.from(JSON.stringify({ url, auth })), purpose(agent.id));
    return store.putDelivery(tx, agent.id, { ...none, mode: 'webhook', origin, sealed, shown }, clock.now());
  }

  async set(agent: Agent, order: DeliveryOrder): Promise<ShownDelivery | Refusal> {
    const fault = await this.fault(order);
    if (fault) return fault;
    await this.#deps.db.tx((tx) => this.put(tx, agent, order));
    return this.show(agent.id);
  }

  async show(agentId: string): Promise<ShownDelivery> {
    return (await this.showAll([agentId])).get(agentId) ?? { mode: 'none' };
  }

  /** Of these agents; who is not woken is left out. */
  async showAll(agentIds: readonly string[]): Promise<ReadonlyMap<string, ShownDelivery>> {
    const rows = await store.deliveriesOf(this.#deps.db, agentIds);
    return new Map(rows.map((row) => [row.agentId, shownOf(row)]));
  }

  /** For whoever sends the wake. */
  open(agentId: string, sealed: Uint8Array): WakeWebhook {
    return JSON.parse(this.#deps.sealer.open(sealed, purpose(agentId)).toString()) as WakeWebhook;
  }
}

function authFault(auth: WebhookAuth): Refusal | undefined {
  const value = 'must fit into a header field: printable ASCII, no line breaks';
  switch (auth.type) {
    case 'none':
      return undefined;
    case 'bearer':
      return /^[\x21-\x7e]{1,2000}$/.test(auth.token) ? undefined : invalid('webhook.auth.token', value);
    case 'hmac':
      return auth.secret.length >= 1 && auth.secret.length <= 1_000
        ? undefined
        : invalid('webhook.auth.secret', 'must have 1 to 1000 characters');
    case 'headers': {
      const entries = Object.entries(auth.headers);
      if (entries.length < 1 || entries.length > mostHeaders) {
        return invalid('webhook.auth.headers', `must name 1 to ${mostHeaders} header fields`);
      }
      const odd = entries.find(([name, text]) => !token.test(name) || ours.test(name) || !fieldValue.test(text));
      if (odd) return invalid(`webhook.auth.headers.${odd[0].slice(0, 100)}`, `is not taken: its value ${value}`);
      const names = new Set(entries.map(([name]) => name.toLowerCase()));
      return names.size === entries.length ? undefined : invalid('webhook.auth.headers', 'names one field twice');
    }
  }
}

function showAuth(auth: WebhookAuth): ShownAuth {
  switch (auth.type) {
    case 'none':
      return { type: 'none' };
    case 'bearer':
      return { type: 'bearer', token: show(auth.token) };
    case 'hmac':
      return { type: 'hmac', secret: show(auth.secret) };
    case 'headers':
      return {
        type: 'headers',
        headers: Object.fromEntries(Object.entries(auth.headers).map(([name, text]) => [name, show(text)])),
      };
  }
}

/** Four of fewer than eight characters would be most of it. */
function show(secret: string): Shown {
  return { set: true, last4: secret.length < 8 ? '' : secret.slice(-4) };
}

function shownOf({ mode, origin, shown, driver, target }: store.DeliveryRow): ShownDelivery {
  if (mode === 'local') return { mode, driver: driver!, target: target! };
  const { last4, auth } = JSON.parse(shown!) as { last4: string; auth: ShownAuth };
  return { mode, webhook: { url: origin!, url_set: true, last4, auth } };
}

function purpose(agentId: string): string {
  return `delivery:${agentId}`;
}

function invalid(field: string, why: string): Refusal {
  return refuse('invalid_field', `\`${field}\` ${why}.`, { data: { field } });
}
