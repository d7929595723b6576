import { isRecord, SIGNATURE_EXTENSION, type Version } from '../protocol.ts';

export type Binding = 'JSONRPC' | 'HTTP+JSON';

/** One way to speak to an agent. */
export interface Interface {
  url: string;
  binding: Binding;
  version: Version;
  tenant: string | null;
}

/** What a card tells a client (A2A §4.4, §0.3:5.5). */
export interface Card {
  /** The best first; at least one that we speak. */
  interfaces: Interface[];
  streaming: boolean;
  push: boolean;
  /** Those of the card's extensions that we declare with every request. */
  declares: string[];
}

const spoken: readonly string[] = [SIGNATURE_EXTENSION];
const mostInterfaces = 32;
/** What can be signed and sent as it is written; whether it may be called is for the guard to say. */
const address = /^https?:\/\/[^/?#@\s]+(?:\/[^#\s]*)?$/i;
/** 1.0 before 0.3: it has what 0.3 only has by custom. Within a version JSON-RPC first. */
const order: ReadonlyArray<readonly [Version, Binding]> = [
  ['1.0', 'JSONRPC'],
  ['1.0', 'HTTP+JSON'],
  ['0.3', 'JSONRPC'],
  ['0.3', 'HTTP+JSON'],
];

/** Reads a card of either version, or of both at once. Words when it is none, or when nothing of it can be used. */
export function readCard(json: unknown): Card | string {
  if (!isRecord(json) || typeof json.name !== 'string') return 'it is no agent card';
  const all = [...interfacesOf(json), ...interfacesOfV03(json)];
  const interfaces = order.flatMap(([version, binding]) =>
    all.filter((one) => one.version === version && one.binding === binding),
  );
  if (interfaces.length === 0) return 'it names no address that speaks A2A 1.0 or 0.3 over JSON-RPC or HTTP+JSON';
  const capabilities = isRecord(json.capabilities) ? json.capabilities : {};
  const extensions = Array.isArray(capabilities.extensions) ? capabilities.extensions.filter(isRecord) : [];
  const unknown = extensions.find(({ uri, required }) => required === true && !spoken.includes(String(uri)));
  if (unknown) return `it requires the extension ${String(unknown.uri).slice(0, 200)}, which is not spoken here`;
  return {
    interfaces: interfaces.slice(0, mostInterfaces),
    streaming: capabilities.streaming === true,
    push: (capabilities.pushNotifications ?? capabilities.push_notifications) === true,
    declares: spoken.filter((uri) => extensions.some((one) => one.uri === uri)),
  };
}

function interfacesOf(json: Record<string, unknown>): Interface[] {
  const list = json.supportedInterfaces ?? json.supported_interfaces;
  return (Array.isArray(list) ? list.slice(0, mostInterfaces) : []).filter(isRecord).flatMap((one) => {
    const version = versionOf(one.protocolVersion ?? one.protocol_version ?? '1.0');
    return made(one.url, one.protocolBinding ?? one.protocol_binding, version, one.tenant);
  });
}

function interfacesOfV03(json: Record<string, unknown>): Interface[] {
  if (typeof json.url !== 'string') return [];
  const version = versionOf(json.protocolVersion ?? '0.3');
  const more = Array.isArray(json.additionalInterfaces) ? json.additionalInterfaces.slice(0, mostInterfaces) : [];
  return [
    ...made(json.url, json.preferredTransport ?? 'JSONRPC', version, undefined),
    ...more.filter(isRecord).flatMap((one) => made(one.url, one.transport, version, undefined)),
  ];
}

function made(url: unknown, binding: unknown, version: Version | null, tenant: unknown): Interface[] {
  if (typeof url !== 'string' || url.length > 2_000 || !address.test(url) || !URL.canParse(url)) return [];
  if (version === null) return [];
  if (binding !== 'JSONRPC' && binding !== 'HTTP+JSON') return [];
  const named = typeof tenant === 'string' && tenant !== '' && tenant.length <= 500 ? tenant : null;
  return [{ url, binding, version, tenant: named }];
}

function versionOf(text: unknown): Version | null {
  if (/^1(\.|$)/.test(String(text))) return '1.0';
  return /^0\.[23](\.|$)/.test(String(text)) ? '0.3' : null;
}
