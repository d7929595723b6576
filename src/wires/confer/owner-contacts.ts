import { z } from 'zod';
import type { Member } from '../../directory/types.ts';
import type { Candidate, LookupMethod } from '../../federation/lookup.ts';
import type { ConsentOperations, ContactRow } from '../../federation/types.ts';
import { readPolicy } from '../../gates/policies/text.ts';
import { parseDid } from '../../identity/did.ts';
import type { Route } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { invalidData, json } from './errors.ts';
import { bodyOf, iso, memberFor, numberIn, type OwnerCallDeps, ownerCall } from './owner-call.ts';
import { policyFault, policySource } from './owner-policies.ts';

export interface OwnerContactsDeps extends OwnerCallDeps {
  consent: Pick<ConsentOperations, 'contacts' | 'removeContact' | 'blockDomain' | 'unblockDomain'>;
  lookUp(method: LookupMethod, value: string): Promise<readonly Candidate[] | Refusal>;
  /** People of this instance by their handles; those that a caller may find. */
  localPeer(member: Member, user: string): Promise<Candidate | null>;
}

const name = z.string().min(1).max(200);
const lookupBody = z.object({
  method: z.enum(['domain', 'did', 'username', 'qr_code', 'phone']),
  value: z.string().min(1).max(1_000),
});
const addBody = z.object({
  peer_id: z.string().length(26),
  alias: name.nullish(),
  added_via: z
    .string()
    .regex(/^[a-z_]{1,40}$/)
    .optional(),
});
const changeBody = z.object({
  alias: name.nullable().optional(),
  tags: z.array(z.string().min(1).max(64)).max(50).optional(),
  pinned: z.boolean().optional(),
  muted: z.boolean().optional(),
  blocked: z.boolean().optional(),
});
const blockBody = z.object({ domain: z.string().min(1).max(255) });

