import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

export interface RunOptions {
  command: string;
  /** Written to stdin, which is then closed. */
  input: string;
  env: Record<string, string>;
  /** Seconds. */
  timeout: number;
  /** A line of stdout or stderr that begins with `::progress `: told on, and part of neither output. */
  onProgress(text: string): void;
}

export interface Ran {
  /** Without the newlines at its end. */
  stdout: string;
  /** The last lines. */
  stderr: string;
  /** Null: it was ended by a signal. */
  code: number | null;
  timedOut: boolean;
  /** More was written than an answer can hold; the rest was thrown away. */
  overflowed: boolean;
}

const mark = '::progress ';
const mostOutput = 1024 * 1024;
/** Beyond this it is ended: it may write for ever. */
const mostWritten = 16 * 1024 * 1024;
const mostErrors = 4_096;
const errorLines = 20;
const graceMs = 5_000;

const running = new Set<(signal: NodeJS.Signals) => void>();

/** Ends what is still running, when the program itself must end at once. */
export function killRunning(): void {
  for (const kill of running) kill('SIGKILL');
}

/**
 * Runs a command in the shell, in a process group of its own, so that neither Ctrl-C nor a time limit leaves half of it running. Resolves
 * whatever becomes of it.
 */
export function runCommand({ command, input, env, timeout, onProgress }: RunOptions): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, {
      shell: true,
      detached: process.platform !== 'win32',
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { ...process.env, ...env },
    });
    let [stdout, stderr] = ['', ''];
    let [timedOut, overflowed] = [false, false];
    const kill = (signal: NodeJS.Signals): void => {
      try {
        if (child.pid !== undefined) process.kill(process.platform === 'win32' ? child.pid : -child.pid, signal);
      } catch {
        // It has ended.
      }
    };
    running.add(kill);
    let later: NodeJS.Timeout | undefined;
    const late = setTimeout(() => {
      timedOut = true;
      kill('SIGTERM');
      later = setTimeout(() => kill('SIGKILL'), graceMs);
    }, timeout * 1000);

    let written = 0;
    child.stdout.on('data', (chunk: Buffer) => {
      written += chunk.length;
      if (written <= mostWritten) return;
      overflowed = true;
      kill('SIGKILL');
    });
    lines(child.stdout, onProgress, (line) => {
      if (stdout.length + line.length > mostOutput) overflowed = true;
      else stdout += `${line}\n`;
    });
    lines(child.stderr, onProgress, (line) => {
      stderr = `${stderr}${line}\n`.slice(-mostErrors);
    });
    // A command that does not read its input is none the worse for it.
    child.stdin.on('error', () => undefined);
    child.stdin.end(input);
    const end = (): void => {
      running.delete(kill);
      clearTimeout(late);
      clearTimeout(later);
    };
    child.on('error', (error) => {
      end();
      reject(error);
    });
    child.on('close', (code) => {
      end();
      const last = stderr.trimEnd().split('\n').slice(-errorLines).join('\n');
      resolve({ stdout: stdout.replace(/\n+$/, ''), stderr: last, code, timedOut, overflowed });
    });
  });
}

function lines(stream: Readable, onProgress: (text: string) => void, other: (line: string) => void): void {
  createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY }).on('line', (line) => {
    if (line.startsWith(mark)) onProgress(line.slice(mark.length).trim());
    else other(line);
  });
}
