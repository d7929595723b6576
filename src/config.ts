import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import ipaddr from 'ipaddr.js';
import { isLoopback as isLoopbackIp } from './lib/ip.ts';

export type Plan = 'free' | 'pro' | 'enterprise';
export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';

export interface Config {
  readonly port: number;
  readonly host: string;
  /** The public base URL, without a slash at its end. */
  readonly url: string;
  /** Host of `url`, with its port when that is not the scheme's own. */
  readonly authority: string;
  /** Host of `url` alone. */
  readonly hostname: string;
  /** Path of `url`: '' or `/below`. */
  readonly basePath: string;
  readonly scheme: 'http' | 'https';
  /** Whether `url` is on this machine: then the guarded fetch allows loopback and http. */
  readonly loopback: boolean;
  /** Undefined: the embedded database. */
  readonly databaseUrl: string | undefined;
  /** Absolute path of the data folder. */
  readonly data: string;
  readonly org: string;
  readonly admin: string;
  readonly adminToken: string | undefined;
  /** 32 bytes, base64url. Undefined: kept in the data folder, see `loadSecret`. */
  readonly secret: string | undefined;
  readonly plan: Plan;
  /** Addresses and CIDRs. */
  readonly trustProxy: readonly string[];
  readonly wakesCron: boolean;
  /** Messages per minute per peer domain. */
  readonly ratePeer: number;
  /** Messages per minute per address. */
  readonly rateIp: number;
  readonly logLevel: LogLevel;
}

/** A variable that cannot be used as it is. The message names it and says what to write instead; never its value when it is a secret. */
export class ConfigError extends Error {
  override name = 'ConfigError';
  readonly variable: string;

  constructor(variable: string, problem: string, wayOut: string) {
    super(`${variable}: ${problem}. ${wayOut}`);
    this.variable = variable;
  }
}

export interface Variable {
  readonly name: string;
  readonly meaning: string;
  /** In words, as the README has it. */
  readonly default: string;
  readonly example: string;
  /** May come from the file that `<name>_FILE` names, as Docker secrets do. */
  readonly file?: true;
}

/** Every variable that the gateway reads. The README's table is compared with this one by a test. */
export const variables = [
  { name: 'PORT', meaning: 'port to listen on', default: '`8080`', example: '8080' },
  {
    name: 'HOST',
    meaning: 'address to listen on',
    default: '`127.0.0.1` when the URL is loopback, else `0.0.0.0`',
    example: '0.0.0.0',
  },
  {
    name: 'GATEHOUSE_URL',
    meaning: 'public base URL; its authority gives the did:web',
    default: '`http://localhost:$PORT`',
    example: 'https://acme.com',
  },
  {
    name: 'DATABASE_URL',
    meaning: 'PostgreSQL 14 or newer',
    default: 'none: embedded PostgreSQL in the data folder',
    example: 'postgresql://gatehouse:…@db/gatehouse',
    file: true,
  },
  { name: 'GATEHOUSE_DATA', meaning: 'data folder', default: '`./.gatehouse`', example: '/var/lib/gatehouse' },
  {
    name: 'GATEHOUSE_ORG',
    meaning: 'handle of the primary org',
    default: 'the authority of the URL, `:` written `-`',
    example: 'acme',
  },
  { name: 'GATEHOUSE_ADMIN', meaning: 'handle of the first admin', default: '`admin`', example: 'ana' },
  {
    name: 'GATEHOUSE_ADMIN_TOKEN',
    meaning: "that admin's first token",
    default: 'generated, printed once, kept in `<data>/admin-token`',
    example: 'ghn_…',
    file: true,
  },
  {
    name: 'GATEHOUSE_SECRET',
    meaning: '32 bytes base64url; encrypts secrets at rest',
    default: 'generated into `<data>/secret`; required with `DATABASE_URL` when the URL is public',
    example: 'openssl rand -base64 32',
    file: true,
  },
  {
    name: 'GATEHOUSE_PLAN',
    meaning: 'plan of new people: `free`, `pro` or `enterprise`',
    default: '`enterprise`',
    example: 'pro',
  },
  {
    name: 'GATEHOUSE_TRUST_PROXY',
    meaning: 'proxies whose `X-Forwarded-*` counts: addresses or CIDRs with commas between',
    default: 'none',
    example: '10.0.0.0/8,::1',
  },
  {
    name: 'GATEHOUSE_WAKES_CRON',
    meaning: '`on`: due wake retries run by themselves; `off`: only `/api/cron/wakes` runs them',
    default: '`on`',
    example: 'off',
  },
  { name: 'GATEHOUSE_RATE_PEER', meaning: 'messages per minute per peer domain', default: '`100`', example: '500' },
  {
    name: 'GATEHOUSE_RATE_IP',
    meaning: 'messages per minute per address without a local token',
    default: '`600`',
    example: '3000',
  },
  {
    name: 'LOG_LEVEL',
    meaning: '`trace`, `debug`, `info`, `warn`, `error`, `fatal` or `silent`',
    default: '`info`',
    example: 'debug',
  },
] as const satisfies readonly Variable[];

