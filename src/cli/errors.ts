import { GatehouseError, KeyChangedError, NoAnswerError, NotAnsweredError, SealError } from '../client/index.ts';

/** What went wrong, in words that say what to do next. Exit code 1: refused or failed; 2: the command was not understood. */
export class CliError extends Error {
  override name = 'CliError';
  readonly exitCode: 1 | 2;
  readonly next: string | undefined;

  constructor(message: string, { next, exitCode = 1 }: { next?: string; exitCode?: 1 | 2 } = {}) {
    super(message);
    this.next = next;
    this.exitCode = exitCode;
  }
}

export function usage(message: string, next?: string): CliError {
  return new CliError(message, { exitCode: 2, ...(next !== undefined && { next }) });
}

/** A fault of a call as the command line tells it; undefined for what is no such fault. */
export function explained(
  fault: unknown,
): { message: string; next?: string; exitCode: number; code?: string; data?: object } | undefined {
  if (fault instanceof CliError) {
    return { message: fault.message, exitCode: fault.exitCode, ...(fault.next !== undefined && { next: fault.next }) };
  }
  if (fault instanceof GatehouseError) {
    const next = nextStep(fault);
    const { message, code, data } = fault;
    return { message, exitCode: 1, code, data, ...(next !== undefined && { next }) };
  }
  if (fault instanceof NotAnsweredError) {
    return { message: fault.message, exitCode: 1, next: `gatehouse agent get ${fault.id} --wait` };
  }
  if (fault instanceof NoAnswerError) {
    return {
      message: fault.message,
      exitCode: 1,
      next: 'is the gateway running, and is its URL right? See: gatehouse me',
    };
  }
  if (fault instanceof KeyChangedError || fault instanceof SealError) return { message: fault.message, exitCode: 1 };
  return undefined;
}

function nextStep({ code, status, data }: GatehouseError): string | undefined {
  if (data.quota === true) return 'gatehouse org usage shows the plan; repeating it does not help';
  switch (code) {
    case 'unauthenticated':
      return 'log in again: gatehouse login <url> <code>';
    case 'envelope_signature_invalid':
      return "is this machine's clock right? If its keys were replaced elsewhere: gatehouse keys rotate";
    case 'sender_mismatch':
      return 'announce it first: gatehouse agent listen <name> --run …, or leave --from out';
    case 'address_not_found':
      return 'gatehouse agent ls shows the agents that you reach; another company needs a link: gatehouse link ls';
    case 'session_closed':
      return 'write to <agent>#new, or follow up with --thread';
    case 'rate_limited':
      return 'try again in a minute';
    default:
      return status >= 500 ? 'try again; the same id is never delivered twice' : undefined;
  }
}
