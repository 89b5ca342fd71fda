import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

const SOURCE = join(import.meta.dirname, "../src");
const TOKENS = readFileSync(join(SOURCE, "tokens.css"), "utf8");
const LEAST_CONTRAST = 4.5;

const tokens = new Map(
  [...TOKENS.matchAll(/--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);/g)].map(([, name, light, dark]) => [name, [light, dark]]),
);

function luminance(colour: string): number {
  const [red, green, blue] = [1, 3, 5].map((start) => {
    const channel = Number.parseInt(colour.slice(start, start + 2), 16) / 255;
    return channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].sort((left, right) => left - right) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

const INKS = ["ink", "ink-2", "accent", "added", "removed", "changed", "conflict"];
const PAIRS = [
  ...INKS.flatMap((ink) => ["bg", "bg-2"].map((ground) => [ink, ground])),
  ...["added", "removed", "changed", "conflict"].flatMap((ink) => [
    [ink, `${ink}-bg`],
    ["ink", `${ink}-bg`],
  ]),
  ["ink", "note-bg"],
  ["ink-2", "note-bg"],
  ["accent", "note-bg"],
  ["on-accent", "accent"],
] as [string, string][];

describe.each([
  ["light", 0],
  ["dark", 1],
] as const)("contrast, %s", (_, theme) => {
  test.each(PAIRS)("%s on %s", (ink, ground) => {
    const [one, other] = [tokens.get(ink)?.[theme], tokens.get(ground)?.[theme]];
    expect(contrast(one ?? "", other ?? "")).toBeGreaterThanOrEqual(LEAST_CONTRAST);
  });
});

function sources(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => /\.(css|tsx?)$/.test(name));
}

test("colours and lengths stand in tokens.css only", () => {
  const literal = /#[0-9a-f]{3,8}\b|\b(?:rgb|hsl|oklch)a?\(|\b\d*\.?\d+(?:px|rem|em|ch|ms)\b/i;
  const styles = sources(SOURCE).filter((name) => name.endsWith(".css") && name !== "tokens.css");
  for (const name of styles) {
    const lines = readFileSync(join(SOURCE, name), "utf8").split("\n");
    const wrong = lines.filter((line) => literal.test(line) && !line.trimStart().startsWith("@media"));
    expect(wrong, name).toEqual([]);
  }
});
