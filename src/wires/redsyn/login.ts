import { z } from 'zod';
import type { Registry } from '../../directory/index.ts';
import type { NodeRow } from '../../directory/nodes.ts';
import type { Route } from '../../lib/http.ts';
import { Refusal } from '../../lib/refusal.ts';
import { type CallDeps, call, callerOf, json, openCall } from './common.ts';

export interface LoginDeps extends CallDeps {
  registry: Pick<Registry, 'people' | 'nodes'>;
}

const nodeName = z.string().trim().min(1).max(200);
const login = z.object({ code: z.string().min(1).max(200), node: nodeName });
const newNode = z.object({ name: nodeName });
const nodeKey = z.object({
  public_key: z.string().max(100),
  enc_key: z.string().max(200).nullish(),
  enc_sig: z.string().max(200).nullish(),
  rotate: z.boolean().nullish(),
});

/** REDSYN "Autenticación y nodos", "Firmas" and "Cifrado de extremo a extremo"; design §7 "Getting in". */
export function loginRoutes(deps: LoginDeps): Route[] {
  const { people, nodes } = deps.registry;
  return [
    {
      method: 'POST',
      path: '/redsyn/v1/login',
      about: 'A one-time code of an invitation for the token of a new node',
      handler: openCall(login, async ({ request, body }) => {
        // Nobody has to be anybody yet; only the flood gate has a say.
        const who = await callerOf(deps, request);
        if (who instanceof Refusal && who.code === 'rate_limited') return who;
        const done = await people.login(body.code, body.node);
        if (done instanceof Refusal) return done;
        const { token, personId, email } = done;
        return json(201, { token, person: { id: personId, email } }, { headers: { 'cache-control': 'no-store' } });
      }),
    },
    {
      method: 'POST',
      path: '/redsyn/v1/nodes',
      about: 'A further node of yours; its token is told once',
      handler: call(deps, newNode, async ({ node, body }) => {
        const made = await nodes.make(node.personId, body.name);
        return made instanceof Refusal ? made : json(201, made, { headers: { 'cache-control': 'no-store' } });
      }),
    },
    {
      method: 'GET',
      path: '/redsyn/v1/nodes',
      about: 'Your nodes',
      handler: call(deps, async ({ node }) => {
        const rows = await nodes.list(node.personId);
        return json(200, { nodes: rows.map((row) => nodeView(row, node.nodeId)) });
      }),
    },
    {
      method: 'DELETE',
      path: '/redsyn/v1/nodes/{id}',
      about: 'Revokes a node: its token ends at once',
      handler: call(deps, async ({ node, params }) => {
        const refusal = await nodes.revoke(node.personId, params.id!);
        return refusal ?? json(200, { id: params.id, revoked: true });
      }),
    },
    {
      method: 'PUT',
      path: '/redsyn/v1/nodes/key',
      about: "Registers the public keys of the calling node; `rotate` replaces another one's",
      handler: call(deps, nodeKey, async ({ node, body }) => {
        const { public_key: publicKey, enc_key, enc_sig, rotate } = body;
        const key = { publicKey, encKey: enc_key ?? null, encSig: enc_sig ?? null, rotate: rotate ?? false };
        const refusal = await nodes.setKey(node, key);
        return refusal ?? json(200, { node: node.nodeName, id: node.nodeId, public_key: publicKey });
      }),
    },
  ];
}

function nodeView(row: NodeRow, calling: string): Record<string, unknown> {
  return {
    id: row.id,
    name: row.name,
    created_at: Math.floor(row.createdAt / 1000),
    current: row.id === calling,
    public_key: row.publicKey,
    enc_key: row.encKey,
  };
}
