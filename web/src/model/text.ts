/** Numbers, sizes, times and names as the page writes them. */

const NUMBER = new Intl.NumberFormat("en", { useGrouping: true });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] as const;

/** Returns a whole number with separators, such as `1,204`. */
export function count(value: number): string {
  return NUMBER.format(value);
}

/** Returns a number with its noun, such as `1 folder` and `4 folders`. */
export function counted(value: number, noun: string, plural = `${noun}s`): string {
  return `${count(value)} ${value === 1 ? noun : plural}`;
}

/** Returns a size in bytes with three digits and its unit, such as `4.10 MiB`; the sign of a negative one is `−`. */
export function size(bytes: number): string {
  const sign = bytes < 0 ? "−" : "";
  let value = Math.abs(bytes);
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 ? 0 : value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${sign}${value.toFixed(digits)} ${UNITS[unit]}`;
}

/** Returns a change of a size, with its sign: `+4.10 MiB`, `−12 KiB`, `0 B`. */
export function sizeChange(bytes: number): string {
  return bytes > 0 ? `+${size(bytes)}` : size(bytes);
}

const STEPS: readonly (readonly [seconds: number, unit: string])[] = [
  [60, "s"],
  [60, "min"],
  [24, "h"],
  [7, "d"],
  [5, "wk"],
];

/** Returns how long ago a time (Unix seconds) is, in one unit: `12 min`, `3 h`; from five weeks on the date. */
export function ago(time: number, now: number): string {
  const seconds = now - time;
  if (seconds < -60) return date(time);
  if (seconds < 5) return "now";
  let value = seconds;
  for (const [most, unit] of STEPS) {
    if (value < most) return `${Math.floor(value)} ${unit}`;
    value /= most;
  }
  return date(time);
}

/** Formats by whether they are in UTC; making one takes longer than using it a hundred times. */
const formats = (options: Intl.DateTimeFormatOptions) =>
  [new Intl.DateTimeFormat("en-GB", options), new Intl.DateTimeFormat("en-GB", { ...options, timeZone: "UTC" })] as const;
const DAYS = formats({ day: "numeric", month: "short", year: "numeric" });
const TIMES = formats({ dateStyle: "medium", timeStyle: "long" });

/** Returns how long ago a time (Unix seconds) is, for a sentence: `3 h ago`, `now`, `on 3 Nov 2026`. */
export function agoInWords(time: number, now: number): string {
  const words = ago(time, now);
  if (words === "now") return words;
  return /^\d+ [a-z]+$/.test(words) ? `${words} ago` : `on ${words}`;
}

/** Returns a day, such as `3 Nov 2026`, in the reader's zone or in UTC. */
export function date(time: number, utc = false): string {
  return DAYS[utc ? 1 : 0].format(time * 1000);
}

/** Returns the exact time with its zone, such as `3 Nov 2026, 12:00:05 GMT+1`. */
export function exactTime(time: number, utc = false): string {
  return TIMES[utc ? 1 : 0].format(time * 1000);
}

/** Returns whether text is a day such as `2026-11-03`. */
export function isDay(text: string): boolean {
  return /^\d{4}-\d\d-\d\d$/.test(text);
}

/** Returns the time at which a day begins, in the reader's zone or in UTC, as the API takes it; any other text stays as it is. */
export function startOf(day: string, utc = false): string {
  return isDay(day) ? new Date(`${day}T00:00${utc ? "Z" : ""}`).toISOString() : day;
}

/** Returns the first digits of an ID: 7, or 12 where there is room. */
export function shortId(id: string, digits = 7): string {
  return id.slice(0, digits);
}

/** Returns the first line of a commit message. */
export function subject(message: string): string {
  return message.split("\n", 1)[0] ?? "";
}

const CONTROL = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu;

/** Returns a name with control characters and direction marks made visible: `␊`, `⟨U+202E⟩`. Shown only; links keep the name. */
export function visible(name: string): string {
  return name.replace(CONTROL, (character) => {
    const code = character.codePointAt(0) ?? 0;
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return code === 0x7f ? "␡" : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** Returns a name of at most `most` characters, its middle left out and its end visible. */
export function shortened(name: string, most: number): string {
  // A character has one or two units, so this is enough of a long name to cut it between characters.
  const part = (start: number, end?: number) => Array.from(name.length > 2 * most ? name.slice(start, end) : name);
  const beginning = part(0, 2 * most);
  if (beginning.length <= most && name.length <= 2 * most) return name;
  const end = Math.max(8, Math.floor(most / 2));
  return `${beginning.slice(0, most - end - 1).join("")}…${part(-2 * most)
    .slice(-end)
    .join("")}`;
}

/** Returns the part of a path after a prefix: a folder's own name in its listing, with its slash. */
export function nameIn(path: string, prefix: string): string {
  return path.startsWith(prefix) ? path.slice(prefix.length) : path;
}

/** Returns the folders above a path as `[name, path]` pairs, the outermost first: `a/b/c` has `a/` and `a/b/`. Empty names stay. */
export function folders(path: string): (readonly [name: string, path: string])[] {
  const pairs: (readonly [string, string])[] = [];
  for (let start = 0, slash = path.indexOf("/"); slash >= 0; start = slash + 1, slash = path.indexOf("/", start)) {
    pairs.push([path.slice(start, slash + 1), path.slice(0, slash + 1)]);
  }
  return pairs;
}

/** Compares paths as the lake does: by the bytes of their UTF-8, which is the order of their code points. */
export function comparePaths(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  for (let place = 0; place < length; place += 1) {
    const [one, other] = [left.charCodeAt(place), right.charCodeAt(place)];
    if (one !== other) return codePointRank(one) - codePointRank(other);
  }
  return left.length - right.length;
}

/** Surrogates, which stand for code points beyond U+FFFF, come after all other units. */
function codePointRank(unit: number): number {
  return unit >= 0xd800 && unit < 0xe000 ? unit + 0x10000 : unit;
}
