import { z } from 'zod';
import type { HeldRow, InviteRow, IssuedRow, Trust } from '../../federation/trust/index.ts';
import { readInvitation } from '../../identity/invitation.ts';
import type { Route } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { json } from './errors.ts';
import { agentCall, agentSegments, type OwnerAgentDeps } from './owner-agent.ts';
import { bodyOf, iso } from './owner-call.ts';

export interface OwnerTrustDeps extends OwnerAgentDeps {
  trust: Trust;
  now(): number;
}

const did = z.string().min(1).max(512);
const expertise = z.array(z.string().min(1).max(64)).max(32);
const level = z.number().int().min(0).max(1000);
const settingsBody = z.object({
  connect: z.enum(['filtered', 'open', 'closed']).optional(),
  privacy: z.enum(['self', 'trusted', 'public']).optional(),
});
const introduceBody = z.object({
  subject: did,
  to: did,
  expertise: expertise.optional(),
  level: level.optional(),
  /** Seconds. */
  valid_for: z.number().int().optional(),
});
const inviteBody = z.object({ purpose: z.string().max(200).optional(), valid_for: z.number().int().optional() });
const connectBody = z.union([
  z.object({ did, url: z.string().min(1).max(1024), note: z.string().max(500).default('') }),
  z.object({ invite: z.union([z.string().max(32_768), z.record(z.string(), z.unknown())]) }),
]);
const peerBody = z.object({ level: level.optional(), expertise: expertise.optional() });
const path = `/api/v1/trust/${agentSegments}`;

/** `/api/v1/trust/<agent>…`: what an owner decides about did:keys (muretai.md, muretai-wire-facts §9 to §12). */
export function ownerTrustRoutes(deps: OwnerTrustDeps): Route[] {
  const { trust } = deps;
  const { introductions, invites, connect } = trust;
  return [
    {
      method: 'GET',
      path,
      about: 'Whether strangers may ask an agent of yours to connect, and who may ask for the standing of others',
      handler: agentCall(deps, async (agent) => {
        const [settings, asked] = await Promise.all([trust.settings(agent.id), connect.asked(agent)]);
        const rows = asked.map(({ createdAt, ...row }) => ({ ...row, asked_at: iso(createdAt) }));
        return json(200, { did: await trust.didOf(agent), ...settings, asked: rows });
      }),
    },
    {
      method: 'PUT',
      path,
      about: 'Sets `connect` (filtered, open, closed) and `privacy` (self, trusted, public)',
      handler: agentCall(deps, async (agent, { request }) => {
        const body = bodyOf(settingsBody, request);
        if (body instanceof Refusal) return body;
        const { connect: policy, privacy } = body;
        const change = { ...(policy && { connect: policy }), ...(privacy && { privacy }) };
        return json(200, await trust.changeSettings(agent.id, change));
      }),
    },
    {
      method: 'GET',
      path: `${path}/introductions`,
      about: 'Introductions that an agent of yours issued, and those that were shown to it and hold',
      handler: agentCall(deps, async (agent) => {
        const [issued, held] = await Promise.all([introductions.issued(agent), introductions.held(agent)]);
        return json(200, { issued: issued.map(issuedView), held: held.map(heldView) });
      }),
    },
    {
      method: 'POST',
      path: `${path}/introductions`,
      about: 'Introduces a did:key to another one, signed by the agent',
      handler: agentCall(deps, async (agent, { request }) => {
        const body = bodyOf(introduceBody, request);
        if (body instanceof Refusal) return body;
        const { subject, to, valid_for: validFor } = body;
        const row = await introductions.issue(agent, {
          subject,
          introducedTo: to,
          ...(body.expertise && { expertise: body.expertise }),
          ...(body.level !== undefined && { level: body.level }),
          ...(validFor !== undefined && { validFor }),
        });
        return row instanceof Refusal ? row : json(201, { ...issuedView(row), credential: JSON.parse(row.credential) });
      }),
    },
    {
      method: 'DELETE',
      path: `${path}/introductions/{id}`,
      about: 'Revokes an introduction that the agent issued; with ?issuer= one that was shown to it no longer counts',
      handler: agentCall(deps, async (agent, { params, query }) => {
        const issuer = query.get('issuer');
        if (issuer === null) {
          const row = await introductions.revoke(agent, params.id!);
          return row instanceof Refusal ? row : json(200, issuedView(row));
        }
        const dropped = await introductions.drop(agent, issuer, params.id!);
        return dropped ? json(200, { ok: true }) : refuse('not_found', 'The agent holds no such introduction.');
      }),
    },
    {
      method: 'GET',
      path: `${path}/invites`,
      about: 'Invitations of an agent of yours, and who took them up',
      handler: agentCall(deps, async (agent) => json(200, { invites: (await invites.list(agent)).map(inviteView) })),
    },
    {
      method: 'POST',
      path: `${path}/invites`,
      about: 'Makes an invitation: whoever shows its value first and you trust each other. Shown this once',
      handler: agentCall(deps, async (agent, { request }) => {
        const body = bodyOf(inviteBody, request);
        if (body instanceof Refusal) return body;
        const { purpose, valid_for: validFor } = body;
        const made = await invites.create(agent, {
          ...(purpose !== undefined && { purpose }),
          ...(validFor !== undefined && { validFor }),
        });
        if (made instanceof Refusal) return made;
        const link = `agent://invite?d=${Buffer.from(JSON.stringify(made.card)).toString('base64url')}`;
        return json(201, { id: made.id, expires_at: iso(made.expiresAt), link, card: made.card });
      }),
    },
    {
      method: 'DELETE',
      path: `${path}/invites/{id}`,
      about: 'Ends an invitation that nobody took up',
      handler: agentCall(deps, async (agent, { params }) =>
        (await invites.revoke(agent, params.id!))
          ? json(200, { ok: true })
          : refuse('not_found', 'There is no such invitation, or somebody took it up: remove the contact.'),
      ),
    },
    {
      method: 'POST',
      path: `${path}/connect`,
      about: 'Asks a did:key at its URL to connect, or takes up an invitation (its link or card)',
      handler: agentCall(deps, async (agent, { request }) => {
        const body = bodyOf(connectBody, request);
        if (body instanceof Refusal) return body;
        if (!('invite' in body)) return pending(await connect.ask(agent, body), body.did);
        const invitation = readInvitation(cardText(body.invite), deps.now());
        if (invitation instanceof Refusal) return invitation;
        const { did: issuer, url, nonce } = invitation;
        return pending(await connect.claim(agent, { did: issuer, url, nonce }), issuer);
      }),
    },
    {
      method: 'PUT',
      path: `${path}/peers/{did}`,
      about: 'How far you trust a did:key (0 to 1000), and what it knows: for that it may be named in referrals',
      handler: agentCall(deps, async (agent, { params, request }) => {
        const body = bodyOf(peerBody, request);
        if (body instanceof Refusal) return body;
        const what = {
          ...(body.level !== undefined && { level: body.level }),
          ...(body.expertise && { expertise: body.expertise }),
        };
        const { did: peer, level: known, expertise: topics } = await trust.describe(agent, params.did!, what);
        return json(200, { did: peer, level: known, expertise: topics });
      }),
    },
  ];
}

