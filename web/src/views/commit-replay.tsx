/** What reverting and cherry-picking ask alike: the parent of a merge, and what happens where the branch has changed the same objects. */

import { ApiError } from "../api/errors";
import type { Commit, Merge } from "../api/schema";

/** A choice for each merge: one of its parents, as the field `parent` and the commit's ID. */
export function ParentChoice({ commit, title }: { readonly commit: Commit; readonly title: string }) {
  if (commit.parents.length < 2) return null;
  return (
    <label>
      {title}
      <select name={`parent ${commit.id}`}>
        {commit.parents.map((id, index) => (
          <option key={id} value={index + 1}>
            parent {index + 1}, {id.slice(0, 7)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Returns the number of the parent that was chosen for a commit; 0 for one that is no merge. */
export function chosenParent(fields: FormData, commit: Commit): number {
  return Number(fields.get(`parent ${commit.id}`) ?? 0);
}

interface ConflictChoiceProps {
  /** Why the last attempt failed. */
  readonly error: unknown;
  readonly branch: string;
  /** Names what comes from the commit. */
  readonly source: string;
}

/** After an attempt that met conflicts: which side the next one takes, as the field `strategy`. */
export function ConflictChoice({ error, branch, source }: ConflictChoiceProps) {
  if (!(error instanceof ApiError) || error.code !== "merge_conflict") return null;
  return (
    <label>
      Both changed the same objects. For these
      <select name="strategy" required>
        <option value="">choose a side</option>
        <option value="source-wins">take {source}</option>
        <option value="dest-wins">keep what is on {branch}</option>
      </select>
    </label>
  );
}

/** Returns the side that was chosen, if one was. */
export function chosenStrategy(fields: FormData): { readonly strategy?: NonNullable<Merge["strategy"]> } {
  const strategy = fields.get("strategy");
  return strategy === "source-wins" || strategy === "dest-wins" ? { strategy } : {};
}
