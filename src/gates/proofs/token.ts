import { sha256Hex } from '../../lib/ids.ts';
import { type Refusal, refuse } from '../../lib/refusal.ts';
import type { Called, Claim, Tools } from '../facts.ts';

/** The token of an `Authorization: Bearer …` header; undefined when there is no such header, null when it is malformed. */
export function bearerToken(authorization: string | undefined): string | null | undefined {
  if (authorization === undefined || !/^bearer(\s|$)/i.test(authorization)) return undefined;
  return /^bearer +([A-Za-z0-9._~+/=-]{1,512}) *$/i.exec(authorization)?.[1] ?? null;
}

export function claimToken(token: string): Claim {
  return { kind: 'token', name: `token ${sha256Hex(token)}`, token };
}

/** The prefix says what kind of token it is (design §7), so that each is looked up in one place only. */
export async function proveToken(token: string, { directory }: Tools): Promise<Called | Refusal> {
  if (token.startsWith('rsk_')) {
    const identity = await directory.agentByKey(token);
    if (!identity) return refuse('unauthenticated', 'That agent key is not known here, or it was revoked.');
    return { principal: { kind: 'agent', ...identity }, proof: null };
  }
  // It would be looked up in vain; its holder is told what it is for.
  if (token.startsWith('rsw_'))
    return refuse('forbidden', 'A watcher key polls and acks wakes, and does nothing else.');
  const node = await directory.nodeByToken(token);
  if (!node) return refuse('unauthenticated', 'That token is not known here: it was revoked, or belongs elsewhere.');
  return { principal: { kind: 'node', node }, proof: null };
}
