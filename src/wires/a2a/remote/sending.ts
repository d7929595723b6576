import type { Body, Envelope } from '../../../exchange/message.ts';
import type { RemoteRequest } from '../../../exchange/remote/index.ts';
import { partsOfBody } from '../body.ts';
import { HOPS_EXTENSION, isRecord, type Message, type Part } from '../protocol.ts';

/**
 * A local request as the A2A message that leaves. A body of `application/a2a+json` says itself what parts it has (design §1); files go as one zip.
 * It goes on in the context, and with the task that waits for it, of what was asked in its thread before.
 */
export function messageFor({ envelopeText, messageId, before }: RemoteRequest): Message {
  const { body, files, hops } = JSON.parse(envelopeText) as Envelope & { files?: { zip?: string } };
  const own = ownMessage(body);
  const zip = typeof files?.zip === 'string' ? files.zip : null;
  return {
    messageId,
    role: 'ROLE_USER',
    parts: [
      ...(own?.parts ?? partsOfBody(body)),
      ...(zip === null ? [] : [{ raw: zip, filename: 'files.zip', mediaType: 'application/zip' }]),
    ],
    ...(before?.contextId && { contextId: before.contextId }),
    ...(before?.taskId && { taskId: before.taskId }),
    ...((own?.metadata || hops !== undefined) && {
      metadata: { ...own?.metadata, ...(hops !== undefined && { [HOPS_EXTENSION]: hops }) },
    }),
  };
}

function ownMessage({ type, data }: Body): { parts: Part[]; metadata?: Record<string, unknown> } | null {
  if (type !== 'application/a2a+json' || !isRecord(data)) return null;
  const message = isRecord(data.message) ? data.message : data;
  const { parts, metadata } = message;
  if (!Array.isArray(parts) || parts.length === 0 || !parts.every(isPart)) return null;
  return { parts, ...(isRecord(metadata) && { metadata }) };
}

function isPart(part: unknown): part is Part {
  return isRecord(part) && ['text', 'raw', 'url', 'data'].filter((key) => part[key] !== undefined).length === 1;
}
