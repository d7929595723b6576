import type { Cancels, CarriedCancel } from '../../exchange/cancel/index.ts';
import { FetchRefused } from '../../lib/fetch-types.ts';
import type { Sender } from '../../outbox/types.ts';
import { baseOf, postSigned, type RedsynClientOptions } from './client.ts';
import { otherVersion, readAnswer } from './client-result.ts';
import { REDSYN_EXTENSION, SIGNATURE_EXTENSION } from './protocol.ts';

export interface CancelClientOptions extends Pick<RedsynClientOptions, 'signer' | 'fetch' | 'clock' | 'loopback'> {
  cancels: Pick<Cancels, 'load' | 'delivered' | 'givenUp'>;
}

/** Asks the gateway of whom was asked to withdraw a request, as A2A's CancelTask with the REDSYN extension. */
export function createCancelClient(options: CancelClientOptions): Sender {
  const { cancels } = options;
  return {
    kind: 'cancel',
    async send(item, signal) {
      const carried = item.messageSeq === null ? null : await cancels.load(item.messageSeq);
      if (!carried) return { outcome: 'refused', code: 'conflict', words: 'there is nothing to withdraw', status: 409 };
      try {
        const url = `${baseOf(options, item.destination)}/a2a/v1`;
        const result = readAnswer(
          await postSigned(options, url, cancelRequest(carried), carried.ownerId, signal),
          item.attempts,
        );
        if (result === otherVersion) {
          return {
            outcome: 'refused',
            code: 'unknown_version',
            words: 'the other side cannot withdraw a request',
            status: 400,
          };
        }
        // What it does not have, it never got: the request itself goes no more.
        return result.outcome === 'refused' && result.code === 'not_found' ? { outcome: 'delivered' } : result;
      } catch (error) {
        if (!(error instanceof FetchRefused)) throw error;
        return { outcome: 'retry', reason: `${error.reason}: ${error.message}`, destinationDown: true };
      }
    },
    async onDelivered(tx, item) {
      if (item.messageSeq !== null) await cancels.delivered(tx, item.messageSeq);
    },
    onGivenUp: (tx, item, why) => cancels.givenUp(tx, item, why),
  };
}

function cancelRequest({ requestId }: CarriedCancel): { headers: Record<string, string>; body: Buffer } {
  const params = { id: requestId, metadata: { [REDSYN_EXTENSION]: { cancel: requestId } } };
  return {
    headers: {
      'content-type': 'application/json',
      accept: 'application/json',
      'a2a-version': '1.0',
      'a2a-extensions': `${REDSYN_EXTENSION}, ${SIGNATURE_EXTENSION}`,
    },
    body: Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: requestId, method: 'CancelTask', params })),
  };
}
