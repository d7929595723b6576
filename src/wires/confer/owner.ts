import type { Route } from '../../lib/http.ts';
import { type OwnerContactsDeps, ownerContactRoutes } from './owner-contacts.ts';
import { type OwnerExplainDeps, ownerExplainRoutes } from './owner-explain.ts';
import { type OwnerLimitsDeps, ownerLimitRoutes } from './owner-limits.ts';
import { type OwnerPermissionsDeps, ownerPermissionRoutes } from './owner-permissions.ts';
import { type OwnerPoliciesDeps, ownerPolicyRoutes } from './owner-policies.ts';
import { type OwnerRoomsDeps, ownerRoomRoutes } from './owner-rooms.ts';
import { type OwnerTrustDeps, ownerTrustRoutes } from './owner-trust.ts';

export type OwnerDeps = OwnerContactsDeps &
  OwnerPermissionsDeps &
  OwnerLimitsDeps &
  OwnerExplainDeps &
  OwnerTrustDeps &
  OwnerRoomsDeps & { policies: OwnerPoliciesDeps['policies'] };

/** The owner API of Confer (design §10), under a node token. */
export function ownerRoutes(deps: OwnerDeps): Route[] {
  return [
    ...ownerContactRoutes(deps),
    ...ownerPermissionRoutes(deps),
    ...ownerPolicyRoutes(deps),
    ...ownerExplainRoutes(deps),
    ...ownerTrustRoutes(deps),
    ...ownerRoomRoutes(deps),
    ...ownerLimitRoutes(deps),
  ];
}

export const ownerPrefixes = [
  '/api/v1/contacts',
  '/api/v1/permissions',
  '/api/v1/policies',
  '/api/v1/explain',
  '/api/v1/trust',
  '/api/v1/rooms',
  '/api/v1/limits',
] as const;
