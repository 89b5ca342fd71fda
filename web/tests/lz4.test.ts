import { describe, expect, test } from "vitest";
import { decompressLz4, decompressLz4Raw } from "../src/model/lz4";

const bytes = (hex: string) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
const text = (output: Uint8Array) => new TextDecoder().decode(output);

/** Blocks that Arrow's codec `lz4_raw` has written. */
const BLOCKS: readonly (readonly [hex: string, text: string])[] = [
  ["00", ""],
  ["30616263", "abc"],
  ["3F616263030001506361626364", `${"abc".repeat(9)}d`],
  ["1F610100FF197F626364656667680700F9506465666768", "a".repeat(300) + "bcdefgh".repeat(40)],
];

test.each(BLOCKS)("block %s", (hex, expected) => {
  expect(text(decompressLz4Raw(bytes(hex), expected.length))).toBe(expected);
  expect(text(decompressLz4(bytes(hex), expected.length))).toBe(expected);
});

test("Hadoop's frames are one text", () => {
  const frame = ([hex, expected]: readonly [string, string]) => {
    const head = [expected.length, hex.length / 2].map((length) => length.toString(16).padStart(8, "0"));
    return head.join("") + hex;
  };
  const parts = [BLOCKS[2], BLOCKS[1], BLOCKS[3]] as [string, string][];
  const expected = parts.map(([, part]) => part).join("");
  expect(text(decompressLz4(bytes(parts.map(frame).join("")), expected.length))).toBe(expected);
});

describe("damage", () => {
  test.each([
    ["a length that is not the expected one", "30616263", 2],
    ["fewer bytes than expected", "30616263", 4],
    ["a match before the beginning", "1F610200FF19", 300],
    ["a match without a distance", "1F610000FF1900", 300],
    ["literals beyond the end", "F06162", 15],
    ["a length that goes on without end", `F0${"FF".repeat(20)}`, 1 << 20],
  ])("%s is an error", (_, hex, length) => {
    expect(() => decompressLz4Raw(bytes(hex), length)).toThrow("damaged");
    expect(() => decompressLz4(bytes(hex), length)).toThrow("damaged");
  });

  test("of any byte ends within the expected size", () => {
    const [hex, expected] = BLOCKS[3] as [string, string];
    for (let place = 0; place < hex.length / 2; place += 1) {
      for (const value of [0, 0x0f, 0x7f, 0xff]) {
        const block = bytes(hex);
        block[place] = value;
        try {
          expect(decompressLz4Raw(block, expected.length)).toHaveLength(expected.length);
        } catch (error) {
          expect((error as Error).message).toMatch("damaged");
        }
      }
    }
  });
});
