/** Budgets of the built files, compressed as a server sends them. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";

const BUILT = join(import.meta.dirname, "../package/graveler_page");
const KB = 1000;
const FIRST_SCREEN = 60 * KB;
const SECTION = 15 * KB;
const EVERYTHING = 350 * KB;
/** Chunks that carry a library, by the beginning of their names. */
const LIBRARIES: Readonly<Record<string, number>> = { parquet: 30 * KB, markdown: 28 * KB, brotli: 70 * KB };

const compressed = (name: string) => gzipSync(readFileSync(join(BUILT, name)), { level: 9 }).length;
const assets = readdirSync(join(BUILT, "assets")).map((name) => `assets/${name}`);
const shell = readFileSync(join(BUILT, "index.html"), "utf8");
const first = assets.filter((name) => shell.includes(name));

test("the shell has at most 2 KB", () => expect(shell.length).toBeLessThanOrEqual(2 * KB));

test("the first screen fits into its budget", () => {
  expect(first.length).toBeGreaterThanOrEqual(2);
  expect(first.reduce((sum, name) => sum + compressed(name), compressed("index.html"))).toBeLessThanOrEqual(FIRST_SCREEN);
});

test.each(assets.filter((name) => !first.includes(name)))("%s fits into its budget", (name) => {
  const library = Object.entries(LIBRARIES).find(([start]) => name.startsWith(`assets/${start}`));
  expect(compressed(name)).toBeLessThanOrEqual(library?.[1] ?? SECTION);
});

test("everything fits into its budget", () => {
  expect(assets.reduce((sum, name) => sum + compressed(name), 0)).toBeLessThanOrEqual(EVERYTHING);
});
