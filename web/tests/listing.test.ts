import { describe, expect, test } from "vitest";
import {
  type Entry,
  formatSort,
  isRemoved,
  justBefore,
  KEY_ORDER,
  type Listed,
  marksOf,
  nextSort,
  parseSort,
  readmeIn,
  rowsOf,
  runsOf,
  sorted,
} from "../src/model/listing";
import { comparePaths } from "../src/model/text";

const object = (path: string, size_bytes = 1): Listed => ({ path, path_type: "object", size_bytes, mtime: 5 });
const folder = (path: string): Listed => ({ path, path_type: "common_prefix" });
const NOTHING = { counts: new Map(), marks: new Map() };
const WHOLE = { complete: true, after: "" };
const names = (rows: readonly Entry[]) => rows.map((row) => row.name);

describe("rows", () => {
  test("a folder's numbers are unknown until they were counted, never 0", () => {
    const listed = [folder("a/b/"), object("a/c", 7)];
    const [before] = rowsOf(listed, "a/", NOTHING, WHOLE);
    expect(before).toMatchObject({ name: "b/", folder: true, size: undefined, objects: undefined });
    const counts = new Map([["a/b/", { objects: 3, size_bytes: 9 }]]);
    const [after, other] = rowsOf(listed, "a/", { counts, marks: new Map() }, WHOLE);
    expect(after).toMatchObject({ size: 9, objects: 3 });
    expect(other).toMatchObject({ name: "c", size: 7, objects: undefined, written: 5 });
  });

  test("removed objects stand where they were", () => {
    const marks = marksOf([{ path: "b", type: "removed", path_type: "object" }], []);
    const rows = rowsOf([object("a"), object("c")], "", { counts: new Map(), marks }, WHOLE);
    expect(names(rows)).toEqual(["a", "b", "c"]);
    expect(rows.map(isRemoved)).toEqual([false, true, false]);
  });

  test("a removed object beyond the loaded ones, before the beginning, or elsewhere is left out", () => {
    const removed = (path: string) => ({ path, type: "removed", path_type: "object" });
    const marks = marksOf([removed("f/b"), removed("f/z"), removed("g/a")], []);
    const rows = rowsOf([object("f/c"), object("f/e")], "f/", { counts: new Map(), marks }, { complete: false, after: "f/c" });
    expect(names(rows)).toEqual(["c", "e"]);
  });

  test("marks of folders are their totals, those of objects their kind", () => {
    const totals = { added: 0, changed: 3, removed: 1 };
    const marks = marksOf(
      [
        { path: "a/", type: "prefix_changed", path_type: "common_prefix" },
        { path: "b", type: "added", path_type: "object" },
      ],
      [
        { path: "", totals },
        { path: "a/", totals },
      ],
    );
    expect([...marks]).toEqual([
      ["b", { added: 1, changed: 0, removed: 0 }],
      ["a/", totals],
    ]);
  });
});

describe("order", () => {
  const rows = rowsOf([object("a", 5), folder("b/"), object("c", 9), object("d", 5)], "", NOTHING, WHOLE);

  test.each([
    ["size,desc", "c a d b/"],
    ["size,asc", "a d c b/"],
    ["name,desc", "d c b/ a"],
    ["", "a b/ c d"],
    ["objects,desc", "a b/ c d"],
  ])("%j is %s", (text, order) => expect(names(sorted(rows, parseSort(text))).join(" ")).toBe(order));

  test.each(["", "size,desc", "objects,asc", "name,desc", "written,desc"])("%j is an address's order", (text) =>
    expect(formatSort(parseSort(text))).toBe(text),
  );

  test.each(["nonsense", "size,up", "__proto__", "size,desc,asc"])("%j is key order", (text) =>
    expect(parseSort(text)).toEqual(KEY_ORDER),
  );

  test("a second click turns the order", () => {
    expect(nextSort(KEY_ORDER, "size")).toEqual({ by: "size", descending: true });
    expect(nextSort({ by: "size", descending: true }, "size")).toEqual({ by: "size", descending: false });
  });

  test("paths are compared by their bytes, as the lake does", () => {
    const paths = ["", "a", "a\u0000", "a/", "aa", "ä", "\u{e000}", "\uffff", "\u{10000}", "\u{10ffff}b"];
    for (const one of paths) {
      for (const other of paths) {
        const bytes = Buffer.compare(Buffer.from(one), Buffer.from(other));
        expect(Math.sign(comparePaths(one, other)), `${one} ${other}`).toBe(bytes);
      }
    }
  });
});

test("runs join rows that are near one another", () => {
  expect(runsOf([9, 0, 1, 3, 30], 2)).toEqual([
    [0, 4],
    [9, 10],
    [30, 31],
  ]);
  expect(runsOf([], 2)).toEqual([]);
});

test.each(["a", "part-0001", "\u{e000}", "x\u{10000}", "day=1/", "a\u0001"])(
  "nothing is between %j and just before it",
  (key) => {
    const before = justBefore(key);
    expect(comparePaths(before, key)).toBeLessThan(0);
    const nearest = `${Array.from(key).slice(0, -1).join("")}zzz`;
    if (comparePaths(nearest, key) < 0) expect(comparePaths(nearest, before)).toBeLessThan(0);
  },
);

test("before the first key is the beginning", () => expect([justBefore(""), justBefore("a\u0000")]).toEqual(["", "a"]));

test("a README is an object of the folder by that name", () => {
  const rows = rowsOf(
    [folder("README.md/"), object("readme.markdown"), object("README.md"), object("x/README.md")],
    "",
    NOTHING,
    WHOLE,
  );
  expect(readmeIn(rows)).toBe("README.md");
  expect(readmeIn(rows.slice(0, 1))).toBeUndefined();
});
