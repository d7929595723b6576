import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** An address in one spelling (IPv4 inside IPv6 unwrapped), or undefined when the text is no IP address. Zone ids are not accepted. */
function parse(text: string): Address | undefined {
  if (text.includes('%') || !(ipaddr.IPv4.isValidFourPartDecimal(text) || ipaddr.IPv6.isValid(text))) return undefined;
  return ipaddr.process(text);
}

export function isIp(text: string): boolean {
  return parse(text) !== undefined;
}

/** `::ffff:10.0.0.1` is `10.0.0.1`; undefined when the text is no IP address. */
export function plainIp(text: string): string | undefined {
  return parse(text)?.toString();
}

export function isLoopback(text: string): boolean {
  return parse(text)?.range() === 'loopback';
}

// What a later edition of ipaddr.js might stop calling special; all of it leads inside, or to an IPv4 address that was not looked at.
const neverPublic = networks([
  '100.64.0.0/10',
  '192.0.0.0/24',
  '198.18.0.0/15',
  '64:ff9b::/96',
  '64:ff9b:1::/48',
  '2001::/23',
  '2002::/16',
]);
const globalUnicast = networks(['2000::/3']);

/** Whether an address is one that anybody on the Internet may have: global unicast, nothing special, no tunnel. */
export function isPublic(text: string): boolean {
  const address = parse(text);
  if (address?.range() !== 'unicast' || neverPublic(text)) return false;
  return address.kind() === 'ipv4' || globalUnicast(text);
}

/** Whether an address is in one of the networks. */
export type Networks = (address: string) => boolean;

/** From addresses and CIDRs. Throws a sentence for the operator when one of them is neither. */
export function networks(list: readonly string[]): Networks {
  const ranges = list.map((entry): [Address, number] => {
    try {
      if (entry.includes('/')) return ipaddr.parseCIDR(entry);
      const address = ipaddr.process(entry);
      return [address, address.kind() === 'ipv4' ? 32 : 128];
    } catch {
      throw new Error(`"${entry}" is neither an IP address nor a network such as 10.0.0.0/8`);
    }
  });
  if (ranges.length === 0) return () => false;
  return (text) => {
    const address = parse(text);
    return (
      address !== undefined && ranges.some(([net, bits]) => net.kind() === address.kind() && address.match(net, bits))
    );
  };
}

/** One IPv6 customer has a /64 of addresses; an IPv4 address stands for itself. */
export function neighbourhood(ip: string): string {
  if (!ip.includes(':')) return ip;
  const [head = '', tail] = ip.split('::');
  const groups = head.split(':');
  const behind = tail === undefined ? [] : tail.split(':');
  const zeros = tail === undefined ? 0 : Math.max(8 - groups.length - behind.length, 0);
  return [...groups, ...Array<string>(zeros).fill('0'), ...behind].slice(0, 4).join(':');
}
