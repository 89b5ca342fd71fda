import { expect, test } from "vitest";
import type { ConflictDocument } from "../src/api/schema";
import { conflictRows, undecided } from "../src/model/conflicts";
import { parseDecisions } from "../src/model/decisions";

const conflict = (path: string) => ({ path, base: null, source: null, destination: null }) as ConflictDocument;
const CONFLICTS = ["a/1", "a/2", "a/b/3", "c"].map(conflict);

test("each conflict stands under its folder", () => {
  const rows = conflictRows(CONFLICTS).map((row) => (row.kind === "folder" ? `${row.path} ${row.number}` : row.path));
  expect(rows).toEqual(["a/ 2", "a/1", "a/2", "a/b/ 1", "a/b/3", "c"]);
});

test("what is not loaded counts as undecided, unless all conflicts are decided at once", () => {
  expect(undecided(CONFLICTS, 10, parseDecisions("s:a/"))).toBe(7);
  expect(undecided(CONFLICTS, 4, parseDecisions("s:a/,d:c"))).toBe(0);
  expect(undecided(CONFLICTS, 10, parseDecisions("d:"))).toBe(0);
});
