import { describe, expect, test } from "vitest";
import { parseCsv } from "../src/model/csv";

const table = (text: string, whole = true) => {
  const { header, rows } = parseCsv(text, whole);
  return [header, ...rows].map((row) => row.join("¦"));
};

describe("CSV", () => {
  test.each([
    ["a,b\n1,2\n", ["a¦b", "1¦2"]],
    ["a;b\r\n1;2", ["a¦b", "1¦2"]],
    ["a\tb\n1\t2\n", ["a¦b", "1¦2"]],
    ['a,b\n"x, ""y""\nz",2\n', ["a¦b", 'x, "y"\nz¦2']],
    ["\ufeffa,b\n\n1\n", ["a¦b", "1¦"]],
    ['a,b\n"open,2\n', ["a¦b", "open,2\n¦"]],
    ['a,b\n"x" y,2\n3,4\n', ["a¦b", "x y¦2", "3¦4"]],
    ["a,b\n,\n", ["a¦b", "¦"]],
    ["one", ["one"]],
    ["", [""]],
  ])("%j", (text, rows) => expect(table(text)).toEqual(rows));

  test("a row that the end cuts is left out", () => expect(table("a,b\n1,2\n3,", false)).toEqual(["a¦b", "1¦2"]));

  test("one line of ten megabytes has its first columns", () => {
    const wide = parseCsv("x,".repeat(5_000_000), false);
    expect([wide.header.length, wide.columns, wide.more]).toEqual([100, 5_000_001, true]);
    const long = parseCsv("y".repeat(10_000_000), false);
    expect(long.header[0]?.length).toBeLessThan(400);
  });

  test("many rows are cut, and it says so", () => {
    const many = parseCsv("a\n".repeat(5000), true);
    expect([many.rows.length, many.more]).toEqual([1000, true]);
  });

  test("many quotes take linear time", () => expect(parseCsv('"'.repeat(1_000_001), true).header.length).toBe(1));
});