type Name = (typeof variables)[number]['name'];
export type Env = Readonly<Record<string, string | undefined>>;

const plans = ['free', 'pro', 'enterprise'] as const;
const levels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
const handle = /^[a-z0-9._-]{1,255}$/;
/** 32 bytes in base64url; plain base64 is taken too. */
export const secretForm = /^[A-Za-z0-9_\-+/]{43}=?$/;
const makeSecret = 'Make one with: openssl rand -base64 32';

/** Reads and checks the environment. An empty variable is an unset one. Throws a {@link ConfigError} at the first that is wrong. */
export function loadConfig(env: Env): Config {
  const read = (name: Name): string | undefined => value(env, name);
  const port = whole('PORT', read('PORT') ?? '8080', 0, 65_535);
  const url = baseUrl(read('GATEHOUSE_URL'), port);
  const loopback = isLoopback(url.hostname);
  const databaseUrl = database(read('DATABASE_URL'));
  const adminToken = token(read('GATEHOUSE_ADMIN_TOKEN'), loopback);
  const secret = read('GATEHOUSE_SECRET');
  if (secret !== undefined && !secretForm.test(secret)) {
    throw new ConfigError('GATEHOUSE_SECRET', 'this is not 32 bytes in base64url', makeSecret);
  }
  if (secret === undefined && databaseUrl !== undefined && !loopback) {
    throw new ConfigError(
      'GATEHOUSE_SECRET',
      'it is required with DATABASE_URL when GATEHOUSE_URL is public, since every replica needs the same one',
      makeSecret,
    );
  }
  return deepFreeze({
    port,
    host: read('HOST') ?? (loopback ? '127.0.0.1' : '0.0.0.0'),
    url: url.origin + path(url),
    authority: url.host,
    hostname: url.hostname,
    basePath: path(url),
    scheme: url.protocol === 'https:' ? 'https' : 'http',
    loopback,
    databaseUrl,
    data: resolve(read('GATEHOUSE_DATA') ?? '.gatehouse'),
    org: name('GATEHOUSE_ORG', read('GATEHOUSE_ORG') ?? url.host.replace(/[[\]]/g, '').replaceAll(':', '-')),
    admin: name('GATEHOUSE_ADMIN', read('GATEHOUSE_ADMIN') ?? 'admin'),
    adminToken,
    secret: secret === undefined ? undefined : Buffer.from(secret, 'base64').toString('base64url'),
    plan: oneOf('GATEHOUSE_PLAN', plans, read('GATEHOUSE_PLAN') ?? 'enterprise'),
    trustProxy: proxies(read('GATEHOUSE_TRUST_PROXY')),
    wakesCron: oneOf('GATEHOUSE_WAKES_CRON', ['on', 'off'], read('GATEHOUSE_WAKES_CRON') ?? 'on') === 'on',
    ratePeer: whole('GATEHOUSE_RATE_PEER', read('GATEHOUSE_RATE_PEER') ?? '100', 1, 1_000_000_000),
    rateIp: whole('GATEHOUSE_RATE_IP', read('GATEHOUSE_RATE_IP') ?? '600', 1, 1_000_000_000),
    logLevel: oneOf('LOG_LEVEL', levels, read('LOG_LEVEL') ?? 'info'),
  });
}

/** 127.0.0.0/8, ::1, localhost and the names below it (RFC 6761 §6.3). */
export function isLoopback(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, '');
  if (isLoopbackIp(host)) return true;
  return host === 'localhost' || host.endsWith('.localhost');
}