function pending(asked: true | Refusal, peer: string) {
  return asked instanceof Refusal ? asked : json(202, { status: 'pending', did: peer });
}

/** A link holds the card as base64url; its bytes, and so its signature, stay what they were. */
function cardText(invite: string | Record<string, unknown>): string {
  if (typeof invite !== 'string') return JSON.stringify(invite);
  const data = /[?#&]d=([A-Za-z0-9_-]+)/.exec(invite)?.[1];
  return data === undefined ? invite : Buffer.from(data, 'base64url').toString();
}

function issuedView({ id, subject, introducedTo, validUntil, createdAt, revokedAt }: IssuedRow): object {
  const times = { issued_at: iso(createdAt), valid_until: iso(validUntil) };
  return { id, subject, to: introducedTo, ...times, revoked_at: revokedAt === null ? null : iso(revokedAt) };
}

function heldView({ issuer, id, subject, level: held, expertise: topics, validUntil, checkedAt }: HeldRow): object {
  // Null: its issuer could not be asked whether it still stands.
  const checked = checkedAt === null ? null : iso(checkedAt);
  return { id, issuer, subject, level: held, expertise: topics, valid_until: iso(validUntil), checked_at: checked };
}

function inviteView({ id, purpose, expiresAt, spentBy, spentAt, revokedAt }: InviteRow): object {
  const at = (ms: number | null): string | null => (ms === null ? null : iso(ms));
  return {
    id,
    purpose,
    expires_at: iso(expiresAt),
    taken_by: spentBy,
    taken_at: at(spentAt),
    revoked_at: at(revokedAt),
  };
}
