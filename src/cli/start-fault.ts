import { type Config, ConfigError } from '../config.ts';

/** What kept the gateway from starting, by the variable that an operator can turn. What is none of these is told as it is. */
export function startFault(fault: unknown, config: Config): unknown {
  if (!(fault instanceof Error) || fault instanceof ConfigError) return fault;
  const { code, syscall, address } = fault as NodeJS.ErrnoException & { address?: string };
  if (syscall === 'listen' && code === 'EADDRINUSE') {
    return new ConfigError(
      'PORT',
      `${config.port} is taken on ${config.host}`,
      'Stop the program that has it, or set another PORT',
    );
  }
  if (syscall === 'listen' && code === 'EACCES') {
    return new ConfigError('PORT', `${config.port} may not be listened on by this user`, 'Set a PORT of 1024 or more');
  }
  if ((syscall === 'listen' || syscall === 'getaddrinfo') && config.databaseUrl === undefined) {
    return new ConfigError(
      'HOST',
      `${config.host} is no address of this machine (${code})`,
      'Set HOST to 127.0.0.1 or 0.0.0.0, or leave it out',
    );
  }
  if (syscall === 'mkdir' || syscall === 'open') {
    return new ConfigError(
      'GATEHOUSE_DATA',
      `${config.data} cannot be used (${code})`,
      'Name a folder that belongs to the user who runs the gateway',
    );
  }
  if (config.databaseUrl !== undefined && (syscall === 'connect' || syscall === 'getaddrinfo' || isOfServer(fault))) {
    const where = address === undefined ? new URL(config.databaseUrl).host : address;
    return new ConfigError(
      'DATABASE_URL',
      `${where} does not let us in: ${fault.message}`,
      'Is PostgreSQL running there, and are user, password and database right?',
    );
  }
  return fault;
}

/** SQLSTATE classes 08, 28, 3D and 57P: no connection, no such role or password, no such database, shutting down. */
function isOfServer(fault: Error): boolean {
  const { code } = fault as { code?: unknown };
  return (
    (typeof code === 'string' && /^(08|28|3D|57P)/.test(code)) ||
    /Connection terminated|timeout expired/.test(fault.message)
  );
}
