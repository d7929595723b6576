/**
 * THE table of actions (confer.md "Modelo de permisos"). L1 runs unasked, L2 goes by the owner's rules, L3 is asked every time. An action is
 * `kind` or `kind:what`, `ask:technical:modbus`.
 */
export type Level = 'L1' | 'L2' | 'L3';

interface Kind {
  readonly level: Level;
  /** What it brings about, told to the owner. */
  readonly effect: string;
}

// biome-ignore format: a table
export const actions = {
  read_own:          { level: 'L1', effect: 'The agent reads what is its own' },
  cite_own_docs:     { level: 'L1', effect: 'The agent cites its own documents' },
  query:             { level: 'L1', effect: 'A question without effects and without shared data' },
  ask:               { level: 'L2', effect: 'The agent answers a question, at your cost' },
  connect:           { level: 'L2', effect: 'The peer becomes a contact and may ask your agents' },
  read:              { level: 'L2', effect: 'A file or folder is shared' },
  share:             { level: 'L2', effect: 'Data is shared' },
  show_conversation: { level: 'L2', effect: 'A conversation of yours is shown' },
  send:              { level: 'L2', effect: 'Data leaves for another instance' },
  use_tool:          { level: 'L2', effect: 'A tool is used for the first time' },
  accept_invite:     { level: 'L3', effect: 'An invitation is accepted in your name' },
  payment:           { level: 'L3', effect: 'Money is paid in your name' },
  sign_contract:     { level: 'L3', effect: 'Something is signed in your name' },
  delete:            { level: 'L3', effect: 'Something is deleted and cannot be brought back' },
  transfer:          { level: 'L3', effect: 'Something is handed over and cannot be taken back' },
  commit:            { level: 'L3', effect: 'You are bound to something' },
} as const satisfies Record<string, Kind>;

/** Milliseconds between an L3 request and the first decision that counts: against a click by mistake, and by a program. */
export const countdownMs = 10_000;

export const maxAction = 300;

/** `kind`, or `kind:what` of printable characters. */
export function isAction(text: string): boolean {
  return text.length <= maxAction && /^[a-z][a-z_]{0,39}(:[^\p{C}]+)?$/u.test(text);
}

/** An unknown kind is L2; one that begins like an L3 kind (`delete_all`) is L3, so that no spelling goes round the question. */
export function levelOf(action: string): Level {
  const kind = kindOf(action);
  if (Object.entries(actions).some(([name, { level }]) => level === 'L3' && kind.startsWith(name))) return 'L3';
  return known(kind)?.level ?? 'L2';
}

/** What the owner is told that the action would bring about; empty for what is not L3. */
export function effectsOf(action: string): string[] {
  if (levelOf(action) !== 'L3') return [];
  const kind = kindOf(action);
  const row = known(kind) ?? Object.entries(actions).find(([name]) => kind.startsWith(name))?.[1];
  const what = action.slice(kind.length + 1);
  return [what === '' ? row!.effect : `${row!.effect}: ${what}`];
}

export function kindOf(action: string): string {
  const colon = action.indexOf(':');
  return colon < 0 ? action : action.slice(0, colon);
}

function known(kind: string): Kind | undefined {
  return Object.hasOwn(actions, kind) ? actions[kind as keyof typeof actions] : undefined;
}
