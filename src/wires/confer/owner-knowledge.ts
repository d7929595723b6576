import { z } from 'zod';
import type { Route } from '../../lib/http.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { type BaseRow, type Knowledge, maxDocumentBytes } from '../../model/knowledge/index.ts';
import type { Memory } from '../../model/memory/index.ts';
import { invalidData, json } from './errors.ts';
import { bodyOf, iso, memberFor, numberIn, type OwnerCallDeps, ownerCall } from './owner-call.ts';

export interface OwnerKnowledgeDeps extends OwnerCallDeps {
  knowledge: Pick<Knowledge, 'list' | 'base' | 'documents' | 'make' | 'share' | 'remove' | 'put' | 'drop' | 'search'>;
  memory: Pick<Memory, 'list' | 'forget'>;
}

const root = '/api/v1/knowledge';
const base = `${root}/{base}`;
const document = `${base}/documents/{document}`;

const named = z.object({
  name: z.string().regex(/^[^\p{C}/]{1,100}$/u, 'must be 1 to 100 characters without slashes and control characters'),
  shared_with_peers: z.boolean().optional(),
});
const change = z.object({ shared_with_peers: z.boolean() });

/** `/api/v1/knowledge…` and `/api/v1/memory…`: what your agents may look into, and what they remember. */
export function ownerKnowledgeRoutes(deps: OwnerKnowledgeDeps): Route[] {
  return [...baseRoutes(deps), ...documentRoutes(deps), ...memoryRoutes(deps)];
}

function baseRoutes(deps: OwnerKnowledgeDeps): Route[] {
  const { knowledge } = deps;
  return [
    {
      method: 'GET',
      path: root,
      about: 'Your knowledge bases',
      handler: ownerCall(deps, async ({ owners }) =>
        json(200, { knowledge: (await knowledge.list(owners)).map(rendered) }),
      ),
    },
    {
      method: 'POST',
      path: root,
      about: 'Makes one; nobody but you reaches it until it is shared_with_peers',
      handler: ownerCall(deps, async (call) => {
        const member = memberFor(call);
        if (member instanceof Refusal) return member;
        const said = bodyOf(named, call.request);
        if (said instanceof Refusal) return said;
        const made = await knowledge.make(member.id, said.name, said.shared_with_peers ?? false);
        return made instanceof Refusal ? made : json(201, { knowledge: rendered(made) });
      }),
    },
    {
      method: 'GET',
      path: `${root}/search`,
      about: 'What a search finds: ?q=, and ?audience=peer for what others would be answered from',
      handler: ownerCall(deps, async (call) => {
        const member = memberFor(call);
        if (member instanceof Refusal) return member;
        const question = call.query.get('q') ?? '';
        const audience = call.query.get('audience') ?? 'owner';
        if (question === '' || question.length > 1_000) return invalidData({ q: ['must have 1 to 1000 characters'] });
        if (audience !== 'owner' && audience !== 'peer') return invalidData({ audience: ['must be owner or peer'] });
        const found = await knowledge.search(audience, { owner: member.id, question });
        return json(200, { found: found.map(({ base: name, ...more }) => ({ knowledge: name, ...more })) });
      }),
    },
    {
      method: 'GET',
      path: base,
      about: 'One of them, with its documents',
      handler: ownerCall(deps, async ({ owners, params }) => {
        const found = await knowledge.base(owners, params.base!);
        if (found instanceof Refusal) return found;
        const documents = (await knowledge.documents(found)).map(({ updatedAt, ...of }) => ({
          ...of,
          updated_at: iso(updatedAt),
        }));
        return json(200, { knowledge: { ...rendered(found), documents } });
      }),
    },
    {
      method: 'PATCH',
      path: base,
      about: 'Shares it with peers, or takes that back',
      handler: ownerCall(deps, async ({ owners, params, request }) => {
        const said = bodyOf(change, request);
        if (said instanceof Refusal) return said;
        const shared = await knowledge.share(owners, params.base!, said.shared_with_peers);
        return shared instanceof Refusal ? shared : json(200, { knowledge: rendered(shared) });
      }),
    },
    {
      method: 'DELETE',
      path: base,
      about: 'Deletes it with its documents',
      handler: ownerCall(
        deps,
        async ({ owners, params }) => (await knowledge.remove(owners, params.base!)) ?? json(200, { ok: true }),
      ),
    },
  ];
}

function documentRoutes(deps: OwnerKnowledgeDeps): Route[] {
  const { knowledge } = deps;
  return [
    {
      method: 'PUT',
      path: document,
      about:
        'Puts a text in (the body, UTF-8, 1 MiB at most), in the place of the one of that name; ?url= is cited with it',
      large: {
        maxBody: maxDocumentBytes,
        async allow(request) {
          const caller = await deps.identify({
            wire: 'confer',
            operation: 'knock',
            request,
            answers: 'poll',
            idempotent: false,
          });
          if (caller instanceof Refusal) return caller;
          return caller.kind === 'node' ? undefined : refuse('forbidden', 'This call takes a person’s bearer token.');
        },
      },
      handler: ownerCall(deps, async ({ owners, params, query, request }) => {
        const found = await knowledge.base(owners, params.base!);
        if (found instanceof Refusal) return found;
        const name = params.document!;
        if (!/^[^\p{C}]{1,300}$/u.test(name)) return invalidData({ document: ['must be 1 to 300 characters'] });
        const url = query.get('url');
        if (url !== null && (!/^https?:\/\/[\x21-\x7e]{1,1990}$/.test(url) || !URL.canParse(url))) {
          return invalidData({ url: ['must be a http or https URL of at most 2000 characters'] });
        }
        const put = await knowledge.put(found, { name, url, content: request.body });
        if (put instanceof Refusal) return put;
        return json(put.created ? 201 : 200, {
          document: { name, url, bytes: request.body.length, chunks: put.chunks },
        });
      }),
    },
    {
      method: 'DELETE',
      path: document,
      about: 'Takes a document out',
      handler: ownerCall(deps, async ({ owners, params }) => {
        const found = await knowledge.base(owners, params.base!);
        if (found instanceof Refusal) return found;
        return (await knowledge.drop(found, params.document!)) ?? json(200, { ok: true });
      }),
    },
  ];
}

function memoryRoutes(deps: OwnerKnowledgeDeps): Route[] {
  const { memory } = deps;
  return [
    {
      method: 'GET',
      path: '/api/v1/memory',
      about: 'What your agents remember, newest first: ?limit=&offset=',
      handler: ownerCall(deps, async ({ owners, query }) => {
        const page = { limit: numberIn(query, 'limit', 50, 200), offset: numberIn(query, 'offset', 0, 1e6) };
        const rows = await memory.list(owners, page);
        return json(200, { memory: rows.map(({ createdAt, ...of }) => ({ ...of, created_at: iso(createdAt) })) });
      }),
    },
    {
      method: 'DELETE',
      path: '/api/v1/memory',
      about: 'Forgets all of it',
      handler: ownerCall(deps, async ({ owners }) => json(200, { forgotten: await memory.forget(owners, null) })),
    },
    {
      method: 'DELETE',
      path: '/api/v1/memory/{id}',
      about: 'Forgets one thing',
      handler: ownerCall(deps, async ({ owners, params }) =>
        json(200, { forgotten: await memory.forget(owners, params.id!) }),
      ),
    },
  ];
}

function rendered({ id, name, sharedWithPeers, documents, bytes, createdAt }: BaseRow): object {
  return { id, name, shared_with_peers: sharedWithPeers, documents, bytes, created_at: iso(createdAt) };
}
