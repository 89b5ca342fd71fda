import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { rowsCommand } from "../src/model/changes";
import { codeCsv } from "../src/model/csv-rows";
import { compareRows, type RowDifference } from "../src/model/row-difference";
import { rowFormat, tooManyBytes } from "../src/model/row-limits";
import { formatKeys, parseKeys, showDifference } from "../src/model/row-view";
import { codeParquet } from "../src/views/parquet-rows";

const TITLES = ["Before", "After"] as const;
const utf8 = (text: string) => new TextEncoder().encode(text);
const csv = (before: string, after: string) => codeCsv([utf8(before), utf8(after)], "a.csv", TITLES);

describe("keys in an address", () => {
  test.each([[["id"]], [["a,b", "c d", "ä"]], [["%41"]]])("%j come back", (keys) =>
    expect(parseKeys(formatKeys(keys))).toEqual(keys),
  );
  test("may be none, which is no proposal", () => {
    expect(formatKeys([])).toBe(",");
    expect(parseKeys(",")).toEqual([]);
    expect(parseKeys("")).toBeUndefined();
  });
  test("are words of the command", () => {
    const command = rowsCommand("sales", "a1", "b2", "t/a b.csv", ["id", "x y"]);
    expect(command).toBe("graveler diff --rows 't/a b.csv' --key id --key 'x y' lakefs://sales/a1..b2");
  });
});

test("what is shown begins with keys and the columns that changed", () => {
  const tables = csv("id,a,b\n1,x,1\n2,x,2\n", "id,a,b,c\n1,x,9,\n3,,3,4\n");
  const keys = tables.columns.filter(({ name }) => name === "id");
  const shown = showDifference(tables, keys, compareRows(tables, keys) as RowDifference);
  expect(shown).toEqual({
    counts: { removed: 1, changed: 1, added: 1 },
    columns: [
      { name: "id", key: true, changes: 0 },
      { name: "b", key: false, changes: 1 },
      { name: "a", key: false, changes: 0 },
      { name: "c", key: false, changes: 0 },
    ],
    hidden: 0,
    rows: [
      { kind: "removed", cells: [{ text: "2" }, { text: "2" }, { text: "x" }, { text: null }] },
      { kind: "changed", cells: [{ text: "1" }, { text: "9", before: "1" }, { text: "x" }, { text: null }] },
      { kind: "added", cells: [{ text: "3" }, { text: "3" }, { text: null }, { text: "4" }] },
    ],
  });
});

test("tables are known by their names, and limited by their bytes", () => {
  expect(["a.parquet", "b/a.CSV", "a.tsv", "a.json", "csv", "a.csv.gz"].map(rowFormat)).toEqual([
    "parquet",
    "csv",
    "csv",
    undefined,
    undefined,
    undefined,
  ]);
  expect(tooManyBytes([1, 64 << 20])).toBeUndefined();
  expect(tooManyBytes([(64 << 20) + 1, 1])).toBe("64.0 MiB on one side; the page compares rows of up to 64.0 MiB a side.");
});

describe("what cannot be compared has a sentence with the side", () => {
  test.each([
    ["id,a\n1\n", "id\n", "Before: line 2 has 1 value, and the first one names 2 columns."],
    ["id\n", 'id\n"1', "After: line 2 has a quote that is not closed."],
    ["id\n", `id\n${"1\n".repeat(500_001)}`, "After: more than 500,000 rows on one side; the page compares no more."],
  ])("%#", (before, after, sentence) => expect(() => csv(before, after)).toThrow(sentence));

  test("of no UTF-8", () => {
    expect(() => codeCsv([utf8("id\n"), Uint8Array.of(0x69, 0x0a, 0xff)], "a.csv", TITLES)).toThrow("After: it is not UTF-8.");
  });

  const fixture = (name: string) => {
    const file = new Uint8Array(readFileSync(join(import.meta.dirname, `fixtures/${name}.parquet`)));
    return file.slice().buffer;
  };
  const compare = (before: ArrayBuffer, after: ArrayBuffer) => codeParquet([before, after], TITLES, () => undefined);

  test("of a file that is damaged or encrypted", async () => {
    const whole = fixture("gzip");
    await expect(compare(whole, whole.slice(0, 100))).rejects.toThrow("After: This is no whole Parquet file");
    const damaged = fixture("gzip");
    new Uint8Array(damaged).fill(0xff, 4, 30);
    await expect(compare(damaged, whole)).rejects.toThrow('Before, the column "id": ');
    const encrypted = whole.slice(0);
    new Uint8Array(encrypted).set(utf8("PARE"), encrypted.byteLength - 4);
    await expect(compare(whole, encrypted)).rejects.toThrow("After: This Parquet file has an encrypted footer");
  });

  test("of any byte that is another one", async () => {
    const whole = fixture("snappy");
    for (let place = 0; place < whole.byteLength; place += 1) {
      const file = whole.slice(0);
      new Uint8Array(file)[place] = (new Uint8Array(whole)[place] as number) ^ 0x41;
      const result = await compare(whole, file).catch((error: unknown) => error);
      if (result instanceof Error) expect(result.message).toMatch(/^(After|Before|the column)/);
    }
  });

  test("files of every codec are equal to themselves", async () => {
    for (const name of ["zstd", "gzip", "snappy", "brotli", "lz4", "brotli-words", "int96"]) {
      const tables = await compare(fixture(name), fixture(name));
      expect(compareRows(tables, [])).toEqual({ removed: [], changed: [], added: [] });
    }
  });
});
