import { networks } from '../../lib/ip.ts';
import { type Refusal, refuse } from '../../lib/refusal.ts';

const maxIps = 200;

/** Reads `ips`: addresses and CIDRs, v4 and v6, as a list or comma-separated; empty is any address. `invalid_field` names `ips`. */
export function readIps(value: unknown): string[] | Refusal {
  const list: unknown[] | null = typeof value === 'string' ? value.split(',') : Array.isArray(value) ? value : null;
  if (!list?.every((item) => typeof item === 'string')) return invalid('must be addresses, comma-separated');
  const ips = [...new Set((list as string[]).map((item) => item.trim().toLowerCase()).filter((item) => item !== ''))];
  if (ips.length > maxIps) return invalid(`has more than ${maxIps} entries`);
  for (const ip of ips) {
    // The reader of addresses also takes `10.1` and `0x7f.1`, which say something else to somebody else.
    if (
      !/^(?:(?:0|[1-9]\d{0,2})(?:\.(?:0|[1-9]\d{0,2})){3}|[0-9a-f:.]*:[0-9a-f:.]*)(?:\/\d{1,3})?$/.test(ip) ||
      !isNetwork(ip)
    ) {
      return invalid(
        `has ${JSON.stringify(ip.slice(0, 60))}, which is neither an IP address nor a network such as 203.0.113.0/24`,
      );
    }
  }
  return ips;
}

function isNetwork(text: string): boolean {
  try {
    networks([text]);
    return true;
  } catch {
    return false;
  }
}

function invalid(why: string): Refusal {
  return refuse('invalid_field', `\`ips\` ${why}.`, { data: { field: 'ips' } });
}
