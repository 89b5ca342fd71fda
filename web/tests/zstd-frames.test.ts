import { decompress } from "fzstd";
import { describe, expect, test } from "vitest";
import { frameOfBeginning } from "../src/model/zstd-frames";

const MAGIC = [0x28, 0xb5, 0x2f, 0xfd];
const BLOCK_BYTES = 1 << 17;

const head = (kind: number, bytes: number, last = 0) => {
  const value = last | (kind << 1) | (bytes << 3);
  return [value & 0xff, (value >> 8) & 0xff, value >> 16];
};
/** Three stored bytes, then runs of 128 KiB, of which the last ends the frame. */
const blocks = (runs: number) => [
  ...head(0, 3),
  ...[1, 2, 3],
  ...Array.from({ length: runs }, (_, run) => [...head(1, BLOCK_BYTES, Number(run === runs - 1)), run]).flat(),
];
/** Headers: a window, a small and a long size, and a window of more than a gigabyte with a dictionary and a checksum. */
const HEADERS = [
  [0x00, 0x38],
  [0x20, 200],
  [0xe0, 3, 0, 2, 0, 0, 0, 0, 0],
  [0x05, 0xa7, 0],
];

describe("the beginning of a frame", () => {
  test.each(HEADERS)("has its whole blocks, whatever its header says %#", (...header) => {
    const frame = Uint8Array.from([...MAGIC, ...header, ...blocks(3)]);
    const start = MAGIC.length + header.length;
    for (const [bytes, length] of [
      [5, 0],
      [6, 3],
      [9, 3],
      [10, 3 + BLOCK_BYTES],
      [14, 3 + 2 * BLOCK_BYTES],
    ] as const) {
      const beginning = frameOfBeginning(frame.subarray(0, start + bytes), 10 * BLOCK_BYTES);
      expect(beginning ? decompress(beginning).length : 0).toBe(length);
    }
    const whole = frameOfBeginning(frame, 10 * BLOCK_BYTES);
    const output = decompress(whole as Uint8Array);
    expect([output.length, ...output.subarray(0, 4), output.at(-1)]).toEqual([3 + 3 * BLOCK_BYTES, 1, 2, 3, 0, 2]);
  });

  test("has no more blocks than are asked for", () => {
    const frame = Uint8Array.from([...MAGIC, 0x00, 0x38, ...blocks(1000)]);
    const beginning = frameOfBeginning(frame, BLOCK_BYTES);
    expect(decompress(beginning as Uint8Array).length).toBe(3 + BLOCK_BYTES);
  });

  test("of other bytes is none", () => {
    expect(frameOfBeginning(Uint8Array.of(0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 0), 100)).toBeUndefined();
    expect(frameOfBeginning(new Uint8Array(), 100)).toBeUndefined();
  });
});
