/** The lines of "Use it". `tests/filesystem/test_use_it.py` runs those in `use-it.json`; `UPDATE=1 npx vitest run tests/use-it.test.ts` writes it again. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { lakeSetting, type Place, putLines, quote, quoteShell, recipesOf } from "../src/model/use-it";

const LINES = join(import.meta.dirname, "use-it.json");
const HARD = 'it\'s a "quote", $(id) `id` 100% %2F #1? ünï\u202e[x]*?{y}::z\\n\n';

const PATHS = ["part", HARD].flatMap((name) =>
  ["parquet", "csv", "tsv", "ndjson", "arrow", "json", "txt", "bin"].map((extension) => `data/${name}.${extension}`),
);

const PLACES: readonly Place[] = [
  ...PATHS.map((path): Place => ({ repository: "sales", ref: "main", path, kind: "object" })),
  { repository: "sales", ref: "release/1%", path: "data/part.csv", kind: "object" },
  { repository: "sales", ref: "main~0", path: "data/part.parquet", kind: "object" },
  { repository: "sales", ref: "main", path: "tables/", kind: "folder" },
  { repository: "sales", ref: "main", path: `${HARD}/`, kind: "folder" },
  { repository: "sales", ref: "main", path: "", kind: "ref" },
  { repository: "sales", ref: "release/1%", path: "", kind: "ref" },
];

describe("lines", () => {
  test("are those that the tests of Python run", () => {
    const lines = PLACES.map((place) => ({ ...place, recipes: recipesOf(place) }));
    const puts = putLines({ repository: "sales", ref: "main", path: `new/${HARD}/` });
    const text = `${JSON.stringify({ places: lines, puts }, null, 1)}\n`;
    if (process.env.UPDATE) writeFileSync(LINES, text);
    expect(text).toBe(readFileSync(LINES, "utf8"));
  });

  test("show every mark that changes the direction of a text", () => {
    for (const place of PLACES) {
      for (const { lines } of recipesOf(place)) expect(lines).not.toMatch(/[\u202a-\u202e\u2066-\u2069\u0000-\u0009]/);
    }
  });

  test("name the lake behind the page", () => {
    expect(lakeSetting("https://lake.example.org/a")).toBe("export GRAVELER_LAKE=https://lake.example.org/a");
  });
});

test.each([
  ["a b", '"a b"', "'a b'"],
  ["it's", '"it\'s"', "'it'\\''s'"],
  ['"', '"\\""', "'\"'"],
  ["\n", '"\\n"', "$'\\n'"],
  ["$HOME", '"$HOME"', "'$HOME'"],
  ["\u202e", '"\\u202e"', "$'\\u202e'"],
  ["", '""', "''"],
  ["-r", '"-r"', "-r"],
])("%j is quoted for Python and a shell", (text, python, shell) => {
  expect([quote(text), quoteShell(text)]).toEqual([python, shell]);
});
