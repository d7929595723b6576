import type { Command } from 'commander';
import { fullAddress } from '../client/index.ts';
import { openSession, seatOfLogin } from './home.ts';
import { command, type JsonOption, print, printable, table } from './output.ts';
import { callOwnerApi } from './owner-api.ts';

interface Answer {
  gate: string;
  asks: string;
  result: string;
  code?: string;
  words?: string;
  rules: string[];
}

interface Explanation {
  from: string;
  to: string;
  action: string;
  outcome: string;
  stopped_by: string | null;
  code: string | null;
  gates: Answer[];
}

/** `gatehouse explain`: why a request would or would not reach an agent of yours. */
export function explainCommand(): Command {
  return command('explain', 'What the gates would make of a request to an agent of yours, and which rule decides')
    .requiredOption('--from <who>', 'a DID, an address, or anyone')
    .requiredOption('--to <agent>', 'the address or DID of an agent of yours')
    .option('--action <action>', 'what it would have the agent do: ask, ask:technical, payment:…', 'ask')
    .action(async (options: JsonOption & { from: string; to: string; action: string }) => {
      const { login } = await openSession();
      const to = options.to.startsWith('did:') ? options.to : fullAddress(options.to, seatOfLogin(login));
      const query = new URLSearchParams({ from: options.from, to, action: options.action });
      const explanation = await callOwnerApi<Explanation>('GET', `/explain?${query}`);
      print(options, explanation, lines(explanation));
    });
}

const marks: Readonly<Record<string, string>> = {
  passes: 'passes',
  waits: 'WAITS',
  refuses: 'REFUSES',
  assumed: 'assumed',
  not_reached: '-',
};
const outcomes: Readonly<Record<string, string>> = {
  delivered: 'would be delivered.',
  pending_approval: 'would be held until its owner decides.',
  pending_connection: 'would wait for its owner to let the sender in.',
  refused: 'would be refused.',
};

function lines({ from, to, action, outcome, stopped_by, code, gates }: Explanation): string[] {
  const rows = gates.map(({ gate, result, asks, code: why, words, rules }) => [
    `  ${gate}`,
    marks[result] ?? result,
    [why && `${why}: ${words ?? 'asks its owner'}`, ...rules]
      .filter(Boolean)
      .map((text) => printable(text!))
      .join(' · ') || asks,
  ]);
  const verdict = outcomes[outcome] ?? outcome;
  return [
    `${action} from ${printable(from)} to ${to} ${verdict}`,
    ...(stopped_by === null ? [] : [`The gate that decides is ${stopped_by} (${code}).`]),
    '',
    ...table(rows),
  ];
}
