import type { Letters } from '../../exchange/confer/index.ts';
import type { HttpRequest, HttpResponse } from '../../lib/http.ts';
import { Refusal } from '../../lib/refusal.ts';
import { errorResponse, json, ofSignature } from './errors.ts';
import { carrierOf, type MessageDeps, whoFirst } from './messages.ts';
import { readThreadRequest } from './parse.ts';

export interface ThreadDeps extends Omit<MessageDeps, 'exchange'> {
  letters: Pick<Letters, 'openThread'>;
}

/**
 * POST /a2a/v1/threads {from, to, thread_id?}: a thread that a question may follow in. Through the gates of a question, since whoever may not ask may
 * not fill the owner's list either.
 */
export async function postThread(deps: ThreadDeps, request: HttpRequest): Promise<HttpResponse> {
  const read = readThreadRequest(request);
  if (read instanceof Refusal) return errorResponse(await whoFirst(deps, request, read));
  const admitted = await deps.gates.admit({
    ...(await carrierOf(deps, request, read)),
    envelope: { v: 1, id: '', kind: 'request', from: '', to: read.to, body: { type: 'text/plain', text: '' } },
    idempotent: false,
  });
  if (admitted instanceof Refusal) return errorResponse(ofSignature(admitted, request));
  const thread_id = await deps.letters.openThread(admitted);
  return thread_id instanceof Refusal ? errorResponse(thread_id) : json(201, { thread_id });
}