function value(env: Env, name: Name): string | undefined {
  const direct = env[name]?.trim() || undefined;
  const row: Variable | undefined = variables.find((variable) => variable.name === name);
  const file = row?.file ? env[`${name}_FILE`]?.trim() || undefined : undefined;
  if (file === undefined) return direct;
  if (direct !== undefined) throw new ConfigError(`${name}_FILE`, `${name} is set as well`, 'Set one of the two');
  try {
    const text = readFileSync(file, 'utf8').trim();
    if (text !== '') return text;
  } catch (error) {
    throw new ConfigError(
      `${name}_FILE`,
      `${file} cannot be read (${(error as NodeJS.ErrnoException).code})`,
      'Name a readable file',
    );
  }
  throw new ConfigError(`${name}_FILE`, `${file} is empty`, `Write the value of ${name} into it`);
}

function whole(variable: Name, text: string, least: number, most: number): number {
  const number = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= least && number <= most) return number;
  throw new ConfigError(
    variable,
    `"${text}" is not a whole number from ${least} to ${most}`,
    `Write for example ${exampleOf(variable)}`,
  );
}

function oneOf<T extends string>(variable: Name, allowed: readonly T[], text: string): T {
  const found = allowed.find((each) => each === text);
  if (found !== undefined) return found;
  throw new ConfigError(variable, `"${text}" is not known`, `Write one of ${allowed.join(', ')}`);
}

function name(variable: Name, text: string): string {
  if (handle.test(text)) return text;
  throw new ConfigError(
    variable,
    `"${text}" is not a name`,
    'Names have lower-case letters, digits, dot, hyphen and underscore',
  );
}

function baseUrl(text: string | undefined, port: number): URL {
  const wayOut = 'Write a URL like https://acme.com, without query, fragment or password';
  if (text === undefined && port === 0) {
    throw new ConfigError(
      'GATEHOUSE_URL',
      'it is required when PORT is 0',
      'The address must be known before the port is',
    );
  }
  let url: URL;
  try {
    url = new URL(text ?? `http://localhost:${port}`);
  } catch {
    throw new ConfigError('GATEHOUSE_URL', `"${text}" is not a URL`, wayOut);
  }
  const plain = url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (!/^https?:$/.test(url.protocol) || !plain)
    throw new ConfigError('GATEHOUSE_URL', 'that URL cannot be used', wayOut);
  return url;
}

function path(url: URL): string {
  return url.pathname.replace(/\/+$/, '');
}

function database(text: string | undefined): string | undefined {
  if (text === undefined || /^postgres(ql)?:\/\/./.test(text)) return text;
  throw new ConfigError(
    'DATABASE_URL',
    'this is not a PostgreSQL URL',
    'Write postgresql://user:password@host:5432/name, or leave it out for the embedded database',
  );
}

function token(text: string | undefined, loopback: boolean): string | undefined {
  const wayOut = 'Leave it out and one is generated';
  if (text === undefined) return undefined;
  // RFC 6750 §2.1: what a bearer token may be made of.
  if (!/^[A-Za-z0-9._~+/-]+=*$/.test(text)) {
    throw new ConfigError('GATEHOUSE_ADMIN_TOKEN', 'a bearer token has letters, digits and . _ ~ + / - only', wayOut);
  }
  if (!loopback && text.length < 16) {
    throw new ConfigError(
      'GATEHOUSE_ADMIN_TOKEN',
      'fewer than 16 characters can be guessed, and GATEHOUSE_URL is public',
      wayOut,
    );
  }
  return text;
}

function proxies(text: string | undefined): string[] {
  const entries = (text ?? '')
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '');
  for (const entry of entries) {
    if (ipaddr.isValid(entry) || ipaddr.isValidCIDR(entry)) continue;
    throw new ConfigError(
      'GATEHOUSE_TRUST_PROXY',
      `"${entry}" is neither an address nor a CIDR`,
      `Write for example ${exampleOf('GATEHOUSE_TRUST_PROXY')}`,
    );
  }
  return entries;
}

function exampleOf(variable: Name): string {
  return variables.find((row) => row.name === variable)?.example ?? '';
}

function deepFreeze<T extends object>(object: T): T {
  for (const each of Object.values(object)) if (typeof each === 'object' && each !== null) deepFreeze(each);
  return Object.freeze(object);
}
