/** The page and `graveler diff --rows` find the same rows: `tests/sql/rowdiff/test_page.py` holds the command to the same outcomes. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { codeCsv } from "../src/model/csv-rows";
import type { CodedTables, Pair } from "../src/model/row-codes";
import { compareRows, type RowDifference } from "../src/model/row-difference";
import { codeParquet } from "../src/views/parquet-rows";

interface Outcome {
  readonly keys: readonly string[];
  readonly counts: Readonly<Record<keyof RowDifference, number>>;
  readonly columns: readonly (readonly [name: string, before: string | null, after: string | null])[];
}

interface TablePair {
  readonly path: string;
  readonly sides: Pair<string>;
  readonly outcomes: readonly Outcome[];
}

const pairs: TablePair[] = JSON.parse(readFileSync(join(import.meta.dirname, "row-differences.json"), "utf8"));
const TITLES = ["Before", "After"] as const;

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(Buffer.from(text, "base64"));
}

async function codesOf({ path, sides }: TablePair): Promise<CodedTables> {
  const [before, after] = [bytesOf(sides[0]), bytesOf(sides[1])];
  return path.endsWith(".csv")
    ? codeCsv([before, after], path, TITLES)
    : codeParquet([before.buffer, after.buffer], TITLES, () => undefined);
}

describe.each(pairs)("$path", (pair) => {
  test.each(pair.outcomes)("by $keys", async ({ keys, counts, columns }) => {
    const tables = await codesOf(pair);
    const named = keys.flatMap((key) => tables.columns.filter(({ name }) => name.toLowerCase() === key));
    const found = compareRows(tables, named) as RowDifference;
    expect({ removed: found.removed.length, changed: found.changed.length, added: found.added.length }).toEqual(counts);
    const changes = tables.columns.filter(({ types }) => types[0] !== types[1]);
    expect(changes.map(({ name, types }) => [name.toLowerCase(), types[0] ?? null, types[1] ?? null])).toEqual(
      columns.map(([name, before, after]) => [name.toLowerCase(), before, after]),
    );
  });
});
