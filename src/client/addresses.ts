/** Where short forms are read from (REDSYN "Direcciones"). */
export interface Seat {
  org: string;
  team: string;
  user: string;
}

/** `close`, `ana/close`, `finance/ana/close` completed from the seat, the session kept. A DID, a URL or a full address stays as it is. */
export function fullAddress(text: string, seat: Seat): string {
  if (/^(?:did:|https?:\/\/)/.test(text)) return text;
  if (text.startsWith('topic:')) return fullTopic(text, seat);
  const [address = '', ...session] = text.split('#');
  const names = address.split('/');
  const full = [seat.org, seat.team, seat.user].slice(0, Math.max(0, 4 - names.length)).concat(names);
  return [full.join('/'), ...session].join('#');
}

/** `invoices`, `finance/invoices` or a whole topic, with or without `topic:`. */
export function fullTopic(text: string, { org, team }: Pick<Seat, 'org' | 'team'>): string {
  const names = text.replace(/^topic:/, '').split('/');
  return `topic:${[org, team]
    .slice(0, Math.max(0, 3 - names.length))
    .concat(names)
    .join('/')}`;
}

export function withoutSession(address: string): string {
  return address.replace(/#.*$/, '');
}

/** The seat that an agent's own address gives; undefined when it is none. */
export function seatOf(address: string): Seat | undefined {
  const [org, team, user, agent, ...more] = withoutSession(address).split('/');
  return org && team && user && agent && more.length === 0 ? { org, team, user } : undefined;
}

/** Who is pinned: `org/user`; whoever has no address of that form goes by the whole of it. */
export function personOf(address: string): string {
  const seat = seatOf(address);
  return seat ? `${seat.org}/${seat.user}` : withoutSession(address);
}

/** As a path: `/agents/…`, `/inbox/…`. */
export function pathOf(address: string): string {
  return withoutSession(address).split('/').map(encodeURIComponent).join('/');
}
