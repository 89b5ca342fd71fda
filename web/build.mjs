/**
 * Builds the page into `package/graveler_page`. With `--compare` it builds elsewhere and fails unless that is what is committed.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "vite";

const PACKAGE = join(import.meta.dirname, "package/graveler_page");

/** Returns the names of the built files in a folder, with their bytes. */
function built(folder) {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => /^index\.html$|^assets\/.+/.test(name));
  return new Map(names.sort().map((name) => [name, readFileSync(join(folder, name))]));
}

if (process.argv.includes("--compare")) {
  const folder = mkdtempSync(join(tmpdir(), "graveler-page-"));
  try {
    await build({ root: import.meta.dirname, logLevel: "error", build: { outDir: folder } });
    const [fresh, committed] = [built(folder), built(PACKAGE)];
    const names = new Set([...fresh.keys(), ...committed.keys()]);
    const differing = [...names].filter((name) => !fresh.get(name)?.equals(committed.get(name) ?? Buffer.alloc(0)));
    if (differing.length) {
      process.stderr.write(`web/package/graveler_page is not what web/src builds; run \`make web\` and commit it: ${differing.join(", ")}\n`);
      process.exitCode = 1;
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
} else {
  rmSync(join(PACKAGE, "assets"), { recursive: true, force: true });
  await build({ root: import.meta.dirname, logLevel: "warn" });
}
