import type { Db } from '../../db/types.ts';
import { formatTopic, readTopic, type Topic } from '../../directory/names.ts';
import type { Agent, Directory, Org } from '../../directory/types.ts';
import { exposes } from '../../federation/exposure.ts';
import type { PeerClient } from '../../federation/peer-client.ts';
import type { Federation, Link } from '../../federation/types.ts';
import type { Clock } from '../../lib/clock.ts';
import { newId } from '../../lib/ids.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import type { Outbox, Sender } from '../../outbox/index.ts';
import { readInterest } from './interest.ts';
import * as store from './store.ts';
import { InterestTeller, subscriptionKind } from './told.ts';

export interface TopicsDeps {
  db: Db;
  clock: Clock;
  directory: Pick<Directory, 'org'>;
  federation: Pick<Federation, 'link' | 'linksWithDomain' | 'isDomainBlocked'>;
  client: Pick<PeerClient, 'post'>;
  outbox: Pick<Outbox, 'enqueue' | 'sendNow' | 'firstTry' | 'isDown'>;
}

export interface Listening {
  /** In full. */
  topic: string;
  /** It listens since just now. */
  isNew: boolean;
  /** The topic's gateway could not be asked yet. */
  pending: boolean;
}

/** A topic as the people of some orgs see it. */
export interface TopicView {
  topic: string;
  /** Agents of their orgs that listen. */
  agents: readonly string[];
  /** Other orgs that listen, for the topic's own people: which agents of theirs do is theirs to know. */
  orgs: readonly string[];
  pending?: true;
  problem?: string;
}

const maxPerAgent = 1_000;
const page = 200;
const agentsShown = 1_000;
const firstTryMs = 4_000;
const keepTryingMs = 30 * 86_400_000;

/** Who listens to what (REDSYN "Tópicos y eventos"). */
export class Topics {
  readonly #deps: TopicsDeps;
  /** For the outbox. */
  readonly sender: Sender;

  constructor(deps: TopicsDeps) {
    this.#deps = deps;
    this.sender = new InterestTeller(deps);
  }

  /**
   * The agent listens from now on; `text` may be short for the agent's own org or team. Refusals: `invalid_field`, `address_not_found` (no such
   * org, no active link, or not exposed as `sub`: nobody can tell), `quota_exceeded`.
   */
  async subscribe(agent: Agent, text: string): Promise<Listening | Refusal> {
    const topic = readTopic(text, { field: 'topic', seat: agent });
    if (topic instanceof Refusal) return topic;
    const { db, directory, federation } = this.#deps;
    if ((await store.countSubscriptions(db, agent.id)) >= maxPerAgent) {
      return refuse('quota_exceeded', `An agent listens to ${maxPerAgent} topics at most.`, {
        status: 403,
        data: { quota: true },
      });
    }
    const org = await directory.org(topic.org);
    if (org) return this.#listenHere(agent, org, topic);
    const link = await federation.link(agent.orgId, topic.org);
    if (!link?.peerDomain || link.state !== 'active') return refuse('address_not_found', noTopic);
    return this.#listenBehind(agent, link, topic);
  }

  /** Ends it; what waits is still handed out. True when it listened. */
  async unsubscribe(agent: Agent, text: string): Promise<{ topic: string; removed: boolean } | Refusal> {
    const topic = readTopic(text, { field: 'topic', seat: agent });
    if (topic instanceof Refusal) return topic;
    const { db, directory, federation } = this.#deps;
    const org = await directory.org(topic.org);
    if (org) {
      const id = await store.findTopicHere(db, org.id, topic.team, topic.name);
      const removed = id !== null && (await store.stopListening(db, id, agent.id));
      return { topic: formatTopic({ ...topic, org: org.handle }), removed };
    }
    const link = await federation.link(agent.orgId, topic.org);
    if (!link?.peerDomain) return { topic: formatTopic(topic), removed: false };
    return {
      topic: formatTopic({ ...topic, org: link.peerHandle }),
      removed: await this.#endBehind(agent, link, topic),
    };
  }

