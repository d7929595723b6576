import { readFile } from 'node:fs/promises';
import { admin } from '../support/database.ts';

/** Milliseconds of a core that processes have used so far (Linux; 0 elsewhere). */
async function used(pids: readonly number[]): Promise<number> {
  const each = await Promise.all(
    pids.map(async (pid) => {
      const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
      const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
      return fields.length > 12 ? (Number(fields[11]) + Number(fields[12])) * 10 : 0;
    }),
  );
  return each.reduce((sum, ms) => sum + ms, 0);
}

/** The server's process, and the database server's processes that work for it. */
export interface Processes {
  pid: number;
  databaseUrl: string | undefined;
}

export async function cpuOf({ pid, databaseUrl }: Processes): Promise<{ server: number; database: number }> {
  const [server, database] = await Promise.all([used([pid]), databaseUrl === undefined ? 0 : backends(databaseUrl)]);
  return { server, database };
}

async function backends(url: string): Promise<number> {
  const name = new URL(url).pathname.slice(1);
  const { rows } = await admin((db) =>
    db.query<{ pid: number }>('select pid from pg_stat_activity where datname = $1', [name]),
  );
  return used(rows.map(({ pid }) => pid));
}
