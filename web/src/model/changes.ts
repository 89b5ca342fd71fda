/** What a difference amounts to, in numbers and in rows. */
import type { Diff, Totals } from "../api/schema";
import { count, folders, nameIn } from "./text";

/** The kinds of a change, with the sign that stands for each. */
export const SIGNS = { added: "+", removed: "−", changed: "~", conflict: "!" } as const;

export type Kind = keyof typeof SIGNS;

/** Totals of no difference at all. */
export const NO_CHANGE: Totals = {
  added: 0,
  added_bytes: 0,
  removed: 0,
  removed_bytes: 0,
  changed: 0,
  changed_bytes_before: 0,
  changed_bytes_after: 0,
};

/** A number of objects of one kind, as text with its sign: `+3`, `−1`, `~25`. */
export interface Mark {
  readonly kind: Kind;
  readonly number: number;
  readonly text: string;
}

/** Returns the numbers of totals that are not zero. */
export function marks(totals: Totals): readonly Mark[] {
  return (["added", "removed", "changed"] as const)
    .map((kind) => ({ kind, number: totals[kind], text: `${SIGNS[kind]}${count(totals[kind])}` }))
    .filter(({ number }) => number > 0);
}

/** Returns the number of objects that totals count. */
export function changedObjects(totals: Totals): number {
  return marks(totals).reduce((sum, { number }) => sum + number, 0);
}

/** Returns the bytes by which a change makes everything larger; negative if smaller. */
export function growth(totals: Totals): number {
  return totals.added_bytes - totals.removed_bytes + totals.changed_bytes_after - totals.changed_bytes_before;
}

/** Returns the shares (0 to 1) of a bar's length for each kind, where `most` objects fill the bar. */
export function shares(totals: Totals, most: number): readonly (readonly [kind: Kind, share: number])[] {
  return marks(totals).map(({ kind, number }) => [kind, most > 0 ? number / most : 0]);
}

/** A folder's differences, as far as they are loaded. `next` is set while there are more. */
export interface Level {
  readonly entries: readonly Diff[];
  readonly next: string | undefined;
  readonly pending: boolean;
  readonly error: unknown;
  /** Totals of all that is in it, and of the folders in it by path; `null` until they have come. */
  readonly sums: { readonly total: Totals; readonly folders: ReadonlyMap<string, Totals> } | null;
  readonly sumsError: unknown;
}

/** A folder of which nothing is loaded yet. */
export const UNLOADED: Level = {
  entries: [],
  next: "",
  pending: true,
  error: undefined,
  sums: null,
  sumsError: undefined,
};

/** A row of the tree of differences. */
export type TreeRow =
  | {
      readonly kind: "folder";
      readonly depth: number;
      readonly path: string;
      readonly name: string;
      readonly open: boolean;
      readonly level: Level;
    }
  | { readonly kind: "object"; readonly depth: number; readonly path: string; readonly name: string; readonly entry: Diff }
  | { readonly kind: "more" | "waiting"; readonly depth: number; readonly path: string }
  | { readonly kind: "failure"; readonly depth: number; readonly path: string; readonly error: unknown };

/** Returns a level with a page of its entries more. */
export function withPage(level: Level, entries: readonly Diff[], next: string | undefined): Level {
  return { ...level, entries: [...level.entries, ...entries], next, pending: false, error: undefined };
}

/** Returns the sizes of an object before and after, in bytes; `undefined` where there is no object, or its size is not known. */
export function sizesOf({ type, size_bytes, left }: Diff): readonly [before: number | undefined, after: number | undefined] {
  if (type === "removed") return [left?.size_bytes ?? (size_bytes || undefined), undefined];
  return [left?.size_bytes, size_bytes];
}

/** Returns the rows of a tree whose folders are in `levels`, below `prefix`. Only folders in `open` show what is in them. */
export function treeRows(
  levels: ReadonlyMap<string, Level>,
  open: ReadonlySet<string>,
  prefix: string,
  depth = 0,
): readonly TreeRow[] {
  const level = levels.get(prefix);
  if (!level) return [{ kind: "waiting", depth, path: prefix }];
  const rows = level.entries.flatMap((entry): readonly TreeRow[] => {
    const { path } = entry;
    const name = nameIn(path, prefix);
    if (entry.path_type !== "common_prefix") return [{ kind: "object", depth, path, name, entry }];
    const isOpen = open.has(path);
    const folder: TreeRow = { kind: "folder", depth, path, name, open: isOpen, level };
    return isOpen ? [folder, ...treeRows(levels, open, path, depth + 1)] : [folder];
  });
  if (level.error !== undefined) return [...rows, { kind: "failure", depth, path: prefix, error: level.error }];
  if (level.pending) return [...rows, { kind: "waiting", depth, path: prefix }];
  return level.next === undefined ? rows : [...rows, { kind: "more", depth, path: prefix }];
}

/** Returns the folders to open so that `file` is seen below `prefix`. */
export function foldersTo(file: string, prefix: string): readonly string[] {
  return file.startsWith(prefix)
    ? folders(file)
        .map(([, path]) => path)
        .filter((path) => path.length > prefix.length)
    : [];
}

/** Returns whether a path is one whose rows `graveler diff --rows` compares. */
export function isTable(path: string): boolean {
  return /\.(csv|tsv|parquet|json|jsonl|ndjson)(\.gz|\.zst)?$/i.test(path);
}

/** Returns a word for a POSIX shell, in quotes where it needs them. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./~-]+$/.test(word) && !word.startsWith("~") ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Returns the command that compares the rows of a table between two refs, by keys or as whole rows. */
export function rowsCommand(
  repository: string,
  left: string,
  right: string,
  path: string,
  keys: readonly string[] = [],
): string {
  const named = keys.map((key) => ` --key ${shellWord(key)}`).join("");
  return `graveler diff --rows ${shellWord(path)}${named} ${shellWord(`lakefs://${repository}/${left}..${right}`)}`;
}
