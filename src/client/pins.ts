import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { redsynFingerprint } from '../identity/redsyn-seal.ts';
import { foregroundClock } from '../lib/clock.ts';
import { createPrivate, readPrivate, replacePrivate } from './private-files.ts';

export interface PinnedKey {
  /** Ed25519, 32 bytes, base64url. */
  key: string;
  fingerprint: string;
  /** Unix seconds: when it was accepted, or first seen. */
  since: number;
}

export interface Pin {
  /** `org/user` */
  person: string;
  /** Accepted ones: the first by first use, others by a person. A person has a key per machine. */
  keys: PinnedKey[];
  /** Seen and not accepted. */
  waiting: PinnedKey[];
}

/** Which signing keys belong to whom (REDSYN "Firmas": pinned on first use; another one waits until a person accepts it). */
export interface PinStore {
  get(person: string): Promise<Pin | undefined>;
  /** Pins it when it is the person's first (`new`); remembers another one as waiting (`changed`). */
  check(person: string, key: string): Promise<'new' | 'known' | 'changed'>;
  /**
   * Accepts what waits: the one key, or the one whose fingerprint begins so. `only` drops those accepted before. Undefined: nothing like
   * that waits.
   */
  accept(person: string, options?: { fingerprint?: string; only?: boolean }): Promise<Pin | undefined>;
  forget(person: string): Promise<boolean>;
  list(): Promise<Pin[]>;
}

/** For as long as the process lives. */
export function memoryPins(now: () => number = foregroundClock.now): PinStore {
  const files = new Map<string, string>();
  return new Pins(
    {
      read: async (name) => files.get(name),
      create: async (name, text) => !files.has(name) && files.set(name, text) !== undefined,
      replace: async (name, text) => void files.set(name, text),
      remove: async (name) => files.delete(name),
      names: async () => [...files.keys()],
    },
    now,
  );
}

/** A folder (0700) with two files per person (0600); several processes may use it at once. */
export function filePins(folder: string, now: () => number = foregroundClock.now): PinStore {
  return new Pins(
    {
      read: (name) => readPrivate(join(folder, name)),
      create: (name, text) => createPrivate(join(folder, name), text),
      replace: (name, text) => replacePrivate(join(folder, name), text),
      async remove(name) {
        const isThere = (await readPrivate(join(folder, name))) !== undefined;
        await rm(join(folder, name), { force: true });
        return isThere;
      },
      names: () => readdir(folder).catch(() => []),
    },
    now,
  );
}

interface Files {
  read(name: string): Promise<string | undefined>;
  /** False when it is there. */
  create(name: string, text: string): Promise<boolean>;
  replace(name: string, text: string): Promise<void>;
  remove(name: string): Promise<boolean>;
  names(): Promise<string[]>;
}

const mostWaiting = 10;
const accepted = '.json';
// A file of its own: a key that a listener sees cannot undo what a person accepts at the same moment.
const waiting = '.waiting.json';

class Pins implements PinStore {
  readonly #files: Files;
  readonly #now: () => number;

  constructor(files: Files, now: () => number) {
    this.#files = files;
    this.#now = now;
  }

  async get(person: string): Promise<Pin | undefined> {
    const [keys, others] = await Promise.all([this.#read(person, accepted), this.#read(person, waiting)]);
    return keys.length + others.length > 0 ? { person, keys, waiting: others } : undefined;
  }

  async check(person: string, key: string): Promise<'new' | 'known' | 'changed'> {
    const seen = { key, fingerprint: redsynFingerprint(key), since: Math.floor(this.#now() / 1000) };
    const keys = await this.#read(person, accepted);
    if (keys.some((pinned) => pinned.key === key)) return 'known';
    if (keys.length === 0) {
      if (await this.#files.create(nameOf(person, accepted), toText([seen]))) return 'new';
      return this.check(person, key);
    }
    const others = await this.#read(person, waiting);
    if (!others.some((pinned) => pinned.key === key)) {
      await this.#files.replace(nameOf(person, waiting), toText([seen, ...others].slice(0, mostWaiting)));
    }
    return 'changed';
  }

  async accept(
    person: string,
    { fingerprint, only = false }: { fingerprint?: string; only?: boolean } = {},
  ): Promise<Pin | undefined> {
    const others = await this.#read(person, waiting);
    const chosen = others.filter((pinned) => fingerprint === undefined || pinned.fingerprint.startsWith(fingerprint));
    const [key] = chosen;
    if (!key || chosen.length > 1) return undefined;
    const before = only ? [] : await this.#read(person, accepted);
    const keys = [...before, { ...key, since: Math.floor(this.#now() / 1000) }];
    await this.#files.replace(nameOf(person, accepted), toText(keys));
    const left = others.filter((pinned) => pinned.key !== key.key);
    if (left.length > 0) await this.#files.replace(nameOf(person, waiting), toText(left));
    else await this.#files.remove(nameOf(person, waiting));
    return { person, keys, waiting: left };
  }

  async forget(person: string): Promise<boolean> {
    const both = await Promise.all([accepted, waiting].map((kind) => this.#files.remove(nameOf(person, kind))));
    return both.includes(true);
  }

  async list(): Promise<Pin[]> {
    const names = (await this.#files.names()).filter((name) => name.endsWith(accepted) && !name.endsWith(waiting));
    const people = names.map((name) => decodeURIComponent(name.slice(0, -accepted.length))).sort();
    return (await Promise.all(people.map((person) => this.get(person)))).filter((pin) => pin !== undefined);
  }

  async #read(person: string, kind: string): Promise<PinnedKey[]> {
    const text = await this.#files.read(nameOf(person, kind));
    return text === undefined ? [] : (JSON.parse(text) as PinnedKey[]);
  }
}

function nameOf(person: string, kind: string): string {
  return encodeURIComponent(person) + kind;
}

function toText(keys: PinnedKey[]): string {
  return `${JSON.stringify(keys, null, 2)}\n`;
}
