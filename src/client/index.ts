/**
 * `gatehouse/client`: an agent in TypeScript over REDSYN.
 *
 *     import { Client, fileKeys, filePins } from 'gatehouse/client';
 *
 *     const client = new Client({
 *       url: 'https://acme.com',
 *       token: process.env.TOKEN!,
 *       keys: await fileKeys('agent/keys.json'),
 *       pins: filePins('agent/pins'),
 *     });
 *     await client.listen('acme/general/joel/shout', ({ text }) => text.toUpperCase(), { announce: { allow: ['org'] } });
 *
 * Runs in any Node program from 20.20 on; it needs none of the server's packages.
 */
export { fullAddress, fullTopic, personOf, type Seat, seatOf } from './addresses.ts';
export type { Asked, WaitOptions } from './answers.ts';
export type { TakeOptions, Topic } from './api.ts';
export { Client, type ClientOptions, hopsOf } from './client.ts';
export { answerId, newMessageId, signedEnvelope, verify } from './envelope.ts';
export {
  GatehouseError,
  KeyChangedError,
  NoAnswerError,
  NotAnsweredError,
  SealError,
} from './errors.ts';
export type { CallOptions, Retries } from './http.ts';
export { fileKeys, type KeySecrets, type NodeKeys, nodeKeys, rotatedKeys, saveKeys } from './keys.ts';
export type { ListenOptions } from './listen.ts';
export { login } from './login.ts';
export { filePins, memoryPins, type Pin, type PinnedKey, type PinStore } from './pins.ts';
export { type AgentKey, type CheckedKey, checkAgentKey, isSealed, open, openZip, type Sealable, seal } from './seal.ts';
export {
  type SignedFetchOptions,
  type SigningKey,
  type SigningPeer,
  signedFetch,
  signingPeer,
} from './signed-fetch.ts';
export type {
  Announcement,
  Answer,
  Body,
  DeliveredEnvelope,
  FullAnswer,
  Handler,
  Incoming,
  Kind,
  Outgoing,
  Received,
  Reference,
  Sent,
  Signer,
} from './types.ts';
export { verifyWebhook } from './webhook.ts';
