import type { HttpRequest } from '../../lib/http.ts';
import { Refusal } from '../../lib/refusal.ts';
import { type CancelDeps, cancel } from './cancel.ts';
import { extensionRequired, ofRefusal, type RpcError } from './errors.ts';
import { type CardDeps, extendedCard } from './extended-card.ts';
import { carriesProof, get } from './get.ts';
import { list } from './list.ts';
import { type Answers, type PlainOperation, REDSYN_EXTENSION, SIGNATURE_EXTENSION, type Version } from './protocol.ts';
import { pushDelete, pushGet, pushList, pushSet } from './push-configs.ts';
import { type Asked, type A2aDeps as SendDeps, send, sendStreaming } from './send.ts';
import type { TaskStream } from './stream.ts';
import { subscribe } from './subscribe.ts';

export type A2aDeps = SendDeps & CancelDeps & CardDeps;

/** What became of an operation. The bindings bring it into their form and their client's version. */
export type Outcome =
  | { [Name in PlainOperation]: { operation: Name; value: Answers[Name] } }[PlainOperation]
  | { stream: TaskStream }
  | { error: RpcError };

type Operations = {
  readonly [Name in PlainOperation]: (deps: A2aDeps, asked: Asked) => Promise<Answers[Name] | Refusal | RpcError>;
};

const plain: Operations = { send, get, list, cancel, pushSet, pushGet, pushList, pushDelete, extendedCard };
const streaming = { stream: sendStreaming, subscribe } as const;

/** The one implementation behind JSON-RPC and HTTP+JSON of both versions. */
export async function run(deps: A2aDeps, asked: Asked): Promise<Outcome> {
  const { operation } = asked;
  if (operation === 'stream' || operation === 'subscribe') {
    const stream = await streaming[operation](deps, asked);
    const error = errorIn(stream, asked);
    return error ? { error } : { stream: stream as TaskStream };
  }
  const value = await plain[operation](deps, asked);
  const error = errorIn(value, asked);
  return error ? { error } : ({ operation, value } as Outcome);
}

function errorIn(value: object, asked: Asked): RpcError | undefined {
  if (value instanceof Refusal) return errorOf(value, asked);
  return 'code' in value && 'rest' in value ? (value as RpcError) : undefined;
}

/** A stranger that proves nothing and never said that it can sign hears what it lacks; 0.3 has no such error, so there the 401 says it. */
function errorOf(refusal: Refusal, { version, request }: Asked): RpcError {
  const asksForProof = refusal.code === 'unauthenticated' || refusal.code === 'signature_missing';
  const isStranger = asksForProof && !carriesProof(request) && version === '1.0';
  return isStranger && !requested(version, request).includes(SIGNATURE_EXTENSION)
    ? extensionRequired(SIGNATURE_EXTENSION, refusal)
    : ofRefusal(refusal);
}

const spoken: readonly string[] = [SIGNATURE_EXTENSION, REDSYN_EXTENSION];

/** §4.6: of the extensions that the client asked for, those that we speak. */
export function activated(version: Version, request: HttpRequest): Record<string, string> {
  const uris = requested(version, request).filter((uri) => spoken.includes(uri));
  return uris.length > 0 ? { [headerOf(version)]: [...new Set(uris)].join(', ') } : {};
}

function requested(version: Version, { headers }: HttpRequest): string[] {
  return (headers.get(headerOf(version)) ?? '').split(',').map((uri) => uri.trim());
}

function headerOf(version: Version): string {
  return version === '1.0' ? 'a2a-extensions' : 'x-a2a-extensions';
}