  /** At most 200, in the order of their addresses; `next` is the `after` of the following ones. */
  async list(orgIds: readonly string[], after: string): Promise<{ topics: TopicView[]; next?: string }> {
    const rows = await store.listTopics(this.#deps.db, { orgIds, after, limit: page + 1, perTopic: agentsShown });
    const shown = rows.slice(0, page);
    const topics = shown.map(({ topic, agents, orgs, pending, problem }) => ({
      topic,
      agents,
      orgs,
      ...(pending && { pending }),
      ...(problem !== null && { problem }),
    }));
    return { topics, ...(rows.length > page && { next: shown.at(-1)!.topic }) };
  }

  /** The gateway at `domain`, proved to be calling, tells whether an org of its listens to a topic here. Hidden is missing: `not_found`. */
  async receive(domain: string, message: unknown): Promise<object | Refusal> {
    const interest = readInterest(message);
    if (interest instanceof Refusal) return interest;
    const { db, clock, directory, federation } = this.#deps;
    const { org: named, for: theirs, team, name, on, rev } = interest;
    const [org, links] = await Promise.all([directory.org(named), federation.linksWithDomain(domain)]);
    const link = links.find((one) => one.orgId === org?.id && one.peerOrg === theirs && one.state === 'active');
    if (!org || !link || (await federation.isDomainBlocked(org.id, domain))) return refuse('not_found');
    if (!on) {
      const topicId = await store.findTopicHere(db, org.id, team, name);
      if (topicId !== null) await store.setLinkListening(db, { topicId, linkId: link.id, on, rev });
      return { on, rev };
    }
    if (!exposes(link.ours, `${team}/${name}`, 'sub')) return refuse('not_found');
    const topicId = await store.topicHere(db, { orgId: org.id, team, name, newId: newId(clock), now: clock.now() });
    if (topicId === null) return refuse('not_found');
    await store.setLinkListening(db, { topicId, linkId: link.id, on, rev });
    return { on, rev };
  }

  async #listenHere(agent: Agent, org: Org, topic: Topic): Promise<Listening | Refusal> {
    const { db, clock, federation } = this.#deps;
    let linkId: string | null = null;
    if (org.id !== agent.orgId) {
      const link = await federation.link(org.id, agent.org);
      const isOpen = link?.state === 'active' && link.peerOrgId === agent.orgId;
      if (!isOpen || !exposes(link.ours, `${topic.team}/${topic.name}`, 'sub'))
        return refuse('address_not_found', noTopic);
      linkId = link.id;
    }
    const now = clock.now();
    const topicId = await store.topicHere(db, { ...topic, orgId: org.id, newId: newId(clock), now });
    if (topicId === null) {
      return refuse('quota_exceeded', 'That organisation has as many topics as one may have.', {
        status: 403,
        data: { quota: true },
      });
    }
    const isNew = await store.startListening(db, {
      topicId,
      agentId: agent.id,
      conversation: newId(clock),
      linkId,
      now,
    });
    return { topic: formatTopic({ ...topic, org: org.handle }), isNew, pending: false };
  }

  /** Its own gateway says whether we may. What it refuses while the caller waits never was; later it is shown with the topic. */
  async #listenBehind(agent: Agent, link: Link, { team, name }: Topic): Promise<Listening | Refusal> {
    const { db, clock, outbox } = this.#deps;
    const now = clock.now();
    const destination = link.peerDomain!;
    const { topicId, isNew, outboxId } = await db.tx(async (tx) => {
      const topicId = await store.lockTopicBehind(tx, { linkId: link.id, team, name, newId: newId(clock), now });
      const isNew = await store.startListening(tx, {
        topicId,
        agentId: agent.id,
        conversation: newId(clock),
        linkId: null,
        now,
      });
      await store.bumpTopic(tx, topicId, now);
      const outboxId = await outbox.enqueue(tx, {
        kind: subscriptionKind,
        destination,
        lane: `topic:${topicId}`,
        body: topicId,
        expiresAt: now + keepTryingMs,
      });
      return { topicId, isNew, outboxId };
    });
    outbox.sendNow([outboxId]);
    const [tried, down] = [outbox.firstTry(outboxId, firstTryMs), outbox.isDown(destination)];
    const result = (await down) ? null : await tried;
    if (result?.outcome === 'refused') {
      if (isNew) {
        await db.tx(async (tx) => {
          await store.stopListening(tx, topicId, agent.id);
          await store.forgetUnheard(tx, topicId);
        });
      }
      return refuse('address_not_found', noTopic);
    }
    const topic = formatTopic({ org: link.peerHandle, team, name });
    return { topic, isNew, pending: result?.outcome !== 'delivered' };
  }

  async #endBehind(agent: Agent, link: Link, { team, name }: Topic): Promise<boolean> {
    const { db, clock, outbox } = this.#deps;
    const now = clock.now();
    return db.tx(async (tx) => {
      const topicId = await store.findTopicBehind(tx, link.id, team, name);
      if (topicId === null || !(await store.stopListening(tx, topicId, agent.id))) return false;
      await store.bumpTopic(tx, topicId, now);
      await outbox.enqueue(tx, {
        kind: subscriptionKind,
        destination: link.peerDomain!,
        lane: `topic:${topicId}`,
        body: topicId,
        expiresAt: now + keepTryingMs,
      });
      return true;
    });
  }
}

const noTopic = 'There is no such topic.';
