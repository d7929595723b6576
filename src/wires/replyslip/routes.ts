import type { Route } from '../../lib/http.ts';
import { type AgentsDeps, agentRoutes } from './agents.ts';
import { type JoinDeps, joinRoutes } from './join.ts';
import { type WatchDeps, watchRoutes } from './watch.ts';

export type ReplySlipDeps = AgentsDeps & JoinDeps & WatchDeps;

/** ReplySlip over HTTP (replyslip.md). Its MCP tools stand in a wire of their own. */
export function replySlipRoutes(deps: ReplySlipDeps): Route[] {
  return [...joinRoutes(deps), ...agentRoutes(deps), ...watchRoutes(deps)];
}

/** They speak this wire's errors also before a route is found. */
export const replySlipPrefixes = [
  '/api/v1/agents',
  '/api/v1/join-codes',
  '/api/v1/watcher-keys',
  '/api/v1/watcher',
  '/api/cron',
] as const;
