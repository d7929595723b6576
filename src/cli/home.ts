import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { homedir, hostname } from 'node:os';
import { join } from 'node:path';
import {
  Client,
  fileKeys,
  filePins,
  fullAddress,
  type NodeKeys,
  type PinStore,
  type Seat,
  seatOf,
} from '../client/index.ts';
import { readPrivate, replacePrivate } from '../client/private-files.ts';
import { CliError, usage } from './errors.ts';

/** `config.json`: where and as whom. */
export interface Login {
  url: string;
  token: string;
  /** The node's name. */
  node: string;
  /** Where short names are read from. Null: in no org yet. */
  seat: Seat | null;
  /** The public key that the gateway has of this node. */
  registered: string | null;
  /** Agents that this machine made for sending. */
  announced: string[];
}

/** Messages that later commands ask about. */
export interface Note {
  id: string;
  from: string;
  to: string;
  thread: string;
  /** Of a request that was taken: where answers are sealed to. */
  reply_key?: string;
}

/** The folder of this person on this machine: `~/.gatehouse`, or GATEHOUSE_HOME. 0700, its files 0600. */
export class Home {
  readonly path: string;
  readonly pins: PinStore;
  readonly sent: Notes;
  readonly taken: Notes;
  /** Zips that came with answers. */
  readonly files: Zips;

  constructor(path: string = process.env.GATEHOUSE_HOME || join(homedir(), '.gatehouse')) {
    this.path = path;
    this.pins = filePins(join(path, 'pins'));
    this.sent = new Notes(join(path, 'sent'));
    this.taken = new Notes(join(path, 'taken'));
    this.files = new Zips(join(path, 'files'));
  }

  /** Makes the folder; one that others may look into is not used. */
  async ready(): Promise<this> {
    await mkdir(this.path, { recursive: true, mode: 0o700 });
    const { mode } = await stat(this.path);
    if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
      throw new CliError(`${this.path} may be read by others, and keys lie in it`, { next: `chmod 700 ${this.path}` });
    }
    return this;
  }

  get keysPath(): string {
    return join(this.path, 'keys.json');
  }

  keys(): Promise<NodeKeys> {
    return fileKeys(this.keysPath);
  }

  async login(): Promise<Login> {
    const text = await readPrivate(join(this.path, 'config.json'));
    if (text === undefined) throw new CliError('not logged in', { next: 'gatehouse login <url> <code>' });
    return JSON.parse(text) as Login;
  }

  async save(login: Login): Promise<void> {
    await replacePrivate(join(this.path, 'config.json'), `${JSON.stringify(login, null, 2)}\n`);
  }
}

export interface Session {
  home: Home;
  login: Login;
  client: Client;
}

/** Logged in, with keys that the gateway knows: those of this machine, or given ones that are to replace them. */
export async function openSession(given?: { keys: NodeKeys; rotate: boolean }): Promise<Session> {
  const home = await new Home().ready();
  const login = await home.login();
  const keys = given?.keys ?? (await home.keys());
  const client = new Client({ url: login.url, token: login.token, keys, pins: home.pins });
  const { public_key: own } = keys.registration();
  if (login.registered !== own) {
    await client.registerKeys(given?.rotate);
    login.registered = own;
    if (!given) await home.save(login);
  }
  return { home, login, client };
}

export function seatOfLogin({ seat }: Login): Seat {
  if (!seat) {
    throw new CliError('you are in no organisation yet', {
      next: 'gatehouse org create <handle> --me <you>, or gatehouse org join <org> --me <you>',
    });
  }
  return seat;
}

/** A short form of one of one's own agents as a full address. */
export function ownAddress(login: Login, name: string): string {
  const address = fullAddress(name, seatOfLogin(login));
  if (!seatOf(address))
    throw usage(`${name} is no name of an agent`, 'write name, user/name, team/user/name or org/team/user/name');
  return address;
}

/** The agent that sends: the named one, or `cli`, which is made on first use. */
export async function senderFor({ home, login, client }: Session, from: string | undefined): Promise<string> {
  if (from !== undefined) return ownAddress(login, from);
  const address = ownAddress(login, 'cli');
  if (!login.announced.includes(address)) {
    await client.announce(address, { listening: false, description: `the command line on ${hostname()}` });
    login.announced = [...login.announced, address];
    await home.save(login);
  }
  return address;
}

const mostNotes = 1_000;
const mostZips = 50;
/** Longer than any message waits. */
const keptDays = 35;

/** A folder with a small file per message. */
export class Notes {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async get(id: string): Promise<Note | undefined> {
    const text = await readPrivate(this.#path(id));
    return text === undefined ? undefined : (JSON.parse(text) as Note);
  }

  async put(note: Note): Promise<void> {
    await replacePrivate(this.#path(note.id), `${JSON.stringify(note)}\n`);
    await prune(this.#folder, mostNotes);
  }

  async remove(id: string): Promise<void> {
    await rm(this.#path(id), { force: true });
  }

  #path(id: string): string {
    return join(this.#folder, `${nameOf(id)}.json`);
  }
}

class Zips {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  get(id: string): Promise<Buffer | undefined> {
    return readFile(this.#path(id)).catch(() => undefined);
  }

  async put(id: string, zip: Buffer): Promise<void> {
    await replacePrivate(this.#path(id), zip);
    await prune(this.#folder, mostZips);
  }

  #path(id: string): string {
    return join(this.#folder, `${nameOf(id)}.zip`);
  }
}

/** Ids are chosen by others. */
function nameOf(id: string): string {
  return createHash('sha256').update(id).digest('hex').slice(0, 40);
}

async function prune(folder: string, most: number): Promise<void> {
  const names = await readdir(folder);
  if (names.length <= most) return;
  const before = Date.now() - keptDays * 86_400_000;
  for (const name of names) {
    const path = join(folder, name);
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Date.now() }));
    if (mtimeMs < before) await rm(path, { force: true });
  }
}
