import type { Route } from '../../lib/http.ts';
import { type AgentsDeps, agentRoutes } from './agents.ts';

export type ReplySlipDeps = AgentsDeps;

/** ReplySlip over HTTP (replyslip.md). Its MCP tools stand in a wire of their own. */
export function replySlipRoutes(deps: ReplySlipDeps): Route[] {
  return [...agentRoutes(deps)];
}

/** Their prefixes speak this wire's errors also before a route is found. */
export const replySlipPrefixes = ['/api/v1/agents'] as const;
