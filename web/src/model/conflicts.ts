/** Conflicts of a merge by folder, with what was decided for them. */
import type { ConflictDocument } from "../api/schema";
import { type Decisions, decisionFor } from "./decisions";
import { folders } from "./text";

/** A row of a list of conflicts: a folder with the number of those directly in it that are loaded, or one conflict. */
export type ConflictRow =
  | { readonly kind: "folder"; readonly path: string; readonly number: number }
  | { readonly kind: "conflict"; readonly path: string; readonly conflict: ConflictDocument };

/** Returns the rows for conflicts in the order of their paths: each under a row for its folder; those outside of folders stand alone. */
export function conflictRows(conflicts: readonly ConflictDocument[]): readonly ConflictRow[] {
  const rows: ConflictRow[] = [];
  const numbers = new Map<string, number>();
  for (const { path } of conflicts) numbers.set(folderOf(path), (numbers.get(folderOf(path)) ?? 0) + 1);
  let current = "";
  for (const conflict of conflicts) {
    const folder = folderOf(conflict.path);
    if (folder && folder !== current) rows.push({ kind: "folder", path: folder, number: numbers.get(folder) ?? 0 });
    current = folder;
    rows.push({ kind: "conflict", path: conflict.path, conflict });
  }
  return rows;
}

/** Returns how many of `total` conflicts are not decided; those that are not loaded count as decided only if everything is. */
export function undecided(conflicts: readonly ConflictDocument[], total: number, decisions: Decisions): number {
  if (decisions.has("")) return 0;
  const loaded = conflicts.filter(({ path }) => !decisionFor(decisions, path)).length;
  return loaded + Math.max(0, total - conflicts.length);
}

function folderOf(path: string): string {
  return folders(path).at(-1)?.[1] ?? "";
}
