import { expect, test } from "vitest";
import type { Diff } from "../src/api/schema";
import {
  foldersTo,
  growth,
  type Level,
  marks,
  NO_CHANGE,
  rowsCommand,
  shellWord,
  treeRows,
  UNLOADED,
  withPage,
} from "../src/model/changes";

const entry = (path: string): Diff =>
  ({
    path,
    path_type: path.endsWith("/") ? "common_prefix" : "object",
    type: path.endsWith("/") ? "prefix_changed" : "added",
  }) as Diff;

const level = (paths: readonly string[], rest: Partial<Level> = {}): Level => ({
  ...withPage(UNLOADED, paths.map(entry), undefined),
  ...rest,
});

test("marks leave zeros out, and growth counts both sides of what changed", () => {
  const totals = { ...NO_CHANGE, added: 1204, added_bytes: 10, changed: 2, changed_bytes_before: 100, changed_bytes_after: 40 };
  expect(marks(totals).map(({ text }) => text)).toEqual(["+1,204", "~2"]);
  expect(growth(totals)).toBe(-50);
});

test("rows follow the open folders, with what is still to come at the end of each", () => {
  const levels = new Map([
    ["", level(["a/", "b/", "c.txt"], { next: "c.txt" })],
    ["a/", level(["a/x/", "a/y.txt"], { pending: true })],
  ]);
  const rows = treeRows(levels, new Set(["a/", "a/x/", "elsewhere/"]), "");
  expect(rows.map((row) => `${row.depth} ${row.kind} ${row.path}`)).toEqual([
    "0 folder a/",
    "1 folder a/x/",
    "2 waiting a/x/",
    "1 object a/y.txt",
    "1 waiting a/",
    "0 folder b/",
    "0 object c.txt",
    "0 more ",
  ]);
});

test("an object beside the folder of the same name, and empty names, keep their own rows", () => {
  const rows = treeRows(new Map([["a", level(["a", "a/", "a//"])]]), new Set(), "a");
  expect(rows.map((row) => ("name" in row ? row.name : ""))).toEqual(["", "/", "//"]);
});

test("the folders to a file begin below the prefix", () => {
  expect(foldersTo("a/b/c.txt", "")).toEqual(["a/", "a/b/"]);
  expect(foldersTo("a/b/c.txt", "a/")).toEqual(["a/b/"]);
  expect(foldersTo("x/c.txt", "a/")).toEqual([]);
});

test("commands are safe to paste", () => {
  expect(shellWord("a b")).toBe("'a b'");
  expect(shellWord("it's $(rm)")).toBe("'it'\\''s $(rm)'");
  expect(rowsCommand("sales", "main~1", "main", "raw/a.csv")).toBe(
    "graveler diff --rows raw/a.csv lakefs://sales/main~1..main",
  );
});
