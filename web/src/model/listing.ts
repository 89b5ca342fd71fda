/** A folder's rows: entries in the order of their keys, with the marks of uncommitted changes, sorted on demand. */
import { comparePaths, nameIn } from "./text";

/** Up to how many entries the page sorts; longer folders stay in the order of their keys. */
export const MOST_SORTED = 10_000;

/** How many objects were added, changed and removed without being committed. */
export interface Marks {
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
}

/** A row of a folder: an object, or a folder that stands for all objects whose paths begin with its own. */
export interface Entry {
  readonly path: string;
  readonly name: string;
  readonly folder: boolean;
  /** Names an object's contents; empty for folders. */
  readonly checksum: string;
  /** Bytes; undefined while a folder's are being counted. */
  readonly size: number | undefined;
  /** Number of objects of a folder; undefined for objects, and while it is being counted. */
  readonly objects: number | undefined;
  /** Unix seconds of the last write; 0 for folders. */
  readonly written: number;
  readonly marks: Marks | undefined;
}

/** An object or common prefix as `objects/ls` lists it. */
export interface Listed {
  readonly path: string;
  readonly path_type?: string;
  readonly size_bytes?: number;
  readonly mtime?: number;
  readonly checksum?: string;
}

/** Number and bytes of the objects below one folder. */
export interface Counted {
  readonly objects: number;
  readonly size_bytes: number;
}

/** What is known beside the listing, by path. */
export interface Known {
  readonly counts: ReadonlyMap<string, Counted>;
  readonly marks: ReadonlyMap<string, Marks>;
}

/**
 * Returns the rows of listed entries, which are in the order of their keys. Entries that only the marks name were removed; they are put where
 * they were, unless that is after the last listed one of a listing that is not `complete`, or before `after`.
 */
export function rowsOf(
  listed: readonly Listed[],
  prefix: string,
  known: Known,
  span: { readonly complete: boolean; readonly after: string },
): Entry[] {
  const rows = listed.map((entry) => entryOf(entry, prefix, known));
  const present = new Set(listed.map((entry) => entry.path));
  const last = listed.at(-1)?.path;
  const removed = [...known.marks.keys()].filter(
    (path) =>
      !present.has(path) &&
      path.startsWith(prefix) &&
      path !== prefix &&
      (!span.after || comparePaths(path, span.after) >= 0) &&
      (span.complete || (last !== undefined && comparePaths(path, last) < 0)),
  );
  if (!removed.length) return rows;
  const gone = removed.map((path) =>
    entryOf({ path, path_type: path.endsWith("/") ? "common_prefix" : "object" }, prefix, known),
  );
  return [...rows, ...gone].sort((left, right) => comparePaths(left.path, right.path));
}

function entryOf(listed: Listed, prefix: string, known: Known): Entry {
  const folder = listed.path_type === "common_prefix";
  const counted = folder ? known.counts.get(listed.path) : undefined;
  return {
    path: listed.path,
    name: nameIn(listed.path, prefix),
    folder,
    checksum: listed.checksum ?? "",
    size: folder ? counted?.size_bytes : listed.size_bytes,
    objects: counted?.objects,
    written: folder ? 0 : (listed.mtime ?? 0),
    marks: known.marks.get(listed.path),
  };
}

/** Returns whether all that is left of an entry is its removal. */
export function isRemoved(entry: Entry): boolean {
  return !entry.folder && (entry.marks?.removed ?? 0) > 0;
}

export type SortColumn = "name" | "size" | "objects" | "written";

export interface Sort {
  readonly by: SortColumn;
  readonly descending: boolean;
}

export const KEY_ORDER: Sort = { by: "name", descending: false };

/** Returns the order that an address names, such as `size,desc`; key order for anything else. */
export function parseSort(text: string): Sort {
  const match = /^(name|size|objects|written)(?:,(asc|desc))?$/.exec(text);
  return match ? { by: match[1] as SortColumn, descending: match[2] === "desc" } : KEY_ORDER;
}

/** Returns an order as an address names it; the empty string for key order. */
export function formatSort(sort: Sort): string {
  return sort.by === "name" && !sort.descending ? "" : `${sort.by},${sort.descending ? "desc" : "asc"}`;
}

/** Returns the order that a click on a column's title asks for: numbers begin with the largest. */
export function nextSort(present: Sort, by: SortColumn): Sort {
  return present.by === by ? { by, descending: !present.descending } : { by, descending: by !== "name" };
}

/** Returns entries in an order. What is not known yet comes last; equal ones stay in the order of their keys. */
export function sorted(entries: readonly Entry[], { by, descending }: Sort): readonly Entry[] {
  if (by === "name") return descending ? [...entries].reverse() : entries;
  const sign = descending ? -1 : 1;
  const value = (entry: Entry): number | undefined => (by === "written" ? entry.written || undefined : entry[by]);
  return [...entries].sort((left, right) => {
    const [one, other] = [value(left), value(right)];
    if (one === undefined || other === undefined) return Number(one === undefined) - Number(other === undefined);
    return (one - other) * sign;
  });
}

/** Differences of a branch's folder by path, from those of objects and the totals of its folders. */
export function marksOf(
  changes: readonly { readonly path: string; readonly type: string; readonly path_type: string }[],
  totals: readonly { readonly path: string; readonly totals: Marks }[],
): Map<string, Marks> {
  const marks = new Map<string, Marks>();
  for (const { path, type, path_type } of changes) {
    if (path_type !== "object") continue;
    marks.set(path, {
      added: Number(type === "added"),
      changed: Number(type === "changed"),
      removed: Number(type === "removed"),
    });
  }
  for (const { path, totals: total } of totals) if (path.endsWith("/")) marks.set(path, total);
  return marks;
}

/** Runs of rows `[first, end)` that contain all of the rows; rows at most `gap` apart share one. */
export function runsOf(rows: readonly number[], gap: number): (readonly [first: number, end: number])[] {
  const runs: [number, number][] = [];
  for (const row of [...rows].sort((left, right) => left - right)) {
    const last = runs.at(-1);
    if (last && row - last[1] <= gap) last[1] = Math.max(last[1], row + 1);
    else runs.push([row, row + 1]);
  }
  return runs;
}

/**
 * Returns a key that comes before `key` with practically nothing between them: a listing after it begins with `key`, or with the first entry
 * behind it.
 */
export function justBefore(key: string): string {
  const characters = Array.from(key);
  const code = characters.pop()?.codePointAt(0);
  if (!code) return characters.join("");
  const previous = code === 0xe000 ? 0xd7ff : code - 1;
  return `${characters.join("")}${String.fromCodePoint(previous)}\u{10ffff}`;
}

/** Returns the path of the folder's README among its entries, if it has one. */
export function readmeIn(entries: readonly Entry[]): string | undefined {
  const readmes = entries.filter((entry) => !entry.folder && !isRemoved(entry) && /^readme\.(md|markdown)$/i.test(entry.name));
  return (readmes.find((entry) => entry.name === "README.md") ?? readmes[0])?.path;
}
