import { type DestinationStream, type Logger, pino, stdSerializers, stdTimeFunctions } from 'pino';

export type Log = Logger;

export type LogLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent';

export interface LogOptions {
  readonly level: LogLevel;
  /** Where the lines go: standard output unless a test says otherwise. */
  readonly destination?: DestinationStream;
}

/** The root logger: JSON lines without secrets. Each part of the gateway takes its own with `named`. */
export function createLog({ level, destination }: LogOptions): Log {
  return pino(
    {
      level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }), log: (fields) => censor(fields) as Record<string, unknown> },
      serializers: { err: (error: Error) => censor(stdSerializers.err(error)) },
      hooks: { streamWrite: withoutTokens },
    },
    destination ?? pino.destination(1),
  );
}

/** `outbox`, `front`, `federation`: the part that speaks. */
export function named(log: Log, name: string): Log {
  return log.child({ name });
}

const hidden = '[hidden]';
const secretKey =
  /^(x-)?(proxy-)?(authorization|cookie|set-cookie|signature|sig|.*secret|.*token|.*seed|.*phrase|mnemonic|password|.*private_?key|api-?key)$/i;
const maxDepth = 6;

/** The same fields with every value hidden whose name says that it is a secret. */
function censor(value: unknown, depth = 0): unknown {
  if (Array.isArray(value)) return depth < maxDepth ? value.map((item) => censor(item, depth + 1)) : hidden;
  if (value === null || typeof value !== 'object') return value;
  const prototype = Object.getPrototypeOf(value);
  // Errors, dates and buffers have serialisers of their own.
  if (prototype !== Object.prototype && prototype !== null && !(depth === 0 && 'stack' in value)) return value;
  if (depth >= maxDepth) return hidden;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, secretKey.test(key) ? hidden : censor(item, depth + 1)]),
  );
}

const tokenText = /\b(ghn_|rsk_|rsw_)[A-Za-z0-9_-]{6,}|\b(Bearer |Basic )[A-Za-z0-9._~+/=-]{6,}/g;

// The last net: a token inside a message, a URL or the text of an error.
function withoutTokens(line: string): string {
  return line.replace(tokenText, (_, token, scheme) => `${token ?? scheme}${hidden}`);
}
