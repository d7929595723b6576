import type { Policies } from '../../gates/policies/index.ts';
import type { HttpRequest, Route } from '../../lib/http.ts';
import { readJson } from '../../lib/json.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';
import { invalidData, json } from './errors.ts';
import { iso, memberFor, type OwnerCallDeps, ownerCall } from './owner-call.ts';

export interface OwnerPoliciesDeps extends OwnerCallDeps {
  policies: Pick<Policies, 'source' | 'save'>;
}

const maxBody = 128 * 1024;

/** `/api/v1/policies`: the owner's standing policy, as YAML text or as JSON (confer.md "Políticas permanentes", confer-wire-facts §10). */
export function ownerPolicyRoutes(deps: OwnerPoliciesDeps): Route[] {
  return [
    {
      method: 'GET',
      path: '/api/v1/policies',
      about: 'Your standing policy as you wrote it',
      handler: ownerCall(deps, async (call) => {
        const member = memberFor(call);
        if (member instanceof Refusal) return member;
        const stored = await deps.policies.source(member.id);
        const accept = call.request.headers.get('accept') ?? '';
        if (/\b(?:yaml|text\/plain)\b/i.test(accept)) {
          return { status: 200, headers: { 'content-type': 'application/yaml' }, body: stored?.source ?? '' };
        }
        return json(200, { policy: stored?.source ?? '', updated_at: stored ? iso(stored.updatedAt) : null });
      }),
    },
    {
      method: 'PUT',
      path: '/api/v1/policies',
      about: 'Replaces your standing policy; an empty one ends it',
      maxBody,
      handler: ownerCall(deps, async (call) => {
        const member = memberFor(call);
        if (member instanceof Refusal) return member;
        const source = policySource(call.request);
        if (source instanceof Refusal) return source;
        const saved = await deps.policies.save(member.id, source);
        return saved instanceof Refusal ? policyFault(saved) : json(200, { ok: true, policy: source });
      }),
    },
  ];
}

/**
 * The policy's text: a body that is no JSON is YAML itself; `{"policy": "…"}` holds it; any other JSON object is the JSON form, kept as it was written.
 */
export function policySource({ body, headers }: HttpRequest): string | Refusal {
  const type = headers.get('content-type') ?? 'application/yaml';
  const text = new TextDecoder('utf-8', { fatal: false }).decode(body);
  if (text.includes('\0') || text.includes('\ufffd')) return invalidData({ policy: ['is not UTF-8, or holds U+0000'] });
  if (/^(?:application\/(?:x-)?yaml|text\/(?:x-)?yaml|text\/plain)\s*(?:;|$)/i.test(type)) return text;
  if (!/^application\/json\s*(?:;|$)/i.test(type)) return refuse('unsupported_media_type');
  if (text.trim() === '') return '';
  const parsed = readJson(body);
  if (parsed instanceof Refusal) return parsed;
  const value = parsed.value as { policy?: unknown } | null;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return invalidData({ policy: ['must be an object'] });
  }
  if (!('policy' in value)) return text;
  if (typeof value.policy !== 'string') return invalidData({ policy: ['must be text'] });
  return value.policy.includes('\0') ? invalidData({ policy: ['holds U+0000'] }) : value.policy;
}

/** With the line and column of the fault, for people and for programs. */
export function policyFault({ code, words, data }: Refusal): Refusal {
  return new Refusal(code, words, { data: { details: { policy: [words], line: data?.line, column: data?.column } } });
}
