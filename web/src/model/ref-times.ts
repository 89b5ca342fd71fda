/** Refs that name a branch at an earlier time: `main@{2026-11-01T12:00:00Z}`, `main@{yesterday}`, `main@{3}`. */

/** A branch and the words in its braces: a time, an age, or a number of moves. */
export interface RefTime {
  readonly branch: string;
  readonly words: string;
}

/** Returns the parts of a ref that ends with a time; undefined for any other ref. */
export function parseRefTime(ref: string): RefTime | undefined {
  const match = /^([^@~^{}]+)@\{([^{}]+)\}$/.exec(ref);
  return match?.[1] && match[2] ? { branch: match[1], words: match[2] } : undefined;
}

/** Returns a branch at a time (Unix seconds), as a ref. */
export function formatRefTime(branch: string, time: number): string {
  return `${branch}@{${new Date(time * 1000).toISOString().replace(".000Z", "Z")}}`;
}

/** Returns the time that the words of a ref say, in Unix seconds; undefined for an age or a number of moves. */
export function timeOf(words: string): number | undefined {
  const time = /^\d{4}-\d\d-\d\d/.test(words) ? Date.parse(words) : Number.NaN;
  return Number.isNaN(time) ? undefined : Math.floor(time / 1000);
}

/** Returns a time (Unix seconds) as the value of a field for date and time, in the reader's zone or in UTC. */
export function fieldTime(time: number, utc: boolean): string {
  const shift = utc ? 0 : new Date(time * 1000).getTimezoneOffset() * 60;
  return new Date((time - shift) * 1000).toISOString().slice(0, 16);
}

/** Returns the Unix seconds of a field's value; undefined if it has none. */
export function readFieldTime(value: string, utc: boolean): number | undefined {
  const time = Date.parse(utc ? `${value}Z` : value);
  return Number.isNaN(time) ? undefined : Math.floor(time / 1000);
}