/** `/api/v1/contacts…` (confer-wire-facts §9, design §10). */
export function ownerContactRoutes(deps: OwnerContactsDeps): Route[] {
  const { contacts } = deps.consent;
  const noContact = (): Refusal => refuse('not_found', 'There is no such contact.');
  return [
    {
      method: 'GET',
      path: '/api/v1/contacts',
      about: 'Your contacts, newest first',
      handler: ownerCall(deps, async ({ owners, query }) => {
        const page = { limit: numberIn(query, 'limit', 50, 100) || 50, offset: numberIn(query, 'offset', 0, 1e9) };
        const { contacts: rows, total } = await contacts.list(owners, page);
        return json(200, { contacts: rows.map(view), total });
      }),
    },
    {
      method: 'POST',
      path: '/api/v1/contacts/lookup',
      about: 'Finds whom you may add, by domain, DID or username',
      handler: ownerCall(deps, async (call) => {
        const body = bodyOf(lookupBody, call.request);
        if (body instanceof Refusal) return body;
        const { method, value } = body;
        if (method === 'qr_code' || method === 'phone') {
          return json(200, { candidates: [], method, error: 'Nobody can be found that way here.' });
        }
        const found = await find(deps, memberFor(call), method, value);
        if (found instanceof Refusal) return json(200, { candidates: [], method, error: found.words });
        const ids = await contacts.remember(found);
        return json(200, { candidates: found.map((one, i) => candidate(ids[i]!, one)), method });
      }),
    },
    {
      method: 'POST',
      path: '/api/v1/contacts',
      about: 'Adds a peer that a look-up found: it may ask your agents',
      handler: ownerCall(deps, async (call) => {
        const body = bodyOf(addBody, call.request);
        if (body instanceof Refusal) return body;
        const member = memberFor(call);
        if (member instanceof Refusal) return member;
        const how = { alias: body.alias ?? null, via: body.added_via ?? 'manual' };
        const added = await contacts.add(member.id, body.peer_id, how);
        return added instanceof Refusal ? added : json(added.isNew ? 201 : 200, { contact: view(added.contact) });
      }),
    },
    {
      method: 'GET',
      path: '/api/v1/contacts/blocks',
      about: 'Domains that you or your organisation block',
      handler: ownerCall(deps, async ({ node, owners }) => {
        const rows = await contacts.blocks(
          owners,
          node.members.map(({ orgId }) => orgId),
        );
        return json(200, {
          blocks: rows.map(({ domain, scope, createdAt }) => ({ domain, scope, created_at: iso(createdAt) })),
        });
      }),
    },
    {
      method: 'POST',
      path: '/api/v1/contacts/blocks',
      about: 'Blocks a whole domain: for the organisation if you are its admin, else for you',
      handler: ownerCall(deps, async (call) => {
        const body = bodyOf(blockBody, call.request);
        if (body instanceof Refusal) return body;
        const domain = domainOf(body.domain);
        if (domain instanceof Refusal) return domain;
        const member = memberFor(call);
        if (member instanceof Refusal) return member;
        const isAdmin = member.role === 'admin';
        if (isAdmin) await deps.consent.blockDomain(member.orgId, domain);
        else await contacts.block(member.id, domain);
        return json(201, { domain, scope: isAdmin ? 'organisation' : 'own' });
      }),
    },
    {
      method: 'DELETE',
      path: '/api/v1/contacts/blocks/{domain}',
      about: 'Ends a block',
      handler: ownerCall(deps, async ({ node, owners, params }) => {
        const domain = domainOf(params.domain ?? '');
        if (domain instanceof Refusal) return domain;
        let ended = await contacts.unblock(owners, domain);
        for (const { role, orgId } of node.members) {
          if (role === 'admin' && (await deps.consent.unblockDomain(orgId, domain))) ended = true;
        }
        return ended ? json(200, { ok: true }) : refuse('not_found', 'You block no such domain.');
      }),
    },
    {
      method: 'GET',
      path: '/api/v1/contacts/{id}',
      about: 'One contact',
      handler: ownerCall(deps, async ({ owners, params }) => {
        const row = await contacts.byId(owners, params.id!);
        return row ? json(200, { contact: view(row) }) : noContact();
      }),
    },
    {
      method: 'PATCH',
      path: '/api/v1/contacts/{id}',
      about: 'Names, tags, pins, mutes or blocks a contact',
      handler: ownerCall(deps, async ({ owners, params, request }) => {
        const body = bodyOf(changeBody, request);
        if (body instanceof Refusal) return body;
        const row = await contacts.change(owners, params.id!, body);
        return row instanceof Refusal ? row : json(200, { contact: view(row) });
      }),
    },
    {
      method: 'DELETE',
      path: '/api/v1/contacts/{id}',
      about: 'Ends a contact: whoever it is must ask again',
      handler: ownerCall(deps, async ({ owners, params }) => {
        for (const owner of owners) {
          if (await deps.consent.removeContact(owner, params.id!)) return json(200, { ok: true });
        }
        return noContact();
      }),
    },
    {
      method: 'POST',
      path: '/api/v1/contacts/{id}/policies',
      about: "Replaces the contact's own rules: YAML or JSON",
      maxBody: 128 * 1024,
      handler: ownerCall(deps, async ({ owners, params, request }) => {
        const source = policySource(request);
        if (source instanceof Refusal) return source;
        const policy = readPolicy(source, 'contact');
        if (policy instanceof Refusal) return policyFault(policy);
        const row = await contacts.change(owners, params.id!, { policy: source.trim() === '' ? null : source });
        return row instanceof Refusal ? row : json(200, { ok: true, contact: view(row) });
      }),
    },
  ];
}

async function find(
  { lookUp, localPeer }: OwnerContactsDeps,
  member: Member | Refusal,
  method: LookupMethod,
  value: string,
): Promise<readonly Candidate[] | Refusal> {
  if (method !== 'username' || /[@/]/.test(value.replace(/^@/, ''))) return lookUp(method, value);
  if (member instanceof Refusal) return member;
  const found = await localPeer(member, value.replace(/^@/, '').toLowerCase());
  return found ? [found] : refuse('not_found', 'Nobody here goes by that name; elsewhere: ana@acme.com.');
}

function view(row: ContactRow): object {
  const { id, alias, tags, pinned, muted, blocked, addedVia, createdAt, policy } = row;
  const peer = { id: row.peerId, did: row.peerDid, domain: row.peerDomain, name: row.peerName || row.peerDid };
  return { id, alias, tags, pinned, muted, blocked, added_via: addedVia, created_at: iso(createdAt), policy, peer };
}

function candidate(id: string, one: Candidate): object {
  const { did, name, description, primaryLanguage, style, capabilities, endpoint } = one;
  return { id, did, name, description, primary_language: primaryLanguage, style, capabilities, endpoint };
}

/** The authority of a did:web, port included. */
function domainOf(text: string): string | Refusal {
  const domain = text.trim().toLowerCase();
  const did = parseDid(`did:web:${domain.replace(':', '%3A')}`, { allowIp: true });
  return did instanceof Refusal || /[/?#@\s]/.test(domain) ? invalidData({ domain: ['is no domain'] }) : domain;
}
