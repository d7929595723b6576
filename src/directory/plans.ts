/** REDSYN "Límites". Null: no limit. */
export interface Plan {
  messagesPerDay: number | null;
  /** Bytes of files that wait for delivery. */
  fileBytes: number;
  /** The longest TTL, in seconds. */
  maxTtl: number;
  agents: number | null;
  links: number | null;
  webhooks: number | null;
}

export type PlanName = 'free' | 'pro' | 'enterprise';

const DAY = 86_400;
const MB = 1024 * 1024;
const GB = 1024 * MB;

export const plans: Readonly<Record<PlanName, Plan>> = {
  free: { messagesPerDay: 1_000, fileBytes: 50 * MB, maxTtl: DAY, agents: 5, links: 1, webhooks: 1 },
  pro: { messagesPerDay: 50_000, fileBytes: 2 * GB, maxTtl: 7 * DAY, agents: 100, links: 10, webhooks: 20 },
  enterprise: {
    messagesPerDay: null,
    fileBytes: 20 * GB,
    maxTtl: 30 * DAY,
    agents: null,
    links: null,
    webhooks: null,
  },
};
