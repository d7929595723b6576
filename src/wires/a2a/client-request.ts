import { authorityOf, readAddress } from '../../directory/names.ts';
import type { Carried } from '../../exchange/carrier.ts';
import type { Body } from '../../exchange/message.ts';
import { Refusal } from '../../lib/refusal.ts';
import { tenantOf } from './addressee.ts';
import { partsOfBody } from './body.ts';
import { HANDED_ON, type Message, REDSYN_EXTENSION, SIGNATURE_EXTENSION, TURNS, type Version } from './protocol.ts';
import { messageToV03 } from './v03.ts';

export interface WireRequest {
  headers: Record<string, string>;
  body: Buffer;
}

/**
 * A carried message as a JSON-RPC request. The envelope's text is spliced in as it stands: parsed and printed again, its numbers, escapes and
 * order could differ from what its node signed.
 */
export function wireRequest(carried: Carried, version: Version): WireRequest {
  const { body } = JSON.parse(carried.envelopeText) as { body: Body };
  const message: Message = {
    messageId: carried.messageId,
    role: 'ROLE_USER',
    contextId: carried.thread,
    parts: partsOfBody(body),
    extensions: [REDSYN_EXTENSION],
  };
  const shown = version === '1.0' ? message : messageToV03(message);
  const beside = {
    ...(carried.handedOn && { [HANDED_ON]: carried.handedOn }),
    ...(carried.turns && { [TURNS]: carried.turns }),
  };
  const wrapped = spliced(shown, 'metadata', spliced(beside, REDSYN_EXTENSION, carried.envelopeText));
  const tenant = tenantFor(carried.to);
  const params =
    version === '1.0'
      ? spliced({ ...(tenant !== null && { tenant }), configuration: { returnImmediately: true } }, 'message', wrapped)
      : spliced({ configuration: { blocking: false } }, 'message', wrapped);
  const method = version === '1.0' ? 'SendMessage' : 'message/send';
  const extensions = `${REDSYN_EXTENSION}, ${SIGNATURE_EXTENSION}`;
  return {
    headers: {
      'content-type': 'application/json',
      accept: 'application/json',
      ...(version === '1.0'
        ? { 'a2a-version': '1.0', 'a2a-extensions': extensions }
        : { 'x-a2a-extensions': extensions }),
    },
    body: Buffer.from(spliced({ jsonrpc: '2.0', id: carried.messageId, method }, 'params', params)),
  };
}

/** The agent that a 0.3 reader, which knows no tenant, finds by its path. Null when the address has no path of its own. */
export function pathFor(to: string): string | null {
  const address = readAddress(to);
  if (address instanceof Refusal) return null;
  const { org, user, team, agent } = address;
  return `${authorityOf(org) === null ? `/orgs/${org}` : ''}/agents/${user}/${team}/${agent}`;
}

function tenantFor(to: string): string | null {
  const address = readAddress(to);
  return address instanceof Refusal ? null : tenantOf(address, authorityOf(address.org) !== null);
}

/** `object` as JSON with one more member whose value is JSON text already. */
function spliced(object: object, key: string, json: string): string {
  const text = JSON.stringify(object);
  return `${text.slice(0, -1)}${text === '{}' ? '' : ','}${JSON.stringify(key)}:${json}}`;
}
