import type { Cancels } from '../../../exchange/cancel/index.ts';
import type { Route } from '../../../lib/http.ts';
import type { Sender } from '../../../outbox/types.ts';
import { RemoteCancel } from './cancel.ts';
import { CardFinder, type FinderDeps } from './finder.ts';
import type { RemoteOptions } from './options.ts';
import { RemotePoll } from './poll.ts';
import { pushRoute } from './push.ts';
import { RemoteSender } from './send.ts';
import { Streams } from './stream.ts';

export interface RemoteAgents {
  /** For the outbox. */
  readonly senders: readonly Sender[];
  readonly routes: readonly Route[];
  /** Once the outbox is there. */
  start(): Promise<void>;
  /** Ends streams and long sends; resolves when what they brought is recorded. Before the outbox stops. */
  stop(): Promise<void>;
}

/** The client side of A2A: local agents ask agents on any A2A server (design §6). */
export function createRemoteAgents(
  deps: Omit<RemoteOptions, 'finder'> & FinderDeps & { cancels: Pick<Cancels, 'delivered'> },
): RemoteAgents {
  const options: RemoteOptions = { ...deps, finder: new CardFinder(deps) };
  const streams = new Streams();
  const sender = new RemoteSender(options, streams);
  return {
    senders: [sender, new RemotePoll(options, streams), new RemoteCancel(options, deps.cancels)],
    routes: [pushRoute(options)],
    start: () => options.tasks.lookAtAll(),
    async stop() {
      await sender.stop();
      await streams.ended();
    },
  };
}
