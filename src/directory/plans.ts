import type { Org } from './types.ts';

/** What a plan allows (REDSYN "Límites"); null: no limit. The org has the plan of the person who made it. */
export interface PlanLimits {
  /** Per UTC day. */
  readonly messagesPerDay: number | null;
  /** Bytes of files waiting to be taken. */
  readonly filesBytes: number | null;
  /** The longest that a message may wait. */
  readonly maxTtlSeconds: number;
  readonly agents: number | null;
  readonly links: number | null;
  readonly webhooks: number | null;
}

const MB = 1024 * 1024;
const GB = 1024 * MB;
const DAY = 86_400;

export const plans: Readonly<Record<Org['plan'], PlanLimits>> = {
  free: { messagesPerDay: 1000, filesBytes: 50 * MB, maxTtlSeconds: DAY, agents: 5, links: 1, webhooks: 1 },
  pro: { messagesPerDay: 50_000, filesBytes: 2 * GB, maxTtlSeconds: 7 * DAY, agents: 100, links: 10, webhooks: 20 },
  enterprise: {
    messagesPerDay: null,
    filesBytes: 20 * GB,
    maxTtlSeconds: 30 * DAY,
    agents: null,
    links: null,
    webhooks: null,
  },
};
