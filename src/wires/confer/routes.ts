import type { Route } from '../../lib/http.ts';
import { type MessageDeps, postMessage } from './messages.ts';
import { getStream, type StreamDeps } from './stream.ts';
import { postThread, type ThreadDeps } from './threads.ts';

export type ConferDeps = MessageDeps & StreamDeps & ThreadDeps;

/** confer-wire-facts §2. */
const maxBody = 1024 * 1024;

/** What peers call. Their prefixes speak this wire's errors also before a route is found. */
export const conferPrefixes = [
  '/a2a/v1/messages',
  '/a2a/v1/stream',
  '/a2a/v1/threads',
  '/a2a/v1/agent-facts',
  '/api/v1',
] as const;

export function conferRoutes(deps: ConferDeps): Route[] {
  return [
    {
      method: 'POST',
      path: '/a2a/v1/messages',
      handler: (request) => postMessage(deps, request),
      hot: true,
      maxBody,
      about: 'A message over Confer, signed per RFC 9421.',
    },
    {
      method: 'GET',
      path: '/a2a/v1/stream/{id}',
      handler: (request) => getStream(deps, request),
      about: 'What became of a question, as Server-Sent Events; signed by who asked it.',
    },
    {
      method: 'POST',
      path: '/a2a/v1/threads',
      handler: (request) => postThread(deps, request),
      about: 'Opens a thread over Confer, signed per RFC 9421.',
    },
  ];
}
