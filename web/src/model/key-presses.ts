/** Keys that do something: single ones, and pairs such as `g d`. */

const PAIR_MS = 1000;

/** The first key of a pair that was pressed at a time (milliseconds). */
export interface PendingKey {
  readonly key: string;
  readonly time: number;
}

/** The name of what was pressed, if `names` has it, and the key that waits for a second one. */
export interface KeyPress {
  readonly name: string | undefined;
  readonly pending: PendingKey | undefined;
}

/** Returns what a key means after a pending one. A pair has to be pressed within a second. */
export function pressKey(names: ReadonlySet<string>, pending: PendingKey | undefined, key: string, time: number): KeyPress {
  const pair = pending && time - pending.time < PAIR_MS ? `${pending.key} ${key}` : "";
  if (pair && names.has(pair)) return { name: pair, pending: undefined };
  const begins = [...names].some((name) => name.startsWith(`${key} `));
  if (begins) return { name: undefined, pending: { key, time } };
  return { name: names.has(key) ? key : undefined, pending: undefined };
}
