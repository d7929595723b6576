import { z } from 'zod';
import type { Registry } from '../../directory/index.ts';
import type { Usage } from '../../directory/people.ts';
import type { Member } from '../../directory/types.ts';
import type { Route } from '../../lib/http.ts';
import { Refusal } from '../../lib/refusal.ts';
import { type CallDeps, call, json } from './common.ts';

export interface OrgsDeps extends CallDeps {
  registry: Pick<Registry, 'people' | 'keyring' | 'lookups'>;
}

const name = z.string().max(300);
const newOrg = z.object({ handle: name, me: name });
const newTeam = z.object({ handle: name });
const newMember = z.object({ who: name });
const invite = z.object({ email: z.string().max(254), team: name.default('general') });
const newPlan = z.object({ plan: z.enum(['free', 'pro', 'enterprise']) });
const join = z.object({ me: name, code: z.string().max(200).nullish() });

/** REDSYN "Organizaciones y enlaces", all but the links. */
export function orgRoutes(deps: OrgsDeps): Route[] {
  const { people, keyring, lookups } = deps.registry;
  const membership = async (member: Member): Promise<Record<string, unknown>> => ({
    org: member.org,
    me: member.handle,
    role: member.role,
    did: keyring.owner(member).did,
    teams: await lookups.teamsOf(member.id),
  });
  return [
    {
      method: 'POST',
      path: '/redsyn/v1/orgs',
      about: 'Makes an org; you are its admin, in the team `general`',
      handler: call(deps, newOrg, async ({ node, body }) => {
        const member = await people.createOrg(node, body);
        return member instanceof Refusal ? member : json(201, { handle: member.org, ...(await membership(member)) });
      }),
    },
    {
      method: 'POST',
      path: '/redsyn/v1/orgs/{org}/teams',
      about: 'Makes a team',
      handler: call(deps, newTeam, async ({ node, params, body }) => {
        const team = await people.createTeam(node, params.org!, body.handle);
        return team instanceof Refusal ? team : json(201, { handle: team.team, ...team });
      }),
    },
    {
      method: 'POST',
      path: '/redsyn/v1/orgs/{org}/teams/{team}/members',
      about: 'Puts somebody of the org into a team',
      handler: call(deps, newMember, async ({ node, params, body }) => {
        const done = await people.addToTeam(node, { org: params.org!, team: params.team!, who: body.who });
        return done instanceof Refusal ? done : json(200, done);
      }),
    },
    {
      method: 'POST',
      path: '/redsyn/v1/orgs/{org}/invites',
      about: 'Invites somebody by e-mail; the one-time code is told once',
      handler: call(deps, invite, async ({ node, params, body }) => {
        const made = await people.invite(node, params.org!, body);
        if (made instanceof Refusal) return made;
        const { code, email, team, expiresAt } = made;
        const view = { code, email, team, expires_at: Math.floor(expiresAt / 1000) };
        return json(201, view, { headers: { 'cache-control': 'no-store' } });
      }),
    },
    {
      method: 'POST',
      path: '/redsyn/v1/orgs/{org}/join',
      about: 'Enters an org that you were invited to',
      handler: call(deps, join, async ({ node, params, body }) => {
        const member = await people.join(node, params.org!, { me: body.me, code: body.code ?? null });
        return member instanceof Refusal ? member : json(200, await membership(member));
      }),
    },
    {
      method: 'PUT',
      path: '/redsyn/v1/orgs/{org}/plan',
      about: 'Another plan for the person who made the org; for the operator',
      handler: call(deps, newPlan, async ({ node, params, body }) => {
        const done = await people.setPlan(node, params.org!, body.plan);
        return done instanceof Refusal ? done : json(200, done);
      }),
    },
    {
      method: 'GET',
      path: '/redsyn/v1/orgs/{org}/usage',
      about: 'What the org uses of its plan',
      handler: call(deps, async ({ node, params }) => {
        const usage = await people.usage(node, params.org!);
        return usage instanceof Refusal ? usage : json(200, usageView(usage));
      }),
    },
  ];
}

/** A null limit is no limit. */
function usageView({ plan, limits, used }: Usage): Record<string, unknown> {
  return {
    plan,
    messages_per_day: { used: used.messages, limit: limits.messagesPerDay },
    agents: { used: used.agents, limit: limits.agents },
    links: { used: used.links, limit: limits.links },
    file_bytes: { used: used.files, limit: limits.fileBytes },
    // What others sent here waits in a space of its own.
    incoming_file_bytes: { used: used.filesIn, limit: limits.fileBytes },
    webhooks: { used: used.webhooks, limit: limits.webhooks },
    max_ttl: { limit: limits.maxTtl },
  };
}
